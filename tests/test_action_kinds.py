"""What units and names say about an action, and when demonstrations contradict it."""

from typing import get_args

import pytest

from act_policy.action_kinds import ActionKind, ShownKind, contradicts, declared_kind, stem
from act_policy.statistics import FieldStatistics, Statistics


@pytest.mark.parametrize(
    "unit",
    [
        *("m/s", "rad/sec", "deg per s", "°/s", "degrees per second", "radians_per_second"),
        *("m s^-1", "m·s⁻¹", "m.s-1", "rad/(s)", "1/s", "rpm", "m/min", "mps"),
    ],
)
def test_units_per_second_declare_a_velocity(unit: str) -> None:
    assert declared_kind("x", unit) == "velocity"


@pytest.mark.parametrize("unit", ["cm/step", "mm per frame", "rad / timestep", "rad per time step"])
def test_units_per_step_declare_a_displacement(unit: str) -> None:
    assert declared_kind("x", unit) == "displacement"


@pytest.mark.parametrize("unit", ["rad", "deg", "°", "mm", "0..1", "ticks", "fraction", "steps"])
def test_any_other_unit_of_a_place_declares_a_position(unit: str) -> None:
    assert declared_kind("x", unit) == "position"


@pytest.mark.parametrize("unit", ["", "unknown", "m/s^2", "m/s²", "rad/s/s", "Nm", "N m", "A", "V"])
def test_no_unit_or_that_of_a_force_or_an_acceleration_declares_nothing(unit: str) -> None:
    assert declared_kind("x", unit) == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.vel", "velocity"),
        ("theta.vel", "velocity"),
        ("mobile_base.vx", "velocity"),
        ("base_linear_velocity", "velocity"),
        ("vel_0", "velocity"),
        ("gripper.vel", "velocity"),
        ("delta_x", "displacement"),
        ("ee_delta_yaw", "displacement"),
        ("shoulder_pan.pos", "position"),
        ("joint_pos_3", "position"),
        ("kLeftHipPitch.q", "position"),
        ("gripper_roll.pos", "position"),
        ("gripper.pos", "switch"),
        ("left_gripper", "switch"),
        ("main_shoulder_pan", ""),
        ("gripper_x", ""),
        ("j0", ""),
        ("", ""),
    ],
)
def test_names_declare_a_kind_where_the_unit_is_unknown(name: str, kind: str) -> None:
    assert declared_kind(name, "") == kind


def test_unit_and_name_must_agree() -> None:
    assert declared_kind("delta_x", "m") == "displacement"
    assert declared_kind("gripper", "m/step") == "displacement"
    assert declared_kind("gripper", "rad") == "switch"
    assert declared_kind("x.vel", "m") == declared_kind("x.pos", "m/s") == ""
    assert declared_kind("delta_x", "m/s") == ""


def test_a_contradiction_needs_both_a_word_and_data() -> None:
    assert contradicts("position", "displacement")
    assert contradicts("position", "velocity")
    assert contradicts("position", "motion")
    assert contradicts("velocity", "position")
    assert contradicts("velocity", "displacement")
    assert contradicts("displacement", "target")
    assert not contradicts("velocity", "target")  # of a base whose state is its velocity
    assert not contradicts("position", "target")
    assert not contradicts("velocity", "motion")
    for kind in ("", *get_args(ActionKind)):
        assert not contradicts(kind, "")
        assert kind in ("", "switch") or not contradicts(kind, kind)
    for shown in get_args(ShownKind):
        assert not contradicts("", shown)


def test_the_stem_of_a_name_leaves_out_its_kind() -> None:
    assert stem("delta_x") == stem("x.pos") == stem("x.vel") == "x"
    assert stem("left_gripper") == "left_gripper"


def test_statistics_keep_what_was_shown() -> None:
    field = FieldStatistics(*([0.0, 1.0],) * 4)
    plain = Statistics(field, field, 1, action_kinds=("target", "")).to_dict()
    assert Statistics.from_dict(plain).action_kinds == ("target", "")
    assert "action_kinds" not in Statistics(field, field, 1).to_dict()  # older programs read it
