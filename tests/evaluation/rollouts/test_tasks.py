"""A policy that knows several tasks is told which to do in rollouts, suites, reports and replay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import ChunkExecutor, Observation, UserError
from act_policy.evaluation.control_loop import episode_in_lock_step
from act_policy.evaluation.evaluate import EvaluationConfig, evaluate
from act_policy.evaluation.rollouts.delays import Delay, make_executor
from act_policy.evaluation.rollouts.demonstrations import TrainingDemonstrations
from act_policy.evaluation.rollouts.moments import Seen
from act_policy.evaluation.rollouts.run import Rollout, evaluate_policy, run_episode, tell_task
from act_policy.evaluation.rollouts.suite_rows import Suite, SuiteRow
from act_policy.evaluation.suite import run_suite
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy, build

SEVERAL = replace(SCHEMA, tasks=("stay", "reach it"))


class ToldPolicy(SeeingPolicy):
    """Goes to the target if it is told so."""

    schema = SEVERAL

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        return super().predict_chunk(observation) * int(SEVERAL.task_index(observation.task))


@pytest.mark.parametrize(("told", "reached"), [("reach it", True), ("stay", False)])
def test_an_episode_is_told_also_through_the_loop(told: str, reached: bool) -> None:
    executor, environment = ChunkExecutor(ToldPolicy()), build(SEVERAL)
    result = run_episode(environment, tell_task(executor.select_action, told), 10)
    assert result.success is reached
    through = episode_in_lock_step(environment, executor, 10, told)
    np.testing.assert_array_equal(through.actions, result.actions)
    late = make_executor(ToldPolicy(), None, None, Delay(2), 0)
    assert run_episode(environment, tell_task(late.select_action, told), 10).success is reached
    with pytest.raises(UserError, match=r"task: .*'stay', 'reach it'"):
        episode_in_lock_step(environment, executor, 10)


def test_rollouts_carry_it() -> None:
    rollouts = [Rollout(10, task="stay"), Rollout(10, task="reach it")]
    results = evaluate_policy(ToldPolicy, build, rollouts, 1)
    assert [result.success for result in results] == [False, True]


@pytest.mark.parametrize("asked", [None, "fly"])
def test_unknown_or_missing_words_are_refused_before_anything_starts(
    tmp_path: Path, asked: str | None
) -> None:
    checkpoint = tmp_path / "policy.onnx"
    checkpoint.write_bytes(b"any")
    config = EvaluationConfig(instruction=asked)
    with pytest.raises(UserError, match=r"task: .*'stay', 'reach it'"):
        evaluate(checkpoint, tmp_path / "a", config, load=lambda _: ToldPolicy(), build=build)
    suite = Suite("several", (SuiteRow("own", "a", task="stay"), SuiteRow("given", "a")))
    with pytest.raises(UserError, match=r"row 'given': task: .*'stay', 'reach it'"):
        run_suite(checkpoint, tmp_path, suite, config, load=lambda _: ToldPolicy(), build=build)


def test_demonstrations_of_the_task_alone_are_replayed() -> None:
    actions = [np.full((2, 1), value, np.float32) for value in range(3)]
    shown = TrainingDemonstrations(actions, frozenset({7}), tasks=("a", "b", "a"))
    assert [part[0, 0] for part in shown.of_task("a").actions] == [0, 2]
    assert shown.of_task("a").seeds == {7}
    assert shown.of_task("c") is shown is shown.of_task(None)


def test_a_reports_chunks_are_predicted_for_what_was_told() -> None:
    observation = Observation({}, np.zeros(1, np.float32))
    assert Seen(np.zeros((1, 1)), {3: observation}).tell("stay").moments[3].task == "stay"
