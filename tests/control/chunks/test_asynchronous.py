"""The asynchronous executor: true ages, blending, rates, late and broken answers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from act_policy import Observation, UserError
from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.config import config_from_dict
from act_policy.execution import Execution
from tests.control.loop_for_tests import CHUNK_LENGTH, SCHEMA, Clock, LateInference, space_of
from tests.examples import FEW

STEP = 1 / SCHEMA.rate


def observe(value: float = 0.0) -> Observation[np.ndarray]:
    images = {name: np.zeros((4, 6, 3), np.uint8) for name in SCHEMA.camera_names}
    return Observation(images, np.array([value, 0.5], np.float32))


class Counting:
    """Row i of the n-th chunk is (100 n + i) in every dimension."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, observation: Observation[np.ndarray]) -> np.ndarray:
        rows = 100.0 * self.calls + np.arange(CHUNK_LENGTH)
        self.calls += 1
        return np.tile(rows[:, None], (1, 3))


def make(
    delay: float = 0.0, safety: dict[str, Any] | None = None, **timing: Any
) -> tuple[AsynchronousExecutor, LateInference, Clock]:
    described = config_from_dict({"timing": timing, "safety": safety or {}})
    clock = Clock()
    inference = LateInference(clock, Counting(), delay)
    return AsynchronousExecutor(inference, space_of(described), described), inference, clock


def follow(
    executor: AsynchronousExecutor, clock: Clock, ticks: int, period: float = STEP, index: int = 0
) -> list[float | None]:
    """Look and act so often; the actions of one dimension."""
    actions: list[float | None] = []
    for _ in range(ticks):
        executor.observe(observe(), clock.now, clock.now)
        proposal = executor.action(clock.now)
        actions.append(None if proposal is None else float(proposal.action[index]))
        clock.now += period
    return actions


def test_without_delay_it_does_what_the_synchronous_executor_does() -> None:
    executor, _, clock = make(execute_steps=4, blend_steps=0)

    class Policy:
        schema, chunk_length = SCHEMA, CHUNK_LENGTH
        statistics, demonstration_seeds, execution = None, (), Execution()
        predict_chunk = Counting().__call__

    synchronous = ChunkExecutor(Policy(), execute_steps=4)
    expected = [float(synchronous.select_action(observe())[0]) for _ in range(15)]
    assert follow(executor, clock, 15) == expected


