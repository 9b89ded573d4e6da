"""A policy of several tasks is told which to do wherever it is tried in simulation or replayed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import ChunkExecutor, Observation, UserError
from act_policy.data.aloha.episode import write_episode
from act_policy.evaluation.compare import ComparisonConfig, compare
from act_policy.evaluation.control_loop import episode_in_lock_step
from act_policy.evaluation.evaluate import EvaluationConfig, evaluate
from act_policy.evaluation.rollouts.contest import Contestant
from act_policy.evaluation.rollouts.delays import Delay, make_executor
from act_policy.evaluation.rollouts.demonstrations import (
    TrainingDemonstrations,
    find_demonstrations,
    find_environment,
)
from act_policy.evaluation.rollouts.moments import Seen
from act_policy.evaluation.rollouts.run import Rollout, evaluate_policy, run_episode, tell_task
from act_policy.evaluation.rollouts.suite_rows import Suite, SuiteRow
from act_policy.evaluation.suite import run_suite
from act_policy.evaluation.tune import TuningConfig, explain, tune
from act_policy.execution import Execution
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


def test_demonstrations_of_the_task_alone_are_replayed_where_they_were_recorded(
    tmp_path: Path,
) -> None:
    for number, task in enumerate(("stay", "reach it")):
        schema = replace(SCHEMA, environment=f"fake/{number}-v0")
        for seed in (2 * number, 2 * number + 1):
            write_episode(
                *(tmp_path / f"{number}" / f"episode_{seed}.hdf5", schema),
                {c.name: np.zeros((5, c.height, c.width, 3), np.uint8) for c in schema.cameras},
                *(np.full((5, 1), number), np.full((5, 1), number)),
                seed=seed,
                config={"max_steps": 10 + number},
                instruction=task,
            )
    run = {"data": {"path": tmp_path / "0", "mix": [{"path": tmp_path / "1"}]}}
    told = find_demonstrations(run, None, "reach it")
    assert told is not None
    assert [float(actions[0, 0]) for actions in told.actions] == [1.0, 1.0]
    assert told.seeds == {0, 1, 2, 3}  # also those of other tasks are refused
    assert (told.config["max_steps"], told.environments) == (11, ("fake/1-v0",))
    for unknown in (None, "fly"):
        every = find_demonstrations(run, None, unknown)
        assert every is not None
        assert len(every.actions) == 4
        assert every.environments == ("fake/0-v0", "fake/1-v0")


def test_a_policy_of_several_environments_acts_where_its_task_was_demonstrated() -> None:
    one, several = SCHEMA, replace(SEVERAL, environment="")
    here, there = (TrainingDemonstrations([], environments=(e,)) for e in (SCHEMA.environment, "x"))
    assert find_environment({"one": one, "several": several}, []) == SCHEMA.environment
    assert find_environment({"several": several}, [there]) == "x"
    assert find_environment({"several": several}, []) == ""
    assert find_environment({"one": one}, [there]) == SCHEMA.environment
    with pytest.raises(UserError, match=r"different environments \(one: fake/Reach-v0; demonst.*x"):
        find_environment({"one": one, "several": several}, [here, there])


def load_contestant(contestant: Contestant) -> SeeingPolicy:
    return ToldPolicy() if contestant.checkpoint.name == "several.onnx" else SeeingPolicy(1.0)


def load_told(contestant: Contestant) -> SeeingPolicy:
    return ToldPolicy()


def contestants(folder: Path) -> list[Contestant]:
    made = [Contestant(name, folder / f"{name}.onnx") for name in ("one", "several")]
    for one in made:
        one.checkpoint.write_bytes(one.name.encode())
    return made


def test_a_policy_of_one_task_is_compared_with_one_of_several(tmp_path: Path) -> None:
    out, config = tmp_path / "out", ComparisonConfig(seed=10, episodes=3, instruction="stay")
    policies = contestants(tmp_path)
    options = {"workers": 1, "films": 0, "load": load_contestant, "build": build}
    report = compare(policies, out, config, **options)
    assert [policy["success_rate"] for policy in report["policies"]] == [1.0, 0.0]
    page = (out / "report.html").read_text()
    assert "fake/Reach-v0, &#39;stay&#39;: one against several" in page
    with pytest.raises(UserError, match="holds a comparison with other instruction"):
        compare(policies, out, replace(config, instruction="reach it"), **options)


@pytest.mark.parametrize("asked", [None, "fly"])
def test_comparing_and_tuning_refuse_like_an_evaluation(tmp_path: Path, asked: str | None) -> None:
    _, policy = contestants(tmp_path)
    twice = [replace(policy, name="a"), replace(policy, name="b", execute_steps=2)]
    config, tuning = ComparisonConfig(instruction=asked), TuningConfig(instruction=asked)
    with pytest.raises(UserError, match=r"policies: a: task: .*'stay', 'reach it'"):
        compare(twice, tmp_path / "out", config, workers=1, load=load_told, build=build)
    with pytest.raises(UserError, match=r"^task: .*'stay', 'reach it'"):
        tune(policy, tmp_path / "out", tuning, workers=1, load=load_told, build=build)
    assert not (tmp_path / "out").exists()


def test_tuning_says_for_which_task() -> None:
    candidates, seeds = [Execution(4), Execution(2)], [7, 8, 9]
    reason = explain(candidates, [1.0, 0.5], [0], 0, seeds, "reach it")
    assert reason.startswith("tuned: 100% of 3 initial states of 'reach it' succeeded (seeds 7 to")


def test_a_reports_chunks_are_predicted_for_what_was_told() -> None:
    observation = Observation({}, np.zeros(1, np.float32))
    assert Seen(np.zeros((1, 1)), {3: observation}).tell("stay").moments[3].task == "stay"
