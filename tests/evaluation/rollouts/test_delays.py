"""Late answers in lock step: exact delays, and the same actions where there is no delay."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.evaluation.rollouts.delays import Delay, EpisodeExecutor, make_executor
from act_policy.evaluation.rollouts.run import Rollout, evaluate_policy, run_episode
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy, build

LENGTH = 8
PLACES = replace(SCHEMA, action_names=("x",), action_units=("m",))
"""Its action is a position, which stays where it is at rest."""


class Telling(SeeingPolicy):
    """Row i of the chunk from the images of step n is 100 n + i; the state says n."""

    chunk_length = LENGTH

    def __init__(self, schema: Any = SCHEMA) -> None:
        self.schema = schema
        self.asked: list[int] = []

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        self.asked.append(round(float(observation.state[0])))
        return (100.0 * self.asked[-1] + np.arange(LENGTH, dtype=np.float32))[:, None]


def observe(step: int) -> Observation[np.ndarray]:
    images = {c.name: np.zeros((c.height, c.width, 3), np.uint8) for c in SCHEMA.cameras}
    return Observation(images, np.array([step], np.float32))


def act(executor: EpisodeExecutor, steps: int) -> list[float]:
    return [float(executor.select_action(observe(step))[0]) for step in range(steps)]


@pytest.mark.parametrize("blend_steps", [None, 0])
@pytest.mark.parametrize("stop_and_wait", [True, False])
def test_without_delay_every_way_is_the_same(blend_steps: int | None, stop_and_wait: bool) -> None:
    if stop_and_wait and blend_steps is not None:
        pytest.skip("excluded")
    executor = make_executor(Telling(), 3, None, Delay(0, stop_and_wait, blend_steps), seed=0)
    whole = ChunkExecutor(Telling(), 3)
    expected = [float(whole.select_action(observe(step))[0]) for step in range(20)]
    assert act(executor, 20) == expected
    assert executor.captured == [3 * (step // 3) for step in range(20)]


def test_the_asynchronous_executor_without_delay_is_the_waiting_one() -> None:
    """The two are different code: blending over no step makes it ask and switch at once."""
    from act_policy.control.config import TimingConfig
    from act_policy.evaluation.rollouts.delays import DelayedExecutor, _Answers

    for options in ({"execute_steps": 3}, {"ensemble_coefficient": 0.1}):
        timing = TimingConfig(blend_steps=0, **options)  # type: ignore[arg-type]
        delayed = DelayedExecutor(Telling(), timing, _Answers(Delay(0), 0))
        waiting = make_executor(
            *(Telling(), options.get("execute_steps"), options.get("ensemble_coefficient")),
            *(Delay(0), 0),
        )
        np.testing.assert_allclose(act(delayed, 30), act(waiting, 30), rtol=1e-6)
        assert delayed.captured == waiting.captured


def test_an_answer_comes_exactly_as_many_steps_late() -> None:
    policy = Telling()
    executor = make_executor(policy, 4, None, Delay(2, blend_steps=0), seed=0)
    actions = act(executor, 12)
    # The first chunk begins when it comes. The next question is asked while its row 4 - 2 is done
    # (the clock has run 2 steps more than the episode), and enters with its own row 2.
    assert actions[:4] == [0, 1, 2, 3]
    asked = policy.asked[1]
    entered = next(i for i, action in enumerate(actions) if action >= 100)
    assert entered - asked == 2
    assert actions[entered] == 100 * asked + 2
    assert executor.captured[entered - 1 : entered + 1] == [0, asked]


def test_while_it_waits_a_motion_stops_and_a_position_stays() -> None:
    for schema, rest in ((SCHEMA, 0.0), (PLACES, 2.0)):
        executor = make_executor(Telling(schema), 3, None, Delay(2, stop_and_wait=True), seed=0)
        actions = act(executor, 8)
        assert actions == [0, 1, 2, rest, rest, 300, 301, 302]
        assert executor.captured == [0, 0, 0, 0, 0, 3, 3, 3]


def test_an_arm_rests_where_its_chunk_ends_before_the_next_one_comes() -> None:
    executor = make_executor(Telling(), LENGTH, None, Delay(3, blend_steps=0), seed=0)
    actions = act(executor, 18)
    # asked again every 8 steps from its own images on: the second chunk is of step 5, the third of
    # step 13, where the second ends
    assert actions[:8] == list(range(8))
    assert actions[8:13] == [503, 504, 505, 506, 507]
    assert actions[13:] == [0, 0, 0, 1300, 1301]


def test_delays_that_vary_are_drawn_by_the_seed_within_their_range() -> None:
    def late(seed: int) -> list[int]:
        policy = Telling()
        executor = make_executor(policy, 1, None, Delay((1, 3), blend_steps=0), seed)
        act(executor, 60)
        return [b - a for a, b in zip(policy.asked[1:], policy.asked[2:], strict=False)]

    assert late(1) == late(1)
    assert late(1) != late(2)
    assert set(late(1)) == {1, 2, 3}  # asked again as soon as it has answered


def test_an_ensemble_takes_late_answers_too() -> None:
    executor = make_executor(Telling(), None, 0.0, Delay(2), seed=0)
    act(executor, 6)
    assert executor.captured[0] == 0
    assert executor.captured[-1] == 3  # of step 5: asked at 3, there at 5


def test_each_episode_has_its_own_delays_whatever_the_workers() -> None:
    rollouts = [Rollout(seed) for seed in range(10, 14)]
    delay = Delay((0, 2))
    results = evaluate_policy(SeeingPolicy, build, rollouts, 1, 2, None, delay)
    for result in results:
        executor = make_executor(SeeingPolicy(), 2, None, delay, result.seed)
        again = run_episode(build(SCHEMA), executor.select_action, result.seed)
        np.testing.assert_array_equal(again.actions, result.actions)
        assert result.captured is not None
        assert result.captured.tolist() == executor.captured


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Delay(-1), "0 or more"),
        (lambda: Delay((3, 1)), "FEWEST,MOST"),
        (lambda: Delay(2, True, 4), "leave one of the two out"),
        (lambda: make_executor(Telling(), 9, None, Delay(2), 0), "8 steps"),
        (lambda: make_executor(Telling(), 2, None, Delay(2, blend_steps=9), 0), "blend_steps is 9"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
