"""A stop rests, parking is asked for, and no key counts that is older than the fault."""

from typing import Any

import numpy as np
import pytest

from act_policy.control.safety.supervisor import Mode
from tests.control.loop_for_tests import CHUNK_LENGTH, Bench

PARKING = {"joints": {"shoulder": {"park": -0.5, "approach_speed": 0.5}}}


def rolling(observation: Any) -> np.ndarray:
    return np.tile([*observation.state, 0.3], (CHUNK_LENGTH, 1))


def shoulders(sent: list[dict[str, float]]) -> list[float]:
    return [command["shoulder"] for command in sent]


def black(bench: Bench) -> None:
    """A camera fails: a fault that does not concern the arm."""
    bench.arm.change = lambda image: image * 0


def test_an_operators_stop_rests_where_it_is() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    bench.operator.key(" ")
    sent = bench.run(20)
    assert sent == [{"shoulder": pytest.approx(0.2), "gripper": 0.5, "base": 0.0}] * 20


def test_a_fault_parks_slowly() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    black(bench)
    sent = bench.run(30)
    assert shoulders(sent)[:3] == pytest.approx([0.15, 0.1, 0.05])
    assert shoulders(sent)[-1] == pytest.approx(-0.5)
    assert all(command["base"] == 0 for command in sent)


@pytest.mark.parametrize("stopped_before", [False, True])
def test_the_operator_parks_by_a_key(stopped_before: bool) -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    if stopped_before:
        bench.operator.key(" ")
        bench.run(5)
    bench.operator.key("p")
    sent = bench.run(30)
    assert np.abs(np.diff([0.2, *shoulders(sent)])).max() == pytest.approx(0.05)
    assert shoulders(sent)[-1] == pytest.approx(-0.5)
    assert all(command["base"] == 0 for command in sent)
    assert bench.events.counts["park"] == 1


def test_the_key_to_park_moves_nothing_that_was_not_started_and_stops_without_a_place() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.operator.key("p")
    assert bench.run(5) == []
    bench = Bench(rolling)
    bench.start(5)
    bench.operator.key("p")
    assert bench.run(3)[-1]["base"] == 0
    assert "no joint has a parking place" in bench.supervisor.reason


def test_a_stop_ends_parking() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    black(bench)
    sent = bench.run(3)
    bench.operator.key(" ")
    assert bench.run(20) == [sent[-1]] * 20
    assert bench.events.events[-1].detail == ("parking ended: the operator stopped the robot (key)")
    assert bench.supervisor.reason == "camera front is black"  # the first reason stays


def test_a_measurement_that_leaps_ends_parking() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    bench.operator.key("p")
    sent = bench.run(3)
    observe = bench.arm.get_observation
    bench.arm.get_observation = lambda: observe()._replace(  # type: ignore[method-assign]
        joints={"shoulder": 0.9, "gripper": 0.5}
    )
    assert bench.run(20) == [sent[-1]] * 20
    assert bench.events.events[-1].kind == "measurement leap"


def test_the_end_of_a_run_moves_nothing() -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    bench.loop.hold(bench.clock.now)
    assert bench.arm.sent[-1] == {"shoulder": pytest.approx(0.2), "gripper": 0.5, "base": 0.0}


def test_a_key_before_the_fault_does_not_release_it() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.operator.key("\n")
    bench.clock.now += 0.8  # the driver blocked, and the operator pressed meanwhile
    bench.run(3)
    assert bench.supervisor.mode is Mode.HOLDING
    assert bench.events.counts["resume"] == 0
    bench.start(3)
    assert bench.events.counts["resume"] == 1


@pytest.mark.parametrize("key", ["\n", "p"])
def test_a_key_during_the_tick_of_the_fault_does_not_count(key: str) -> None:
    bench = Bench(rolling, config=PARKING)
    bench.start(5)
    working = bench.arm.send_action

    def hang(action: Any) -> None:
        bench.operator.key(key)
        bench.arm.send_action = working  # type: ignore[method-assign]
        raise OSError("no status packet")

    bench.arm.send_action = hang  # type: ignore[method-assign]
    still = bench.run(6)[1:]
    assert bench.supervisor.mode is Mode.HOLDING
    assert shoulders(still) == pytest.approx([0.2] * len(still))


def test_a_hold_that_was_out_of_control_is_not_resumed_by_an_earlier_key() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.operator.key(" ")
    bench.run(3)
    bench.operator.key("\n")
    bench.clock.now += 0.8
    bench.run(3)
    assert bench.supervisor.mode is Mode.HOLDING


def test_a_fault_is_never_resumed_in_its_own_tick() -> None:
    bench = Bench(rolling)
    bench.start(5)
    now = bench.clock.now
    bench.supervisor.fault(now, "camera", "black")
    bench.supervisor.start(now)
    assert bench.supervisor.mode is Mode.HOLDING
    bench.supervisor.start(now + 0.1)
    assert bench.supervisor.moving
