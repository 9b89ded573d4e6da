"""Nothing moves before it is known what its numbers are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import Schema, UserError
from act_policy.action_kinds import ShownKind
from act_policy.control.config import RobotConfig, config_from_dict
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.doubts import DoubtKind, find_doubts, guess_unit, near_zero
from act_policy.control.robots.contract import Contract
from tests.control.loop_for_tests import RANGES, SCHEMA, Bench


def schema_of(names: tuple[str, ...], units: tuple[str, ...]) -> Schema:
    return replace(
        SCHEMA, state_names=names, state_units=units, action_names=names, action_units=units
    )


def ranges_of(low: list[float], high: list[float], *shown: ShownKind) -> DemonstratedRanges:
    ends = np.array(low), np.array(high)
    return DemonstratedRanges(*ends, *ends, images={}, action_kinds=shown)


def kinds(schema: Schema, ranges: DemonstratedRanges, config: Any = None) -> list[DoubtKind]:
    return [doubt.kind for doubt in find_doubts(schema, ranges, config_from_dict(config or {}))]


def test_what_unit_and_name_do_not_say_the_file_must() -> None:
    schema = schema_of(("main_shoulder", "base_0"), ("", ""))
    ranges = ranges_of([-1, -1], [1, 1], "target", "")
    doubts = find_doubts(schema, ranges, RobotConfig())
    assert [(doubt.kind, doubt.names) for doubt in doubts] == [
        (DoubtKind.UNKNOWN_KIND, ("main_shoulder",)),
        (DoubtKind.UNKNOWN_KIND, ("base_0",)),
    ]
    assert "its demonstrations show a target; say it by joints" in doubts[0].sentence
    said = {"joints": {"main_shoulder": {"kind": "position"}, "base_0": {"kind": "velocity"}}}
    assert kinds(schema, ranges, said) == []
    assert Contract(schema, ranges, config_from_dict(said)).space.kinds == ("position", "velocity")


@pytest.mark.parametrize("unit", ["m/s", "deg per s", "rad/sec", ""])
def test_a_base_is_known_by_its_unit_or_by_lerobots_name(unit: str) -> None:
    schema = schema_of(("x.vel", "theta.vel"), (unit, unit))
    ranges = ranges_of([-0.1, -20], [0.1, 20])
    assert kinds(schema, ranges) == []
    assert Contract(schema, ranges, RobotConfig()).space.kinds == ("velocity", "velocity")


def test_demonstrations_that_contradict_unit_and_name_are_a_doubt_until_the_file_decides() -> None:
    schema = schema_of(("x.pos", "y.vel"), ("m", ""))
    shown: tuple[ShownKind, ShownKind]
    for shown in (("velocity", "velocity"), ("displacement", "target"), ("motion", "motion")):
        assert kinds(schema, ranges_of([-1, -1], [1, 1], *shown)) == [DoubtKind.CONTRADICTED_KIND]
    ranges = ranges_of([-1, -1], [1, 1], "velocity", "position")
    assert kinds(schema, ranges) == [DoubtKind.CONTRADICTED_KIND] * 2
    said = {"joints": {"x.pos": {"kind": "velocity"}, "y.vel": {"kind": "velocity"}}}
    assert kinds(schema, ranges, said) == []


def test_unit_and_name_that_contradict_each_other_are_a_doubt() -> None:
    schema = schema_of(("x.vel", "delta_y"), ("m", "m/s"))
    assert kinds(schema, ranges_of([-1, -1], [1, 1])) == [DoubtKind.UNKNOWN_KIND] * 2


@pytest.mark.parametrize(
    ("units", "low", "high", "joint", "expected"),
    [
        (("rad", "rad"), [-1, -1], [1, 1], {}, None),
        (("rad", "rad"), [-1, -90], [1, 90], {}, DoubtKind.UNIT_AND_DEMONSTRATIONS),
        (("deg", "deg"), [-1, -1.5], [1, 1.5], {}, DoubtKind.UNIT_AND_DEMONSTRATIONS),
        (("deg", "deg"), [-1, -60], [1, 60], {}, None),  # a joint that hardly moved
        (("rad", "rad"), [-1, -1], [1, 1], {"high": 90}, DoubtKind.LIMITS_AND_UNIT),
        (("", ""), [-60, -60], [60, 60], {"low": -90, "high": 90}, None),
        (
            *(("", ""), [-60, -60], [60, 60], {"low": -1.57, "high": 1.57}),
            DoubtKind.LIMITS_AND_DEMONSTRATIONS,
        ),
        (
            *(("", ""), [-1, -1], [1, 1], {"low": -90, "high": 90}),
            DoubtKind.LIMITS_AND_DEMONSTRATIONS,
        ),
    ],
)
def test_magnitudes_must_fit_the_unit_and_the_demonstrations(
    units: tuple[str, str], low: Any, high: Any, joint: dict[str, float], expected: Any
) -> None:
    schema = schema_of(("pan.pos", "lift.pos"), units)
    ranges = ranges_of(low, high)
    joints = {"lift.pos": joint}
    assert kinds(schema, ranges, {"joints": joints}) == [expected] * bool(expected)
    said = {"pan.pos": {"unit": units[0] or "deg"}, "lift.pos": {**joint, "unit": units[1]}}
    assert kinds(schema, ranges, {"joints": said}) == []


def test_wide_limits_of_a_joint_that_hardly_moved_are_no_doubt() -> None:
    schema = schema_of(("pan.pos", "lift.pos"), ("", ""))
    limits = {"low": -90, "high": 90}
    joints = {"joints": {"pan.pos": limits, "lift.pos": limits}}
    assert kinds(schema, ranges_of([-0.1, -60], [0.1, 60]), joints) == []


def test_what_measures_a_command_has_its_unit() -> None:
    schema = replace(SCHEMA, state_units=("deg", "0..1"))
    (doubt,) = find_doubts(schema, RANGES, RobotConfig())
    assert (doubt.kind, doubt.names) == (DoubtKind.OTHER_UNIT_MEASURED, ("shoulder",))


def test_a_loop_with_doubts_is_not_made() -> None:
    with pytest.raises(UserError, match=r"limits and unit|a limit of shoulder is 90, which looks"):
        Bench(config={"joints": {"shoulder": {"high": 90}}})
    Bench(config={"joints": {"shoulder": {"high": 90, "unit": "rad"}}})


def test_a_pose_of_another_unit_is_recognised() -> None:
    assert "in radians that would be inside" in guess_unit(1.57, 60.0, 120.0)
    assert "in degrees that would be inside" in guess_unit(90.0, -2.0, 2.0)
    assert guess_unit(95.0, -90.0, 90.0) == ""
    ends = np.array([-60.0, -1.0]), np.array([60.0, 1.0])
    assert near_zero(np.array([0.5, 0.9]), *ends)
    assert not near_zero(np.array([30.0, 0.9]), *ends)
    assert not near_zero(np.zeros(2), np.array([-1.0, np.nan]), np.array([1.0, np.nan]))
