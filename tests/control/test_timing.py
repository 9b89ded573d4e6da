"""Time on the whole loop: starved and late policies, slow loops, old images and other clocks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from act_policy import Observation
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.supervisor import Mode
from tests.control.loop_for_tests import CHUNK_LENGTH, Bench


def rolling(observation: Observation[np.ndarray]) -> np.ndarray:
    return np.tile([*observation.state, 0.3], (CHUNK_LENGTH, 1))


def kinds(bench: Bench) -> list[str]:
    return [event.kind for event in bench.events.events]


ENSEMBLE = {"ensemble_coefficient": 0.01}


@pytest.mark.parametrize("timing", [{}, ENSEMBLE])
def test_starvation_beyond_the_limit_is_a_fault(timing: dict[str, Any]) -> None:
    config = {"safety": {"max_answer_time": 9.0, "max_starved_time": 0.5}, "timing": timing}
    bench = Bench(rolling, config=config)
    bench.start(8)
    bench.inference.delay = 5.0
    sent = [command["base"] for command in bench.run(25)]
    assert kinds(bench)[-1] == "starved"
    assert bench.supervisor.mode is Mode.HOLDING
    ended = sent.index(0.0)  # the chunk is over
    assert not any(sent[ended:])
    fault = bench.events.events[-1].time
    begun = next(event.time for event in bench.events.events if event.kind == "no action")
    assert fault - begun == pytest.approx(0.5, abs=0.11)


def test_a_latency_longer_than_a_chunk_is_a_fault_although_each_answer_comes_in_time() -> None:
    bench = Bench(rolling, delay=1.2, config={"safety": {"max_answer_time": 2.0}})
    bench.start(100)
    assert kinds(bench)[-1] == "starved"


def test_a_short_rest_is_forgiven() -> None:
    bench = Bench(rolling, config={"safety": {"max_answer_time": 9.0}})
    bench.start(8)
    for _ in range(4):
        bench.inference.delay = 0.7  # longer than the rest of the chunk
        bench.run(14)
        bench.inference.delay = 0.0
        bench.run(40)
    assert bench.events.counts["no action"] > 5  # more than max_starved_time in all
    assert bench.supervisor.mode is Mode.RUNNING


def slow_down(bench: Bench, seconds: float) -> Callable[[], Reading]:
    observe = bench.arm.get_observation

    def slow() -> Reading:
        bench.clock.now += seconds
        return observe()

    return slow


@pytest.mark.parametrize(("late", "found"), [(0.005, False), (0.02, True), (0.1, True)])
def test_a_loop_that_slows_down_is_a_fault(late: float, found: bool) -> None:
    bench = Bench(rolling)
    bench.start(30)
    for _ in range(40):
        bench.clock.now += late
        bench.run(1)
    assert ("slow loop" in kinds(bench)) == found
    assert (bench.supervisor.mode is Mode.HOLDING) == found
    if found:
        assert "times a second instead of 10" in bench.supervisor.reason
        bench.start(5)
        assert kinds(bench)[-1] == "start refused"


def test_a_faster_motor_may_be_late_while_the_policy_sees_enough() -> None:
    bench = Bench(rolling, config={"timing": {"motor_rate": 40.0}})
    bench.operator.key("\n")
    for turn in range(200):  # three turns of four steps of time
        bench.run(1)
        bench.clock.now += bench.loop.period * (turn % 3 == 0)
    assert bench.supervisor.mode is Mode.RUNNING


def test_one_late_turn_is_not_a_slow_loop() -> None:
    bench = Bench(rolling)
    bench.start(30)
    bench.clock.now += 0.45
    bench.run(40)
    assert bench.supervisor.mode is Mode.RUNNING


def test_a_camera_that_repeats_its_images_is_a_fault_at_any_rate_of_calls() -> None:
    """Two new images a second among ten looks; the driver answers each call at once."""
    bench = Bench(rolling, config={"timing": {"motor_rate": 20.0}})
    bench.start(60)
    kept: dict[str, np.ndarray] = {}
    calls = 0

    def cached(image: np.ndarray) -> np.ndarray:
        nonlocal calls
        if calls % 14 == 0:  # two cameras, every seventh look
            kept[""] = image
        calls += 1
        return kept[""]

    bench.arm.change = cached
    bench.run(120)
    assert kinds(bench)[-1] == "camera"
    assert "new images a second" in bench.supervisor.reason
    bench.start(3)
    assert kinds(bench)[-1] == "start refused"
    bench.arm.change = lambda image: image
    bench.run(60)
    bench.start(20)
    assert bench.supervisor.mode is Mode.RUNNING


@pytest.mark.parametrize("shift", [0.05, 0.4, -0.35, 1e9, -1e9, np.nan])
def test_a_moment_of_capture_that_cannot_be_is_a_fault(shift: float) -> None:
    bench = Bench(rolling)
    bench.start(10)
    observe = bench.arm.get_observation
    bench.arm.get_observation = lambda: observe()._replace(captured=bench.clock.now + shift)  # type: ignore[method-assign]
    assert bench.run(2)[-1]["base"] == 0
    assert kinds(bench)[-1] == "observation"
    bench.start(3)
    assert kinds(bench)[-1] == "start refused"


def test_the_age_of_each_camera_is_its_own() -> None:
    bench = Bench(rolling)
    bench.start(10)
    observe = bench.arm.get_observation
    age = {"front": 0.2}
    bench.arm.get_observation = lambda: observe()._replace(  # type: ignore[method-assign]
        image_times={name: bench.clock.now - old for name, old in age.items()}
    )
    assert bench.run(5)[-1]["base"] == pytest.approx(0.3)
    age["wrist"] = 0.35
    assert bench.run(2)[-1]["base"] == 0
    assert kinds(bench)[-1] == "observation"
    assert "camera wrist's image was taken 0.35 s ago" in bench.supervisor.reason


def test_images_that_were_taken_during_the_call_are_not_of_the_future() -> None:
    bench = Bench(rolling)
    bench.arm.get_observation = slow_down(bench, 0.03)  # type: ignore[method-assign]
    bench.operator.key("\n")
    for _ in range(30):
        began = bench.clock.now
        bench.loop.tick(began, bench.operator, bench.clock)
        bench.clock.now = began + bench.loop.period
    assert bench.supervisor.mode is Mode.RUNNING
    assert bench.arm.sent[-1]["base"] == pytest.approx(0.3)


def test_images_that_are_never_taken_anew_grow_old() -> None:
    bench = Bench(rolling)
    bench.start(10)
    reading = bench.arm.get_observation()
    bench.arm.get_observation = lambda: reading  # type: ignore[method-assign]
    bench.run(5)
    assert kinds(bench)[-1] == "observation"
