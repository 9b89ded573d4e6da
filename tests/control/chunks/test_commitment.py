"""What the executor says is committed is what the arm then does, as far as the latency is known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from act_policy import Observation
from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.config import config_from_dict
from tests.control.loop_for_tests import CHUNK_LENGTH, SCHEMA, Clock, LateInference, space_of

STEP = 1 / SCHEMA.rate
LENGTH = 4


class Knowing(LateInference):
    """Chunks at random, but for the committed actions; keeps what it is told."""

    prefix_length = LENGTH

    def __init__(self, clock: Clock, delay: float = 0.0):
        super().__init__(clock, self.answer, delay)
        self.told: list[np.ndarray | None] = []
        self._random = np.random.default_rng(0)

    def answer(self, observation: Observation[np.ndarray]) -> np.ndarray:
        self.told.append(observation.prefix)
        return self._random.normal(size=(CHUNK_LENGTH, SCHEMA.action_size))


def observe() -> Observation[np.ndarray]:
    images = {name: np.zeros((4, 6, 3), np.uint8) for name in SCHEMA.camera_names}
    return Observation(images, np.array([0.0, 0.5], np.float32))


def make(delay: float, **timing: Any) -> tuple[AsynchronousExecutor, Knowing, Clock]:
    described = config_from_dict({"timing": timing, "safety": {"max_answer_time": 9}})
    clock = Clock()
    inference = Knowing(clock, delay * STEP)
    return AsynchronousExecutor(inference, space_of(described), described), inference, clock


def committed(told: np.ndarray | None) -> np.ndarray:
    """The committed rows, (n, a)."""
    return np.empty((0, SCHEMA.action_size)) if told is None else told[~np.isnan(told).any(1)]


@settings(max_examples=40)
@given(
    delay=st.integers(0, 5),
    execute_steps=st.integers(1, 5),
    blend_steps=st.integers(0, 3),
    old=st.integers(0, 2),
)
def test_what_is_committed_is_carried_out(
    delay: int, execute_steps: int, blend_steps: int, old: int
) -> None:
    """`old`: how many steps the images are old when they are seen."""
    executor, inference, clock = make(delay, execute_steps=execute_steps, blend_steps=blend_steps)
    begun, done, asked = clock.now, [], []
    for tick in range(40):
        questions = len(inference.told)
        executor.observe(observe(), clock.now - old * STEP, clock.now)
        if len(inference.told) > questions:
            asked.append(tick)
        proposal = executor.action(clock.now)
        done.append(None if proposal is None else proposal.action)
        clock.now = begun + (tick + 1) * STEP
    assert len(asked) == len(inference.told) > 3
    for tick, told in zip(asked[1:], inference.told[1:], strict=True):
        carried_out = done[max(0, tick - old) :][: min(LENGTH, delay + old)]
        if tick + delay >= len(done):
            continue
        until_rest = [action is not None for action in [*carried_out, None]].index(False)
        if tick < old:  # its images are from before the first tick, when the arm was at rest
            until_rest = 0
        rows = committed(told)
        assert len(rows) == until_rest
        for row, action in zip(rows, carried_out, strict=False):
            np.testing.assert_allclose(row, np.array(action, float), rtol=1e-6)


def test_nothing_is_committed_before_the_arm_moves_nor_by_an_ensemble() -> None:
    for timing in ({"execute_steps": 3}, {"ensemble_coefficient": 0.01}):
        executor, inference, clock = make(2, **timing)
        for _ in range(20):
            executor.observe(observe(), clock.now, clock.now)
            executor.action(clock.now)
            clock.now += STEP
        assert inference.told[0] is None
        if "ensemble_coefficient" in timing:
            assert all(told is None for told in inference.told)


def test_the_slowest_of_the_last_answers_is_expected() -> None:
    executor, inference, clock = make(1, execute_steps=2, blend_steps=0)
    counts = []
    for tick in range(80):
        inference.delay = (3 if tick == 20 else 1) * STEP
        executor.observe(observe(), clock.now, clock.now)
        executor.action(clock.now)
        clock.now += STEP
    counts = [len(committed(told)) for told in inference.told]
    assert counts[1] == 1
    assert max(counts) == 3
    assert counts[-1] == 1  # a single slow answer is forgotten


def test_rest_is_not_committed() -> None:
    executor, inference, clock = make(1, execute_steps=CHUNK_LENGTH, blend_steps=0)
    for tick in range(60):
        inference.delay = (6 if tick > 10 else 1) * STEP
        executor.observe(observe(), clock.now, clock.now)
        executor.action(clock.now)
        clock.now += STEP
    # asked when the chunk is over: the arm rests until the answer is there
    assert any(told is None for told in inference.told[2:])


def test_a_policy_that_knows_of_none_is_told_nothing() -> None:
    executor, inference, clock = make(2, execute_steps=3)
    inference.prefix_length = 0
    described = config_from_dict({"timing": {"execute_steps": 3}})
    executor = AsynchronousExecutor(inference, space_of(described), described)
    for _ in range(20):
        executor.observe(observe(), clock.now, clock.now)
        executor.action(clock.now)
        clock.now += STEP
    assert inference.told == [None] * len(inference.told)
    assert len(inference.told) > 3


@pytest.mark.parametrize("rate", [20.0, 7.0])
def test_another_motor_rate_foresees_the_same_within_a_step(rate: float) -> None:
    executor, inference, clock = make(2, execute_steps=4, blend_steps=0, motor_rate=rate)
    begun, done = clock.now, []
    asked: list[float] = []
    for tick in range(60):
        questions = len(inference.told)
        executor.observe(observe(), clock.now, clock.now)
        if len(inference.told) > questions:
            asked.append(clock.now)
        proposal = executor.action(clock.now)
        done.append((clock.now, None if proposal is None else proposal.action))
        clock.now = begun + (tick + 1) / rate
    checked = 0
    for moment, told in zip(asked, inference.told, strict=True):
        for i, row in enumerate(committed(told)):
            exact = [a for at, a in done if a is not None and abs(at - moment - i * STEP) < 1e-6]
            for action in exact:
                np.testing.assert_allclose(row, action, rtol=1e-6)
                checked += 1
    assert checked > 3
