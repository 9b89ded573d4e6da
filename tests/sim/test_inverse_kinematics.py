"""Joints for what an arm reaches, and joints within their ranges for what it does not."""

import mujoco
import numpy as np
import pytest

from act_policy.sim.aloha.expert import ARM_JOINTS, DOWN, GRASP_POINT, gripper_quaternion
from act_policy.sim.aloha.inverse_kinematics import ArmKinematics, Frame
from act_policy.sim.aloha.physics import models_folder


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_path(str(models_folder() / "bimanual_viperx_transfer_cube.xml"))


@pytest.fixture(params=["left", "right"])
def arm(model, request):
    joints = [f"vx300s_{request.param}/{joint}" for joint in ARM_JOINTS]
    return ArmKinematics(model, joints, f"vx300s_{request.param}/gripper_link", GRASP_POINT)


def test_what_joints_reach_is_reached_again(arm):
    for change in np.random.default_rng(0).uniform(-0.3, 0.3, (10, 6)):
        goal = arm.forward(np.array(DOWN) + change)
        found = arm.forward(arm.solve(goal, np.array(DOWN)))
        np.testing.assert_allclose(found.position, goal.position, atol=1e-4)
        assert abs(found.quaternion @ goal.quaternion) == pytest.approx(1.0, abs=1e-6)


def test_what_is_out_of_reach_leaves_the_joints_within_their_ranges(model, arm):
    goal = Frame(np.array([0.0, 3.0, 0.0]), np.array([1.0, 0, 0, 0]))
    angles = arm.solve(goal, np.array(DOWN))
    low, high = model.jnt_range[:6].T  # the arms are alike
    assert ((low <= angles) & (angles <= high)).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_gripper_pitched_by_90_degrees_points_down(side):
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, gripper_quaternion(side, 90.0, 0.0))
    np.testing.assert_allclose(rotation.reshape(3, 3)[:, 0], [0, 0, -1], atol=1e-12)


def test_the_grippers_point_at_each_other():
    for side, ahead in (("left", 1), ("right", -1)):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, gripper_quaternion(side, 0.0, 0.0))
        np.testing.assert_allclose(rotation.reshape(3, 3)[:, 0], [ahead, 0, 0], atol=1e-12)
