"""An environment seen through the selection that a policy was trained with."""

from dataclasses import replace

import numpy as np
import pytest

from act_policy.errors import UserError
from act_policy.evaluation.rollouts.run import build_environment
from act_policy.images.resize import crop_and_resize
from act_policy.types import Camera, Schema

CROP = (4, 8, 40, 48)


@pytest.fixture(scope="module")
def plain() -> Schema:
    camera = Camera("topview", 48, 64)
    environment = build_environment(
        Schema(
            cameras=(camera,),
            state_names=("hand_x", "hand_y", "hand_z", "gripper_opening"),
            state_units=("m", "m", "m", "fraction"),
            action_names=("move_x", "move_y", "move_z", "gripper_effort"),
            action_units=("cm/step", "cm/step", "cm/step", "fraction"),
            rate=80.0,
            environment="act_policy/MetaWorld-reach-v0",
        )
    )
    schema: Schema = environment.unwrapped.schema  # type: ignore[attr-defined]
    environment.close()
    return schema


def test_images_and_state_equal_those_of_training(plain: Schema) -> None:
    selected = replace(
        plain,
        cameras=(Camera("topview", 20, 24, (48, 64), CROP),),
        state_names=("gripper_opening", "hand_x"),
        state_units=("fraction", "m"),
    )
    expected, _ = build_environment(plain).reset(seed=3)
    found, _ = build_environment(selected).reset(seed=3)
    np.testing.assert_array_equal(
        found["pixels"]["topview"], crop_and_resize(expected["pixels"]["topview"], CROP, 20, 24)
    )
    np.testing.assert_array_equal(found["agent_pos"], expected["agent_pos"][[3, 0]])


def test_actions_and_unknown_dimensions_are_refused(plain: Schema) -> None:
    fewer = replace(plain, action_names=plain.action_names[:2], action_units=("cm/step", "cm/step"))
    with pytest.raises(UserError, match="action_names"):
        build_environment(fewer)
    more = replace(
        plain,
        state_names=(*plain.state_names, "velocity_hand_x"),
        state_units=(*plain.state_units, "m/s"),
    )
    with pytest.raises(UserError, match="velocity_hand_x"):
        build_environment(more)
