"""Wrong measurements, arms that do not follow and odd policies, tick by tick."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from act_policy import Observation
from act_policy.control.loop import ControlLoop
from act_policy.control.safety.supervisor import Mode
from tests.control.loop_for_tests import CHUNK_LENGTH, Bench


def towards(shoulder: float, base: float = 0.0) -> Any:
    return lambda observation: np.tile([shoulder, observation.state[1], base], (CHUNK_LENGTH, 1))


def swing(observation: Observation[np.ndarray]) -> np.ndarray:
    """A period of a second, whatever is measured: up to 0.7 and down to -0.3."""
    phase = 2 * np.pi * np.arange(CHUNK_LENGTH) / CHUNK_LENGTH
    return np.stack([0.2 + 0.5 * np.sin(phase), 0 * phase + 0.5, 0 * phase + 0.3], axis=1)


WHOLE = {"execute_steps": CHUNK_LENGTH, "blend_steps": 0}
"""A chunk follows the other without a seam."""


def change_joints(bench: Bench, change: Callable[[float], float]) -> None:
    """The shoulder is measured elsewhere than it is."""
    observe = bench.arm.get_observation

    def changed() -> Any:
        reading = observe()
        return reading._replace(
            joints={**reading.joints, "shoulder": change(reading.joints["shoulder"])}
        )

    bench.arm.get_observation = changed  # type: ignore[method-assign]


def shoulders(sent: list[dict[str, float]]) -> np.ndarray:
    return np.array([command["shoulder"] for command in sent])


def test_a_measurement_that_leaps_holds_and_moves_nothing() -> None:
    bench = Bench(towards(0.2, base=0.3))
    bench.start(5)
    change_joints(bench, lambda shoulder: shoulder + 0.9)
    sent = bench.run(10)
    assert sent == [{"shoulder": pytest.approx(0.2), "gripper": 0.5, "base": 0.0}] * 10
    assert bench.events.events[-1].kind == "measurement leap"
    assert bench.supervisor.reason == ("shoulder went from 0.2 to 1.1 rad between two observations")


def test_a_smaller_error_of_the_measurement_draws_no_command_along() -> None:
    config = {"joints": {"shoulder": {"max_step": 0.1}}}
    bench = Bench(towards(0.2), config=config)
    bench.start(5)
    change_joints(bench, lambda shoulder: shoulder + 0.35)
    np.testing.assert_allclose(shoulders(bench.run(10)), 0.2)


@pytest.mark.parametrize("offset", [0.35, 0.9])
def test_the_soft_start_is_slow_whatever_is_measured(offset: float) -> None:
    bench = Bench(towards(0.9))
    sent = bench.start(10)
    change_joints(bench, lambda shoulder: shoulder + offset)
    sent += bench.run(10)
    assert np.abs(np.diff(shoulders(sent))).max() <= 0.02 + 1e-9
    assert (bench.supervisor.mode is Mode.HOLDING) == (offset == 0.9)


@pytest.mark.parametrize("freezes", ["the measurement", "the arm"])
def test_an_arm_that_does_not_follow_is_a_fault(freezes: str) -> None:
    bench = Bench(swing, config={"timing": WHOLE})
    bench.start(20)
    assert bench.supervisor.mode is Mode.RUNNING
    if freezes == "the measurement":
        change_joints(bench, lambda shoulder: 0.2)
    else:
        bench.arm.send_action = lambda action: bench.arm.sent.append(dict(action))  # type: ignore[method-assign]
    assert bench.run(22)[-1]["base"] == 0
    assert bench.supervisor.reason.startswith("shoulder has not followed its commands for 1.")
    assert bench.events.counts["not following"] == 1


def test_a_stalled_arm_is_noticed_in_the_soft_start_too() -> None:
    bench = Bench(towards(-0.9))
    bench.arm.send_action = lambda action: bench.arm.sent.append(dict(action))  # type: ignore[method-assign]
    sent = shoulders(bench.start(60))
    assert bench.supervisor.reason.startswith("shoulder has not followed its commands")
    assert sent[-1] > -0.5


@pytest.mark.parametrize("config", [{}, {"safety": {"tracking_time": 0}}])
def test_an_arm_that_follows_late_is_no_fault(config: dict[str, Any]) -> None:
    bench = Bench(swing, config={"timing": WHOLE, **config})

    def follow(action: Mapping[str, float]) -> None:
        bench.arm.sent.append(dict(action))
        here = bench.arm.joints["shoulder"]
        bench.arm.joints["shoulder"] += 0.4 * (action["shoulder"] - here)  # 0.2 s behind
        bench.arm.joints["gripper"] = 0.9  # it holds something, and does not close

    bench.arm.send_action = follow  # type: ignore[method-assign]
    bench.start(100)
    assert bench.supervisor.mode is Mode.RUNNING


def test_a_policy_far_outside_the_demonstrations_is_not_clipped_for_ever() -> None:
    for config, ends in (({}, True), ({"odd_action_time": 0}, False), ({"odd_action": 9}, False)):
        bench = Bench(towards(0.2, base=0.3), config={"safety": config})
        bench.start(5)
        bench.inference.predict = towards(5.0, base=0.3)
        sent = bench.run(25)
        assert (bench.supervisor.mode is Mode.HOLDING) == ends
        assert (sent[-1]["base"] == 0) == ends
        if ends:
            assert bench.events.events[-1].kind == "odd action"
            assert "asked for shoulder = 5 rad or the like for 1." in bench.supervisor.reason


def test_a_person_may_lead_where_the_policy_may_not() -> None:
    device = type("Leader", (), {"get_action": lambda self: dict.fromkeys(NAMES, 5.0)})()
    bench = Bench(device=device)
    bench.start(5)
    bench.operator.key("t")
    bench.run(150)
    assert bench.supervisor.mode is Mode.RUNNING
    assert bench.arm.sent[-1]["shoulder"] == pytest.approx(1.1)


NAMES = ("shoulder", "gripper", "base")


def fail_reads(bench: Bench, count: int) -> None:
    observe, left = bench.arm.get_observation, [True] * count

    def flaky() -> Any:
        if left:
            left.pop()
            raise ConnectionError("no status packet")
        return observe()

    bench.arm.get_observation = flaky  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("failures", "config", "holds"),
    [
        (1, {}, False),
        (2, {}, True),
        (1, {"failed_reads": 0}, True),
        (3, {"failed_reads": 3}, False),
    ],
)
def test_as_many_failed_reads_as_the_owner_says(
    failures: int, config: dict[str, int], holds: bool
) -> None:
    bench = Bench(towards(0.2, base=0.3), config={"safety": config})
    bench.start(5)
    fail_reads(bench, failures)
    bench.run(5)
    assert (bench.supervisor.mode is Mode.HOLDING) == holds
    assert bench.events.counts["failed read"] == min(failures, config.get("failed_reads", 1))
    if holds:
        assert "no status packet" in bench.supervisor.reason


def test_nothing_starts_while_nothing_is_seen() -> None:
    bench = Bench()
    bench.run(2)
    fail_reads(bench, 1)
    assert bench.start(1) == []
    assert bench.events.events[-1].kind == "start refused"
    assert bench.start(3) != []


def test_a_base_that_waits_for_the_policy_rests_at_once() -> None:
    config = {"joints": {"base": {"max_speed": 0.5}}, "timing": WHOLE}
    bench = Bench(towards(0.2, base=0.3), config=config)
    assert bench.start(9)[-1]["base"] == pytest.approx(0.3)
    bench.inference.delay = 0.5
    rolled = [command["base"] for command in bench.run(6)]
    assert 0.0 in rolled
    assert all(b in (0.0, pytest.approx(0.3)) for b in rolled[: rolled.index(0.0) + 1])


def test_commands_that_were_not_taken_are_not_counted_as_done() -> None:
    config = {"joints": {"shoulder": {"park": -0.5, "approach_speed": 0.5}}}
    bench = Bench(config=config)
    bench.start(5)
    bench.operator.key("p")
    before = shoulders(bench.run(3))[-1]
    working = bench.arm.send_action
    bench.arm.send_action = _unplugged  # type: ignore[method-assign]
    bench.run(5)
    bench.arm.send_action = working  # type: ignore[method-assign]
    assert shoulders(bench.run(1)) == pytest.approx([before])  # a driver's fault ends parking
    bench.operator.key("p")
    assert shoulders(bench.run(1)) == pytest.approx([before - 0.05])


def test_a_hold_before_any_command_was_taken_stays_where_the_arm_was_started() -> None:
    """Else the first command that the driver takes is wherever an encoder says, however far."""
    bench = Bench()
    bench.run(2)
    working = bench.arm.send_action
    bench.arm.send_action = _unplugged  # type: ignore[method-assign]
    bench.start(2)
    bench.arm.joints["shoulder"] = 0.9
    bench.run(2)
    bench.arm.send_action = working  # type: ignore[method-assign]
    assert shoulders(bench.run(3)) == pytest.approx([0.2] * 3)


def _unplugged(*arguments: Any) -> Any:
    raise OSError("unplugged")


def test_a_loop_refuses_a_parking_place_that_it_may_not_go_to() -> None:
    with pytest.raises(Exception, match="outside its limits"):
        Bench(config={"joints": {"shoulder": {"park": 1.2}}})
    assert isinstance(Bench(config={"joints": {"shoulder": {"park": 1.0}}}).loop, ControlLoop)
