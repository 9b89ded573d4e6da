"""The whole loop by hand: start, soft start, holds, limits and time."""

import numpy as np
import pytest

from act_policy.control.loop import run
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.supervisor import Mode
from tests.control.loop_for_tests import Bench, rolling, towards


def test_nothing_is_sent_before_the_operator_says_so() -> None:
    bench = Bench()
    assert bench.run(5) == []
    bench.operator.key(" ")  # a stop changes nothing, and withdraws the start
    assert bench.run(2) == []
    assert bench.start() != []
    assert bench.supervisor.mode is Mode.RUNNING


def test_the_first_target_is_approached_slowly_then_the_policy_looks_again() -> None:
    bench = Bench(towards(0.9))
    sent = [command["shoulder"] for command in bench.start(50)]
    # a tenth of the demonstrated range (2 rad) a second: 0.02 rad a tick, from 0.2
    np.testing.assert_allclose(np.diff(sent[:30]), 0.02, atol=1e-9)
    assert bench.supervisor.mode is Mode.RUNNING
    assert sent[-1] == pytest.approx(0.9)
    assert all(command["base"] == 0 for command in bench.arm.sent[:30])
    kinds = [event.kind for event in bench.events.events]
    assert kinds == ["start", "approach", "running"]
    assert len(bench.inference.asked) >= 2


def test_from_outside_the_limits_the_approach_is_as_slow() -> None:
    bench = Bench(towards(0.3), config={"joints": {"shoulder": {"low": -0.5, "high": 0.4}}})
    bench.arm.joints["shoulder"] = 0.9
    sent = [command["shoulder"] for command in bench.start(10)]
    assert sent[0] == pytest.approx(0.88)
    np.testing.assert_allclose(np.diff(sent), -0.02, atol=1e-9)
    bench.operator.key(" ")
    held = [command["shoulder"] for command in bench.run(5)]
    assert held == pytest.approx([sent[-1]] * 5)


def test_the_approach_has_an_end() -> None:
    bench = Bench(towards(0.9), config={"safety": {"approach_time": 1.0}})
    bench.start(15)
    assert bench.supervisor.reason == "the first target was not reached within 1.0 s"


@pytest.mark.parametrize(("shoulder", "refused"), [(1.3, False), (1.5, True), (57.3, True)])
def test_no_start_from_a_pose_far_outside_the_demonstrations(
    shoulder: float, refused: bool
) -> None:
    bench = Bench()
    bench.arm.joints["shoulder"] = shoulder
    bench.start()
    assert (bench.supervisor.mode is Mode.WAITING) == refused
    if refused:
        (event,) = bench.events.events
        assert event.kind == "start refused"
        assert event.detail == f"shoulder is at {shoulder} rad, demonstrated was -1 to 1"
        assert bench.arm.sent == []


def test_the_operators_stop_holds_until_the_operator_resumes() -> None:
    bench = Bench(rolling)
    assert bench.start(5)[-1]["base"] == pytest.approx(0.3)
    bench.operator.key(" ")
    for command in bench.run(20):
        assert command == {"shoulder": pytest.approx(0.2), "gripper": 0.5, "base": 0.0}
    assert bench.supervisor.reason == "the operator stopped the robot (key)"
    bench.start(5)
    assert bench.supervisor.mode is Mode.RUNNING
    assert bench.arm.sent[-1]["base"] == pytest.approx(0.3)
    assert bench.events.counts["operator stop"] == 1
    assert bench.events.counts["resume"] == 1


def test_the_key_to_take_over_stops_where_there_is_nothing_to_take_over_with() -> None:
    bench = Bench(rolling)
    bench.start(5)
    bench.operator.key("t")
    assert bench.run(2)[-1]["base"] == 0
    assert bench.supervisor.reason.startswith("the operator stopped the robot (key t, and there")


def test_resuming_begins_where_the_arm_is_now() -> None:
    bench = Bench()
    bench.start()
    bench.operator.key(" ")
    bench.run(2)
    bench.arm.joints["shoulder"] = -0.6  # pushed by hand, while it holds
    bench.arm.send_action = lambda action: bench.arm.sent.append(dict(action))  # type: ignore[method-assign]
    bench.run(1)
    bench.start(4)
    assert bench.arm.sent[-1]["shoulder"] == pytest.approx(-0.6)


