"""Rollouts: one loop for all, the same for any number of workers, and blind means blind."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import Observation, Schema, UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.evaluation.rollouts.baselines import (
    blindfold,
    draw_demonstration,
    play_recorded,
)
from act_policy.evaluation.rollouts.run import (
    Environments,
    EpisodeResult,
    Rollout,
    build_environment,
    evaluate_policy,
    run_episode,
)
from tests.evaluation.evaluation_for_tests import (
    SCHEMA,
    STEP_LIMIT,
    FailingPolicy,
    ReachEnv,
    SeeingPolicy,
    build,
    build_crashing,
)


def same(left: list[EpisodeResult], right: list[EpisodeResult]) -> bool:
    return all(
        (a.seed, a.success, a.steps) == (b.seed, b.success, b.steps)
        and np.array_equal(a.actions, b.actions)
        for a, b in zip(left, right, strict=True)
    )


def test_one_and_two_workers_find_the_same() -> None:
    rollouts = [Rollout(seed) for seed in range(10, 18)]
    one = evaluate_policy(SeeingPolicy, build, rollouts, workers=1)
    two = evaluate_policy(SeeingPolicy, build, rollouts, workers=2)
    assert same(one, two)
    assert [result.seed for result in one] == list(range(10, 18))
    assert {result.success for result in one} == {True, False}  # beyond 0.9 it cannot reach


def test_an_episode_whose_process_died_is_run_again_and_named(tmp_path: Path) -> None:
    rollouts = [Rollout(seed) for seed in range(10, 14)]
    usual = evaluate_policy(SeeingPolicy, build, rollouts, workers=1)
    crashing = partial(build_crashing, tmp_path / "marker")
    results = evaluate_policy(SeeingPolicy, crashing, rollouts, workers=1)
    assert same(usual, results)
    assert [one.rerun for one in results] == [None, None, "died: exit code 7", None]


def test_a_process_keeps_the_environments_it_used_last() -> None:
    made: list[tuple[str | None, int | None]] = []
    closed: list[str | None] = []

    class Closing(ReachEnv):
        name: str | None = None

        def close(self) -> None:
            closed.append(self.name)

    def make(schema: Schema, max_steps: int = STEP_LIMIT) -> ReachEnv:
        made.append((schema.environment, max_steps))
        environment = Closing({}, max_steps)
        environment.name = schema.environment
        return environment

    environments = Environments(make, SCHEMA)
    for name, steps in ((None, None), ("b", None), (None, None), ("b", 7), (None, None)):
        environments.find(name, steps)
    assert made == [(SCHEMA.environment, STEP_LIMIT), ("b", STEP_LIMIT), ("b", 7)]
    assert closed == ["b"]
    environments.find("b", None)
    assert made[3:] == [("b", STEP_LIMIT)]
    assert environments.find("b", None) is environments.find("b", None)


def test_an_episode_ends_at_its_first_success_or_at_the_limit() -> None:
    environment = build(SCHEMA)
    executor = ChunkExecutor(SeeingPolicy())
    for seed in range(12):
        executor.reset()
        result = run_episode(environment, executor.select_action, seed)
        assert result.success == (abs(environment.x - environment.target) < 0.02)
        assert result.steps == len(result.actions)
        if result.success:
            # 5 cm a step; one step less would still be too far away
            assert abs(environment.target - 0.05 * (result.steps - 1)) >= 0.02
        else:
            assert result.steps == 40


def test_images_are_drawn_only_for_a_new_chunk() -> None:
    environment = build(SCHEMA)
    result = run_episode(environment, ChunkExecutor(SeeingPolicy()).select_action, seed=10)
    assert environment.drawn == -(-result.steps // 4)  # one camera read by the policy, each chunk


def test_execution_settings_reach_the_executor() -> None:
    rollouts = [Rollout(seed) for seed in range(10, 14)]
    for options in ({"execute_steps": 1}, {"ensemble_coefficient": 0.01}):
        results = evaluate_policy(SeeingPolicy, build, rollouts, workers=1, **options)
        executor = ChunkExecutor(SeeingPolicy(), **options)  # type: ignore[arg-type]
        environment = build(SCHEMA)
        for result in results:
            executor.reset()
            assert same([run_episode(environment, executor.select_action, result.seed)], [result])


def test_the_blind_policy_gets_zeros_and_draws_nothing() -> None:
    seen: list[dict[str, np.ndarray]] = []

    class Watched(SeeingPolicy):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            seen.append(dict(observation.images))
            return super().predict_chunk(observation)

    environment = build(SCHEMA)
    blind = blindfold(ChunkExecutor(Watched()).select_action, SCHEMA)
    result = run_episode(environment, blind, seed=10)
    assert environment.drawn == 0
    assert not result.success
    assert {name: image.shape for name, image in seen[0].items()} == {
        "front": (8, 12, 3),
        "side": (8, 8, 3),
    }
    assert all(not image.any() and image.dtype == np.uint8 for s in seen for image in s.values())


def test_black_image_rollouts_fail_where_the_seeing_policy_succeeds() -> None:
    rollouts = [Rollout(10), Rollout(10, black_image=True), Rollout(10)]
    assert [r.success for r in evaluate_policy(SeeingPolicy, build, rollouts, 1)] == [
        True,
        False,
        True,
    ]


def test_a_replayed_demonstration_ignores_what_it_sees() -> None:
    actions = np.array([[0.05], [0.03], [0.01]], np.float32)
    forth = np.full((30, 1), 0.05, np.float32)
    rollouts = [Rollout(10, actions=actions), Rollout(10, actions=forth)]
    ended, reached = evaluate_policy(FailingPolicy, build, rollouts, workers=1)
    np.testing.assert_array_equal(ended.actions, actions)
    assert not ended.success
    assert reached.success
    assert reached.steps < 30


def test_open_loop_hands_out_copies() -> None:
    actions = np.ones((2, 2))
    observation: Observation[Any] = Observation({}, np.zeros(1))
    select_action = play_recorded(actions)
    select_action(observation)[:] = 9
    np.testing.assert_array_equal(actions, np.ones((2, 2)))


def test_the_seed_alone_draws_the_demonstration() -> None:
    demonstrations = [np.full((2, 1), i) for i in range(5)]
    drawn = [int(draw_demonstration(demonstrations, seed)[0, 0]) for seed in range(40)]
    assert drawn == [int(draw_demonstration(demonstrations, seed)[0, 0]) for seed in range(40)]
    assert set(drawn) == {0, 1, 2, 3, 4}


def test_a_policy_that_refuses_is_reported() -> None:
    with pytest.raises(UserError, match="this checkpoint cannot act"):
        evaluate_policy(FailingPolicy, build, [Rollout(1)], workers=1)


def test_a_task_that_does_not_exist_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(UserError, match="fake/Reach-v0"):
        build_environment(SCHEMA)
    with pytest.raises(UserError, match="no simulated environment"):
        build_environment(replace(SCHEMA, environment=""))


def test_the_fake_task_is_deterministic() -> None:
    make = partial(ReachEnv, {"front": (8, 8)})
    assert make().reset(seed=3)[0]["pixels"]["front"].max() == 255
    first, second = make(), make()
    first.reset(seed=3)
    second.reset(seed=3)
    assert first.brightness == second.brightness
