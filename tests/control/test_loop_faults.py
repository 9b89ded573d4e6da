"""Faults of the policy, the cameras and the driver: each is a hold, with its reason."""

from typing import Any

import numpy as np
import pytest

from act_policy import Observation
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.supervisor import Mode
from tests.control.loop_for_tests import CHUNK_LENGTH, Bench, hold_still, rolling


def broken(observation: Observation[np.ndarray]) -> np.ndarray:
    chunk = hold_still(observation)
    chunk[3, 0] = np.nan
    return chunk


def test_a_nan_policy_holds_at_once_and_says_where() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.inference.predict = broken
    sent = bench.run(10)
    assert sent[-1] == {"shoulder": pytest.approx(0.2), "gripper": 0.5, "base": 0.0}
    assert bench.supervisor.mode is Mode.HOLDING
    assert bench.supervisor.reason == (
        "the policy predicted an action that is not a finite number in shoulder; "
        "check the checkpoint and the observation"
    )
    assert np.isfinite([list(command.values()) for command in bench.arm.sent]).all()


def test_a_policy_that_stalls_for_two_seconds_holds_and_stays_so() -> None:
    bench = Bench(rolling, config={"safety": {"max_starved_time": 2.0}})
    bench.start(5)
    bench.inference.delay = 2.0
    sent = bench.run(40)
    assert bench.supervisor.mode is Mode.HOLDING
    assert bench.supervisor.reason.startswith("the policy has not answered for 1.")
    moving = [command["base"] > 0 for command in sent]
    # the chunk in force is carried out while it lasts, at most a second from its images
    assert sum(moving) <= CHUNK_LENGTH
    assert moving == sorted(moving, reverse=True)
    assert not bench.inference.busy or bench.run(5)[-1]["base"] == 0


def test_no_action_is_older_than_the_age_that_is_allowed() -> None:
    bench = Bench(
        rolling, config={"safety": {"max_action_age": 0.35}, "timing": {"execute_steps": 9}}
    )
    sent = bench.start(12)
    assert bench.supervisor.reason.startswith("the action rests on what was seen 0.40 s ago")
    assert sum(command["base"] > 0 for command in sent) == 4


def test_a_renamed_camera_holds_and_names_both_sides() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.arm.cameras = ["front", "hand"]
    assert bench.run(2)[-1]["base"] == 0
    assert "the policy has front, wrist; the robot has front, hand" in bench.supervisor.reason
    bench.start(2)
    assert bench.supervisor.mode is Mode.HOLDING
    assert bench.events.events[-1].kind == "start refused"


def test_joints_in_another_order_are_the_same_joints() -> None:
    bench = Bench(rolling)
    bench.arm.joints = dict(reversed(bench.arm.joints.items()))
    bench.start(5)
    assert bench.arm.sent[-1] == pytest.approx({"shoulder": 0.2, "gripper": 0.5, "base": 0.3})


def test_swapped_joints_are_caught_by_their_ranges() -> None:
    bench = Bench()
    bench.arm.joints = {"gripper": -0.9, "shoulder": 0.5}
    bench.start()
    assert bench.events.events[-1].detail == "gripper is at -0.9 0..1, demonstrated was 0 to 1"
    assert bench.arm.sent == []


@pytest.mark.parametrize(
    ("change", "reason", "ticks"),
    [
        (lambda image: image * 0, "camera front is black", 2),
        (lambda image: image * 0 + 99, "camera front has sent the same image for 1.1 s", 14),
    ],
)
def test_a_camera_that_fails(change: Any, reason: str, ticks: int) -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.arm.change = change
    assert bench.run(ticks)[-1]["base"] == 0
    assert bench.supervisor.reason == reason


def test_a_driver_that_fails_is_held_and_tried_again() -> None:
    bench = Bench(rolling)
    bench.start(5)
    working, bench.arm.send_action = bench.arm.send_action, _unplugged  # type: ignore[method-assign]
    bench.run(3)
    bench.arm.send_action = working  # type: ignore[method-assign]
    assert bench.run(2)[-1]["base"] == 0
    assert bench.supervisor.reason == "the robot did not take a command: OSError('unplugged')"
    assert bench.events.counts["command failed"] == 3


