"""Binding by name: what training defines is done alike, anything else names both sides."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.config import RobotConfig, config_from_dict
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.images.resize import crop_and_resize
from act_policy.types import Camera
from tests.control.loop_for_tests import RANGES, SCHEMA, Arm, Clock


def reading() -> Reading:
    return Arm(Clock()).get_observation()


def contract(**config: Any) -> Contract:
    return Contract(SCHEMA, RANGES, config_from_dict(config))


def test_names_bind_whatever_the_order() -> None:
    seen = reading()
    seen.images["front"][:] = 7
    turned = seen._replace(
        images=dict(reversed(seen.images.items())), joints={"gripper": 0.9, "shoulder": -0.1}
    )
    observation = contract().observation(turned)
    np.testing.assert_allclose(observation.state, [-0.1, 0.9])
    assert (observation.images["front"] == 7).all()
    assert (observation.images["wrist"] != 7).any()


def test_other_names_are_bound_where_the_owner_says_so() -> None:
    seen = reading()
    renamed = Reading(
        seen.captured,
        {"camera_0": seen.images["front"], "wrist": seen.images["wrist"], "depth": 0},
        {"joint_1": 0.3, "gripper": 0.5, "current": 2.0},
    )
    bound = contract(
        cameras={"front": "camera_0"},
        state={"shoulder": "joint_1"},
        actions={"shoulder": "joint_1"},
        ignore=["depth", "current"],
    )
    assert bound.observation(renamed).state[0] == pytest.approx(0.3)
    assert bound.command(np.array([0.1, 0.2, 0.3])) == pytest.approx(
        {"joint_1": 0.1, "gripper": 0.2, "base": 0.3}
    )
    np.testing.assert_allclose(bound.action({"base": 3, "gripper": 2, "joint_1": 1}), [1, 2, 3])


@pytest.mark.parametrize(
    ("images", "joints", "message"),
    [
        (
            {"wrist": None},
            {},
            "the robot has front; the robot has to have wrist too",
        ),
        ({"extra": 1}, {}, "the robot has extra, front, wrist; if extra is not needed"),
        ({}, {"gripper": None}, "joint names differ: the policy has gripper, shoulder"),
        ({}, {"gripper": np.nan}, "no finite number for gripper"),
        ({"front": np.zeros((4, 6, 3))}, {}, "camera front: float64 .*expected uint8"),
        ({"front": np.zeros((6, 4, 3), np.uint8)}, {}, r"camera front: uint8 \(6, 4, 3\), exp"),
        ({"front": np.zeros((3, 4, 6), np.uint8)}, {}, r"camera front: uint8 \(3, 4, 6\), exp"),
    ],
)
def test_a_robot_that_differs_is_refused(
    images: dict[str, Any], joints: dict[str, Any], message: str
) -> None:
    seen = reading()
    both = [
        {k: v for k, v in {**old, **new}.items() if v is not None}
        for old, new in ((seen.images, images), (seen.joints, joints))
    ]
    with pytest.raises(UserError, match=message):
        contract().observation(Reading(0.0, *both))


def test_a_larger_image_is_made_as_in_training() -> None:
    camera = Camera("front", 4, 6, source_size=(16, 24), crop=(0, 0, 12, 24))
    schema = replace(SCHEMA, cameras=(camera, SCHEMA.cameras[1]))
    seen = reading()
    large = np.random.default_rng(0).integers(0, 255, (16, 24, 3), dtype=np.uint8)
    observation = Contract(schema, RANGES, RobotConfig()).observation(
        seen._replace(images={**seen.images, "front": large})
    )
    np.testing.assert_array_equal(
        observation.images["front"], crop_and_resize(large, (0, 0, 12, 24), 4, 6)
    )


def test_actions_and_rate() -> None:
    contract().check_actions(["base", "shoulder", "gripper"])
    with pytest.raises(UserError, match=r"has shoulder; the robot has to have base, gripp"):
        contract().check_actions(["shoulder"])
    assert contract().check_rate([0.0, 0.1, 0.2]) == pytest.approx(10)
    with pytest.raises(UserError, match=r"gives 5\.0 observations per second, .*trained on 10"):
        contract().check_rate([0.0, 0.2, 0.4])


def test_names_that_cannot_be_bound_are_refused() -> None:
    with pytest.raises(UserError, match=r"cameras top are none of the policy's front, wrist"):
        contract(cameras={"top": "camera_0"})
    with pytest.raises(UserError, match="have the same name on the robot"):
        contract(cameras={"front": "wrist"})
    with pytest.raises(UserError, match="which no robot measures"):
        Contract(replace(SCHEMA, environment_state_names=("cube_x",)), RANGES, RobotConfig())