@pytest.mark.parametrize(
    ("timing", "own", "expected"),
    [
        ({}, Execution(), (None, CHUNK_LENGTH // 2)),
        ({}, Execution(1), (None, 1)),
        ({}, Execution(CHUNK_LENGTH), (None, CHUNK_LENGTH // 2)),
        ({}, Execution(ensemble_coefficient=0.1), (0.1, 1)),
        ({"execute_steps": 2}, Execution(ensemble_coefficient=0.1), (None, 2)),
        ({"ensemble_coefficient": 0.2}, Execution(2), (0.2, 1)),
        ({"execute_steps": 3, "ensemble_coefficient": 0.2}, Execution(2), (0.2, 3)),
    ],
)
def test_the_config_counts_before_the_policys_own_execution(
    timing: dict[str, Any], own: Execution, expected: tuple[float | None, int]
) -> None:
    config = config_from_dict({"timing": timing})
    inference = LateInference(Clock())
    inference.execution = own
    executor = AsynchronousExecutor(inference, space_of(config), config)
    assert (executor.ensemble_coefficient, executor.execute_steps) == expected


def test_rows_past_when_a_chunk_arrives_are_dropped() -> None:
    executor, inference, clock = make(delay=2 * STEP, execute_steps=5, blend_steps=0)
    actions = follow(executor, clock, 16)
    # Nothing until the first chunk, which begins when it comes: the arm rested meanwhile. The
    # second question is asked 5 steps after the first, and its answer enters with its row 2.
    assert actions[:7] == [None, None, 0, 1, 2, 3, 4]
    assert actions[7:12] == [102, 103, 104, 105, 106]
    assert actions[12:] == [202, 203, 204, 205]
    np.testing.assert_allclose(np.diff(inference.asked), 5 * STEP)


@FEW
@given(
    delays=st.lists(st.floats(0, 4.5), min_size=40, max_size=40),
    execute_steps=st.integers(1, 5),
    blend_steps=st.integers(0, 3),
    motor_rate=st.sampled_from([None, 25.0, 7.0]),
)
def test_an_action_is_of_its_own_moment_whatever_the_delays(
    delays: list[float], execute_steps: int, blend_steps: int, motor_rate: float | None
) -> None:
    """Row i of a chunk says the moment it is meant for: what is done is the present moment."""
    timing: dict[str, Any] = {"motor_rate": motor_rate} if motor_rate else {}
    timing |= {"execute_steps": execute_steps, "blend_steps": blend_steps}
    executor, inference, clock = make(safety={"max_answer_time": 9}, **timing)
    begun = clock.now
    period = 1 / (motor_rate or SCHEMA.rate)

    def meant_for(observation: Observation[np.ndarray]) -> np.ndarray:
        moments = observation.state[0] + np.arange(CHUNK_LENGTH) * STEP
        return np.tile(moments[:, None], (1, 3))

    inference.predict = meant_for
    moves = rested = False
    for delay in delays:
        inference.delay = delay * STEP
        executor.observe(observe(clock.now - begun), clock.now, clock.now)
        proposal = executor.action(clock.now)
        rested |= moves and proposal is None
        moves |= proposal is not None
        # the first begins when it comes, as one does after a rest
        first = proposal is not None and executor._chunks[-1].captured == inference.asked[0]
        if proposal is not None and not first and not rested:
            assert executor._chunks[-1].begin == executor._chunks[-1].captured
            if not blend_steps or executor._blending.passed(clock.now):
                assert proposal.action[0] == pytest.approx(clock.now - begun, abs=1e-3)
            assert proposal.age <= CHUNK_LENGTH * STEP + 1e-6
        clock.now += period


def test_the_age_counts_from_the_capture() -> None:
    executor, _, clock = make(delay=2 * STEP)
    executor.observe(observe(), clock.now - 0.07, clock.now)
    clock.now += 2 * STEP
    proposal = executor.action(clock.now)
    assert proposal is not None
    assert proposal.age == pytest.approx(2 * STEP + 0.07)


def test_a_new_chunk_passes_in_slowly_but_a_gripper_switches_at_once() -> None:
    arm, _, clock = make(execute_steps=5, blend_steps=3)
    shoulder = follow(arm, clock, 10)
    assert shoulder[:5] == [0, 1, 2, 3, 4]
    # old rows 5, 6, 7 and new rows 100, 101, 102: a quarter, a half, three quarters
    assert shoulder[5:9] == pytest.approx(
        [5 + 0.25 * 95, 6 + 0.5 * 95, 7 + 0.75 * 95, 103], abs=1e-4
    )
    gripper, _, clock = make(execute_steps=5, blend_steps=3)
    assert follow(gripper, clock, 8, index=1)[5:] == [100, 101, 102]


def test_a_wrapping_angle_is_neither_blended_nor_interpolated() -> None:
    described = config_from_dict(
        {
            "joints": {"shoulder": {"wraps": [-500, 500]}},
            "timing": {"execute_steps": 5, "blend_steps": 3, "motor_rate": 20.0},
        }
    )
    clock = Clock()
    executor = AsynchronousExecutor(
        LateInference(clock, Counting()), space_of(described), described
    )
    actions = follow(executor, clock, 12, period=STEP / 2)
    assert actions == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 100, 100]


def test_a_faster_motor_gets_interpolated_actions() -> None:
    executor, _, clock = make(motor_rate=40.0, blend_steps=0)
    actions = follow(executor, clock, 9, period=STEP / 4)
    assert actions == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2], abs=1e-4)


def test_a_slower_motor_skips_steps() -> None:
    executor, _, clock = make(motor_rate=4.0, blend_steps=0, execute_steps=10)
    assert follow(executor, clock, 3, period=0.25) == pytest.approx([0, 2.5, 5], abs=1e-4)


def test_no_action_past_the_end_of_a_chunk() -> None:
    executor, inference, clock = make(execute_steps=10, safety={"max_answer_time": 99.0})
    follow(executor, clock, 1)
    inference.delay = 99.0
    assert follow(executor, clock, 12)[8:] == [9, None, None, None]


@pytest.mark.parametrize("blend_steps", [0, 4])
def test_ensembling_is_that_of_the_paper(blend_steps: int) -> None:
    """At no latency, whatever the settings of the other mode."""
    executor, _, clock = make(ensemble_coefficient=0.5, blend_steps=blend_steps)

    class Policy:
        schema, chunk_length = SCHEMA, CHUNK_LENGTH
        statistics, demonstration_seeds, execution = None, (), Execution()
        predict_chunk = Counting().__call__

    synchronous = ChunkExecutor(Policy(), ensemble_coefficient=0.5)
    expected = [float(synchronous.select_action(observe())[0]) for _ in range(25)]
    assert follow(executor, clock, 25) == pytest.approx(expected)


@pytest.mark.parametrize("latency", [1, 2, 3, 4])
def test_a_late_ensemble_averages_every_chunk_that_has_come(latency: int) -> None:
    """Against the formula over all answers; i counts steps, not chunks."""
    executor, inference, clock = make(delay=latency * STEP, ensemble_coefficient=0.1)
    begun = clock.now
    actions = follow(executor, clock, 40)
    asked = np.round((np.array(inference.asked) - begun) / STEP).astype(int)
    np.testing.assert_array_equal(np.diff(asked), latency)  # asked again as soon as it is free
    for step in range(latency, 40):
        made = [
            # the first chunk begins when it comes
            (captured, 100.0 * n + step - (captured if n else latency))
            for n, captured in enumerate(asked)
            if captured + latency <= step < (captured if n else latency) + CHUNK_LENGTH
        ]
        weights = np.array([np.exp(-0.1 * (captured - made[0][0])) for captured, _ in made])
        mean = weights @ [value for _, value in made] / weights.sum()
        assert actions[step] == pytest.approx(mean, rel=1e-5)


def swinging(observation: Observation[np.ndarray]) -> np.ndarray:
    """Go on from where it is, by 0.5 a step; the base rolls at 0.3."""
    steps = np.arange(CHUNK_LENGTH)
    return np.stack([observation.state[0] + 0.5 * steps, 0 * steps, 0 * steps + 0.3], 1)


@pytest.mark.parametrize("motor_rate", [None, 40.0])
@pytest.mark.parametrize("ensemble", [{}, {"ensemble_coefficient": 0.01}])
def test_after_a_rest_the_arm_goes_on_from_where_it_is(
    ensemble: dict[str, float], motor_rate: float | None
) -> None:
    """A chunk that comes too late begins where the arm stands, in both modes alike."""
    timing = {"motor_rate": motor_rate} if motor_rate else {}
    executor, inference, clock = make(safety={"max_answer_time": 9}, **timing, **ensemble)
    inference.predict = swinging
    ticks = round((motor_rate or SCHEMA.rate) / SCHEMA.rate)
    arm, resting, where = [], [], 0.0
    for tick in range(60 * ticks):
        inference.delay = 3.2 if len(inference.asked) == 2 else 0.0  # 2 s after the chunk is over
        if tick % ticks == 0:
            executor.observe(observe(where), clock.now, clock.now)
        proposal = executor.action(clock.now)
        if proposal is None:
            resting.append(tick)
        where = where if proposal is None else float(proposal.action[0])
        arm.append(where)
        clock.now += STEP / ticks
    assert len(resting) > 15 * ticks
    after = np.diff(arm[resting[-1] :])
    assert after.max() <= (0.8 if ensemble and motor_rate else 0.58) / ticks
    assert after.min() > -0.05
    assert arm[-1] - arm[0] > 11


@FEW
@given(
    latencies=st.lists(st.floats(0, 25), min_size=30, max_size=30),
    motor_rate=st.sampled_from([None, 40.0]),
    ensemble=st.sampled_from([{}, {"ensemble_coefficient": 0.01}]),
)
# a chunk ends in the step in which the next one comes, while it still passes out of a rest
@example([4.0, 9.5] + 28 * [0.0], 40.0, {})
def test_no_latency_makes_a_step(
    latencies: list[float], motor_rate: float | None, ensemble: dict[str, float]
) -> None:
    """A policy that goes on from what it sees by 0.5 a step; a bare chunk would jump by 4.5."""
    timing = {"motor_rate": motor_rate} if motor_rate else {}
    executor, inference, clock = make(safety={"max_answer_time": 9}, **timing, **ensemble)
    inference.predict = swinging
    ticks = round((motor_rate or SCHEMA.rate) / SCHEMA.rate)
    where, most = None, 0.0
    for tick in range(90 * ticks):
        inference.delay = latencies[len(inference.asked) % 30] * STEP
        if tick % ticks == 0:
            executor.observe(observe(where or 0.0), clock.now, clock.now)
        if (proposal := executor.action(clock.now)) is not None:
            arm = float(proposal.action[0])
            most = most if where is None else max(most, abs(arm - where))
            where = arm
        clock.now += STEP / ticks
    assert most * ticks < (1.5 if ensemble and motor_rate else 0.8)


def test_a_base_begins_to_roll_in_steps_after_a_rest() -> None:
    executor, inference, clock = make(
        safety={"max_answer_time": 9}, blend_steps=2, execute_steps=10
    )
    inference.predict = swinging
    assert follow(executor, clock, 1, index=2) == pytest.approx([0.3])
    inference.delay = 1.3
    clock.now += 10 * STEP - STEP
    rolls = follow(executor, clock, 18, index=2)
    resumed = [roll for roll in rolls[1:] if roll is not None]
    assert resumed[:3] == pytest.approx([0.1, 0.2, 0.3])


def test_a_chunk_that_waits_passes_in_when_the_one_in_force_ends() -> None:
    executor, _, clock = make(delay=4 * STEP, execute_steps=1, blend_steps=9)
    actions = follow(executor, clock, 40)
    first = actions.index(0)
    assert None not in actions[first:]


@pytest.mark.parametrize("motor_rate", [40.0, 100.0])
def test_a_blend_begins_without_a_step_at_a_faster_motor_rate(motor_rate: float) -> None:
    executor, _, clock = make(execute_steps=5, blend_steps=3, motor_rate=motor_rate)
    ticks = round(motor_rate / SCHEMA.rate)
    actions = np.array(follow(executor, clock, 10 * ticks, 1 / motor_rate), float)
    begin = int(4.5 * ticks)  # half a step early, as images may be
    blend = np.diff(actions)[begin - 1 : begin - 1 + 4 * ticks]
    # a gap of 95.5 in four steps of the policy, and a row forward in each
    assert blend == pytest.approx((95.5 / 4 + 1) / ticks, rel=1e-4)


def test_a_policy_that_does_not_answer_is_a_fault() -> None:
    executor, inference, clock = make(execute_steps=2, safety={"max_answer_time": 0.35})
    follow(executor, clock, 2)
    inference.delay = 2.0
    assert follow(executor, clock, 4)[-1] == 5  # the chunk lasts, but nobody knows for how long
    with pytest.raises(PolicyError, match=r"not answered for 0\.40 s"):
        follow(executor, clock, 2)


def test_after_a_reset_the_open_answer_does_not_count() -> None:
    executor, inference, clock = make(delay=3 * STEP)
    follow(executor, clock, 2)
    executor.reset()
    inference.delay = 0.0
    actions = follow(executor, clock, 4)
    assert actions == [None, 100, 101, 102]  # of the second question


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_chunk_that_is_not_finite_is_refused(bad: float) -> None:
    executor, inference, clock = make()
    broken = np.zeros((CHUNK_LENGTH, 3))
    broken[7, 1] = bad
    inference.predict = lambda observation: broken
    with pytest.raises(PolicyError, match="not a finite number in gripper"):
        follow(executor, clock, 1)
    inference.predict = lambda observation: np.zeros((3, 3))
    with pytest.raises(PolicyError, match=r"\(3, 3\), expected a chunk of floats \(10, 3\)"):
        follow(executor, clock, 9)


def test_only_the_action_tells_of_a_failure() -> None:
    """An executor that drives by something else observes all the same."""
    executor, inference, clock = make(delay=STEP)
    inference.predict = lambda observation: np.zeros((3, 3))
    executor.observe(observe(), clock.now, clock.now)
    clock.now += STEP
    executor.observe(observe(), clock.now, clock.now)
    with pytest.raises(PolicyError, match="expected a chunk of floats"):
        executor.action(clock.now)
    executor.reset()
    assert executor.action(clock.now) is None


@pytest.mark.parametrize("name", ["execute_steps", "blend_steps"])
def test_more_steps_than_a_chunk_has_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=rf"timing\.{name} is 11, the policy's chunk has 10"):
        make(**{name: 11})


def test_a_whole_chunk_of_a_slow_policy_is_not_stale() -> None:
    config = config_from_dict({"timing": {"execute_steps": 10, "blend_steps": 0}})
    clock = Clock()
    inference = LateInference(clock, Counting(), delay=3 * STEP)
    executor = AsynchronousExecutor(inference, space_of(), config)
    ages = []
    for _ in range(13):
        executor.observe(observe(), clock.now, clock.now)
        if (proposal := executor.action(clock.now)) is not None:
            ages.append(proposal.age)
        clock.now += STEP
    assert ages[-1] == pytest.approx(12 * STEP)  # of ten rows the last, begun three steps late
    assert max(ages) <= executor.max_age