def _unplugged(*arguments: Any) -> Any:
    raise OSError("unplugged")


def test_a_robot_that_cannot_be_observed_is_held() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.arm.get_observation = _unplugged  # type: ignore[method-assign]
    assert bench.run(2)[-1]["base"] == 0
    assert bench.supervisor.reason == "the robot's observation failed: OSError('unplugged')"


@pytest.mark.parametrize("captured", [1.7e9, float("nan")])
def test_an_observation_of_another_clock_is_refused(captured: float) -> None:
    bench = Bench(rolling)
    bench.start(5)
    observe = bench.arm.get_observation
    bench.arm.get_observation = lambda: observe()._replace(captured=captured)  # type: ignore[method-assign]
    assert bench.run(2)[-1]["base"] == 0
    assert bench.supervisor.reason.endswith("and the loop's clock (time.monotonic)")


def test_a_turn_that_takes_too_long_is_a_fault() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.clock.now += 0.8
    assert bench.run(1)[-1]["base"] == 0
    assert bench.supervisor.reason == "this turn is 0.80 s late; max_tick_time is 0.5 s"


def test_a_turn_in_which_the_driver_blocked_sends_no_action_any_more() -> None:
    bench = Bench(rolling)
    bench.start(5)
    observe = bench.arm.get_observation

    def slow() -> Reading:
        reading = observe()
        bench.clock.now += 0.8
        return reading

    bench.arm.get_observation = slow  # type: ignore[method-assign]
    bench.loop.tick(bench.clock.now, bench.operator, bench.clock)
    assert bench.arm.sent[-1]["base"] == 0
    assert bench.supervisor.reason == "this turn has taken 0.80 s; max_tick_time is 0.5 s"


def test_a_broken_encoder_does_not_move_an_arm_that_is_held() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.operator.key(" ")
    before = bench.run(1)[-1]
    observe = bench.arm.get_observation
    bench.arm.get_observation = lambda: observe()._replace(joints={"shoulder": 99.0, "gripper": 0})  # type: ignore[method-assign]
    assert bench.run(10) == [before] * 10


def test_a_failing_event_listener_cannot_keep_a_hold_from_the_arm() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.events._tell = _unplugged
    bench.operator.key(" ")
    assert bench.run(1)[-1]["base"] == 0
    assert bench.supervisor.mode is Mode.HOLDING
    bench.start(5)
    bench.loop.hold(bench.clock.now)  # as when the terminal is gone
    assert bench.arm.sent[-1]["base"] == 0
    assert bench.events.counts["event not told"] == 4


@pytest.mark.parametrize("error", [OSError("no status packet"), KeyboardInterrupt()])
def test_the_last_hold_is_tried_again(error: BaseException) -> None:
    bench = Bench(rolling)
    bench.start(5)
    working, calls = bench.arm.send_action, []

    def flaky(action: Any) -> None:
        calls.append(action)
        if len(calls) < 3:
            raise error
        working(action)

    bench.arm.send_action = flaky  # type: ignore[method-assign]
    bench.loop.hold(bench.clock.now)
    assert len(calls) == 3
    assert bench.arm.sent[-1]["base"] == 0


@pytest.mark.parametrize("answer", [{"shoulder": None}, {"shoulder": "0.2"}, 7])
def test_an_answer_of_the_driver_that_is_not_a_command_is_held(answer: Any) -> None:
    bench = Bench(rolling)
    bench.start(5)
    working = bench.arm.send_action
    bench.arm.send_action = lambda action: working(action) or answer  # type: ignore[method-assign]
    sent = bench.run(3)
    if answer == {"shoulder": "0.2"}:
        assert sent[-1]["base"] == pytest.approx(0.3)
    else:
        assert sent[-1]["base"] == 0
        assert "did not take a command" in bench.supervisor.reason


def test_a_release_hook_that_fails_is_reported() -> None:
    bench = Bench(config={"safety": {"hold_time": 1.0}}, release=_unplugged)
    bench.start(5)
    bench.operator.key(" ")
    bench.run(30)
    assert bench.supervisor.mode is Mode.RELEASED
    assert bench.events.events[-1].detail == "OSError('unplugged')"