def test_the_arm_is_not_started_at_a_place_where_it_was_for_one_reading_only() -> None:
    bench = Bench()
    bench.start()
    bench.operator.key(" ")
    bench.run(2)
    bench.arm.joints["shoulder"] = 0.9  # an encoder's slip, inside the demonstrated range
    sent = bench.start(1)
    assert sent[-1]["shoulder"] == pytest.approx(0.2)
    assert bench.events.events[-1].kind == "start refused"
    assert "shoulder went from 0.2 to 0.9 rad" in bench.events.events[-1].detail
    bench.arm.joints["shoulder"] = 0.2
    bench.run(2)
    bench.start(4)
    assert bench.supervisor.mode is Mode.RUNNING


def test_a_motion_ends_at_once_however_slowly_it_may_change() -> None:
    bench = Bench(rolling, config={"joints": {"base": {"max_speed": 0.5}}})
    assert bench.start(12)[-1]["base"] == pytest.approx(0.3)
    bench.operator.key(" ")
    assert bench.run(1)[-1]["base"] == 0
    bench.start(12)
    bench.loop.hold(bench.clock.now)  # there is one command at the end of a run
    assert bench.arm.sent[-1]["base"] == 0


def test_a_hold_ends_in_the_owners_release() -> None:
    released: list[str] = []
    bench = Bench(
        config={"safety": {"hold_time": 1.0}}, release=lambda: released.append("torque off")
    )
    bench.start(5)
    bench.operator.key(" ")
    assert len(bench.run(30)) == pytest.approx(11, abs=1)
    assert released == ["torque off"]
    assert bench.supervisor.mode is Mode.RELEASED
    assert bench.start(5) == []


def test_limits_are_kept_and_counted() -> None:
    config = {"joints": {"shoulder": {"low": -0.5, "high": 0.5, "max_speed": 0.4}}}
    wanted = towards(0.2)
    bench = Bench(wanted, config=config)
    bench.start(5)
    bench.inference.predict = towards(1.5)
    sent = [command["shoulder"] for command in bench.run(30)]
    assert np.diff(sent).max() == pytest.approx(0.04)
    assert sent[-1] == 0.5
    kinds = [event.kind for event in bench.events.events]
    assert kinds.count("range limit: shoulder") == 1  # one event, however long it lasts
    assert bench.events.counts["range limit: shoulder"] > 10
    assert bench.events.counts["speed limit: shoulder"] == pytest.approx(7, abs=1)


def test_a_faster_motor_looks_at_the_policys_rate() -> None:
    bench = Bench(rolling, config={"timing": {"motor_rate": 40.0}})
    looks: list[float] = []
    observe = bench.arm.get_observation

    def counted() -> Reading:
        looks.append(bench.clock.now)
        return observe()

    bench.arm.get_observation = counted  # type: ignore[method-assign]
    sent = bench.start(40)
    assert len(sent) == pytest.approx(40, abs=1)
    np.testing.assert_allclose(np.diff(looks), 0.1)


def test_a_run_ends_with_a_hold_and_counts_its_ticks() -> None:
    bench = Bench(rolling)
    bench.operator.key("\n")
    punctuality = run(bench.loop, bench.operator, 2.0, bench.clock, bench.clock.sleep)
    assert bench.arm.sent[-1]["base"] == 0
    assert bench.arm.sent[-2]["base"] == pytest.approx(0.3)
    assert punctuality.ticks == pytest.approx(20, abs=1)
    assert bench.supervisor.reason == "the run ended"


def test_lost_ticks_are_not_made_up_for() -> None:
    bench = Bench(config={"safety": {"max_tick_time": 9.0}})
    bench.operator.key("\n")
    observe, times = bench.arm.get_observation, []

    def slow() -> Reading:
        times.append(bench.clock.now)
        reading = observe()
        bench.clock.now += 0.35 if len(times) == 5 else 0.01
        return reading

    bench.arm.get_observation = slow  # type: ignore[method-assign]
    punctuality = run(bench.loop, bench.operator, 2.0, bench.clock, bench.clock.sleep)
    steps = np.diff(times)
    assert steps[4] == pytest.approx(0.35)
    np.testing.assert_allclose(np.delete(steps, 4), 0.1)
    assert punctuality.missed == 1
    assert punctuality.worst == pytest.approx(350)
    assert punctuality.p50 == pytest.approx(10)
