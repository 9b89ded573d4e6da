"""Limits on the command: no random command passes outside them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy import UserError
from act_policy.control.action_space import LimitSources, build_action_space
from act_policy.control.config import RobotConfig, config_from_dict
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.safety.limits import limit_command
from tests.control.loop_for_tests import RANGES, SCHEMA, space_of, statistics_of

wild = st.floats(-1e6, 1e6)


@given(
    wanted=st.tuples(wild, wild, wild), last=st.tuples(wild, wild, wild), measured=st.floats(-9, 9)
)
def test_a_limit_shortens_the_way_from_the_last_command_and_never_turns_it(
    wanted: tuple[float, ...], last: tuple[float, ...], measured: float
) -> None:
    space = space_of(
        config_from_dict({"joints": {"shoulder": {"max_speed": 0.5, "max_step": 0.2}}})
    )
    before, position = np.array(last), np.array([measured, np.nan, np.nan])
    command, cut = limit_command(space, np.array(wanted), before, position, 0.1)
    assert (command >= np.minimum(before, wanted) - 1e-6).all()
    assert (command <= np.maximum(before, wanted) + 1e-6).all()
    assert (np.abs(command - before) <= space.max_speed * 0.1 + 1e-6)[:2].all()
    assert (command >= np.fmin(space.low, before)).all()
    assert (command <= np.fmax(space.high, before)).all()
    # further from the measured position than max_step only where the last command was
    assert abs(command[0] - measured) <= max(0.2, abs(before[0] - measured)) + 1e-6
    if not cut:
        np.testing.assert_allclose(command, wanted, atol=1e-9)


def test_each_cut_is_named_with_both_values() -> None:
    space = space_of(config_from_dict({"joints": {"shoulder": {"max_speed": 0.5}}}))
    rest = np.array([0.0, 0.5, 0.0])
    command, cut = limit_command(space, np.array([0.4, 9.0, 0.0]), rest, rest, 0.1)
    np.testing.assert_allclose(command, [0.05, 1.0, 0.0])
    assert cut == {
        "range limit: gripper": "9 became 1.05 0..1",
        "speed limit: gripper": "1.05 became 1 0..1",
        "speed limit: shoulder": "0.4 became 0.05 rad",
    }


def test_an_arm_outside_its_range_is_not_pulled_in_but_gets_no_further() -> None:
    space = space_of(config_from_dict({"joints": {"shoulder": {"max_speed": 2, "max_step": 9}}}))
    outside = np.array([1.5, 0.5, 0.0])  # the range ends at 1.1
    for wanted, expected in ((1.5, 1.5), (1.45, 1.45), (1.6, 1.5), (0.0, 1.3)):
        command, _ = limit_command(space, np.array([wanted, 0.5, 0.0]), outside, outside, 0.1)
        assert command[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wanted", "measured", "expected"),
    [
        (0.3, 0.0, 0.15),  # the arm lags: no further than max_step ahead of it
        (0.3, 0.9, 0.15),  # leapt or pushed ahead: the way is as before
        (0.3, -0.9, 0.1),  # leapt or pushed behind: the command waits
        (-0.3, -0.9, 0.05),
        (-0.3, 0.9, 0.1),
        (0.1, 0.9, 0.1),  # a command that rests is not drawn along
        (0.1, -0.9, 0.1),
    ],
)
def test_a_wrong_measurement_draws_no_command_along(
    wanted: float, measured: float, expected: float
) -> None:
    space = space_of(
        config_from_dict({"joints": {"shoulder": {"max_speed": 0.5, "max_step": 0.2}}})
    )
    before, position = np.array([0.1, 0.5, 0.0]), np.array([measured, 0.5, np.nan])
    command, _ = limit_command(space, np.array([wanted, 0.5, 0.0]), before, position, 0.1)
    assert command[0] == pytest.approx(expected)


def test_the_short_way_round_an_angle_stays_in_the_range() -> None:
    joint = {"wraps": [-180, 180], "low": -170, "high": 170, "max_speed": 50, "max_step": 1000}
    space = space_of(config_from_dict({"joints": {"shoulder": joint}}))
    for last, wanted, expected in (
        (169.0, -169.0, 170.0),  # not through the gap between 170 and -170
        (-169.0, 169.0, -170.0),
        (160.0, 164.0, 164.0),
        (190.0, -169.0, -170.0),  # measured from 0 to 360: the same place as -170
    ):
        before = np.array([last, 0.5, 0.0])
        command, _ = limit_command(space, np.array([wanted, 0.5, 0.0]), before, before, 0.1)
        assert command[0] == pytest.approx(expected)


def test_an_angle_that_wraps_goes_the_short_way() -> None:
    config = config_from_dict(
        {"joints": {"shoulder": {"wraps": [-180, 180], "max_speed": 100, "max_step": 1000}}}
    )
    space = space_of(config)
    wanted, last = np.array([-170.0, 0.0, 0.0]), np.array([175.0, 0.0, 0.0])
    command, _ = limit_command(space, wanted, last, last, 0.1)
    assert command[0] == pytest.approx(-175.0)
    assert space.difference(wanted, last)[0] == pytest.approx(15.0)


def test_limits_come_from_the_demonstrations_only_where_the_file_is_silent() -> None:
    config = config_from_dict({"joints": {"shoulder": {"low": -3.0}}})
    space = space_of(config)
    assert space.kinds == ("position", "switch", "velocity")
    np.testing.assert_allclose(space.low, [-3.0, -0.05, -0.55])
    np.testing.assert_allclose(space.high, [1.1, 1.05, 0.55])
    np.testing.assert_allclose(space.max_speed, [4.0, 5.0, np.inf])
    np.testing.assert_allclose(space.max_step, [1.0, np.inf, np.inf])
    np.testing.assert_allclose(space.approach_speed, [0.2, 0.1, 0.1])
    assert space.sources == (
        LimitSources(("low",), ("high", "max_speed", "max_step"), relative=False),
        LimitSources((), ("low", "high", "max_speed"), relative=False),
        LimitSources((), ("low", "high"), relative=False),
    )


def test_the_unit_tells_motions() -> None:
    for unit, kind in (("rad/s", "velocity"), ("cm/step", "displacement")):
        schema = replace(SCHEMA, action_units=(*SCHEMA.action_units[:2], unit))
        assert build_action_space(schema, RANGES, RobotConfig()).kinds == (
            "position",
            "switch",
            kind,
        )


def test_a_motion_can_always_be_held() -> None:
    forward = RANGES._replace(action_low=np.array([-1.0, 0.0, 0.2]))
    space = build_action_space(SCHEMA, forward, RobotConfig())
    assert (space.low[2], space.high[2]) == (0.0, pytest.approx(0.515))
    rolling, nan = np.array([0.0, 0.5, 0.3]), np.array([0.0, 0.5, np.nan])
    command, cut = limit_command(space, np.array([0.0, 0.5, 0.0]), rolling, nan, 0.1)
    assert command[2] == 0
    assert cut == {}
    with pytest.raises(UserError, match=r"is a velocity from 0\.1 to 0\.5 m/s; the range must"):
        space_of(config_from_dict({"joints": {"base": {"low": 0.1, "high": 0.5}}}))


def test_without_any_limits_nothing_moves() -> None:
    unknown = DemonstratedRanges.from_statistics(SCHEMA, None)
    with pytest.raises(UserError, match=r"action shoulder has no limits.*low and \.high in rad"):
        build_action_space(SCHEMA, unknown, RobotConfig())
    given_limits = {name: {"low": -1.0, "high": 1.0} for name in ("shoulder", "gripper", "base")}
    space = build_action_space(SCHEMA, unknown, config_from_dict({"joints": given_limits}))
    assert space.max_speed[0] == 4.0
    imported = statistics_of(([-1, 0], [1, 1]), ([-np.inf] * 3, [np.inf] * 3))
    with pytest.raises(UserError, match="has no limits"):
        build_action_space(
            SCHEMA, DemonstratedRanges.from_statistics(SCHEMA, imported), RobotConfig()
        )


def test_differences_are_no_limits_of_positions() -> None:
    state, differences = ([-1.0, 0.0], [1.0, 1.0]), ([-0.01, -0.02, -0.5], [0.01, 0.02, 0.5])
    statistics = statistics_of(state, differences, "shoulder")
    ranges = DemonstratedRanges.from_statistics(SCHEMA, statistics)
    assert list(ranges.action_low) == [-1.0, -0.02, -0.5]
    assert list(ranges.action_high) == [1.0, 0.02, 0.5]
    space = build_action_space(SCHEMA, ranges, RobotConfig())
    assert (space.low[0], space.high[0]) == (pytest.approx(-1.1), pytest.approx(1.1))
    assert space.max_step[0] == pytest.approx(1.0)
    assert [source.relative for source in space.sources[:2]] == [True, False]
    for name in ("base", "elbow"):
        with pytest.raises(UserError, match=f"action {name} is relative.*not have it in both"):
            DemonstratedRanges.from_statistics(
                SCHEMA, statistics._replace(relative_actions=(name,))
            )


def test_what_was_demonstrated_of_each_action_is_known() -> None:
    statistics = statistics_of(([-1.0, 0.0], [1.0, 1.0]), ([-1.0, 0.0, -0.5], [1.0, 1.0, 0.5]))
    for told, known in (((), ("", "", "")), (("target", "", "velocity"),) * 2):
        shown = statistics._replace(action_kinds=told)
        assert DemonstratedRanges.from_statistics(SCHEMA, shown).action_kinds == known
    assert DemonstratedRanges.from_statistics(SCHEMA, None).action_kinds == ("", "", "")
    with pytest.raises(UserError, match="the kinds of 1 actions, its schema has 3"):
        DemonstratedRanges.from_statistics(SCHEMA, statistics._replace(action_kinds=("",)))


def test_a_position_that_nothing_measures_is_refused() -> None:
    config = config_from_dict({"joints": {"base": {"kind": "position"}}})
    with pytest.raises(UserError, match="action base is a position, but the policy's state has no"):
        build_action_space(SCHEMA, RANGES, config)
    named = config_from_dict({"joints": {"base": {"kind": "position", "measured": "shoulder"}}})
    assert list(build_action_space(SCHEMA, RANGES, named).measured) == [0, 1, 0]


def test_a_step_limit_that_nothing_measures_is_refused() -> None:
    with pytest.raises(
        UserError, match=r'joints\."base"\.max_step is 0\.1, but base is a velocity'
    ):
        space_of(config_from_dict({"joints": {"base": {"max_step": 0.1}}}))


def test_a_movement_a_step_keeps_the_policys_rate() -> None:
    joints = {"base": {"kind": "displacement"}}
    with pytest.raises(UserError, match=r"motor_rate=50\.0: base move by an amount per step"):
        space_of(config_from_dict({"joints": joints, "timing": {"motor_rate": 50}}))


def test_a_parking_place_outside_the_limits_is_refused() -> None:
    for joints, message in (
        ({"shoulder": {"park": 1.2}}, r"park is 1\.2 rad, outside its limits of -1\.1 to 1\.1"),
        ({"base": {"park": 0.1}}, "base is a velocity, which rests at 0"),
    ):
        with pytest.raises(UserError, match=message):
            space_of(config_from_dict({"joints": joints}))


def test_a_joint_unknown_to_the_policy_is_refused() -> None:
    with pytest.raises(UserError, match="joints elbow are none of the policy's actions"):
        space_of(config_from_dict({"joints": {"elbow": {"low": 0.0}}}))
