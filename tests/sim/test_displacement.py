"""Objects that are moved while the arm is on its way to them."""

import gymnasium
import numpy as np
import pytest

from act_policy.errors import UserError
from act_policy.sim import ALOHA_TASKS, aloha_environment_id, environment_id
from act_policy.sim.aloha.tasks import TASKS
from act_policy.sim.displacement import DisplacedObjects, Displacement
from act_policy.sim.environment import scripted_expert

HOME = np.array([0, -0.96, 1.16, 0, -0.3, 0, 0.1] * 2, np.float32)


def displaced(task, step, seed=1000, distance=0.03):
    environment = gymnasium.make(aloha_environment_id(task), disable_env_checker=True)
    environment = DisplacedObjects(environment, Displacement(step, distance))
    environment.reset(seed=seed)
    return environment


@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_objects_on_the_table_slide_by_the_distance_within_their_area(task):
    for seed in range(1000, 1010):
        environment = displaced(task, 30, seed)
        for _ in range(30):
            environment.step(HOME)
        before = environment.unwrapped.object_poses
        environment.step(HOME)
        after = environment.unwrapped.object_poses
        moved = np.linalg.norm((after - before)[:, :2], axis=1)
        np.testing.assert_allclose(moved, 0.03, atol=1e-3)
        np.testing.assert_allclose(after[:, 2:], before[:, 2:], atol=1e-3)
        for pose, (_, area) in zip(after, TASKS[task].objects, strict=True):
            for place, (low, high) in zip(pose, area, strict=False):
                assert low - 1e-3 <= place <= high + 1e-3


def test_the_seed_alone_draws_the_displacement():
    def end(seed):
        environment = displaced("TransferCube", 20, seed)
        for _ in range(25):
            environment.step(HOME)
        return environment.unwrapped.joint_positions

    np.testing.assert_array_equal(end(1000), end(1000))


def test_a_lifted_object_stays_in_the_gripper():
    environment = displaced("TransferCube", 150)
    expert = scripted_expert(environment)
    ended = False
    while not ended:  # it would fail with a cube that is torn out
        _, _, ended, _, info = environment.step(expert())
    assert info["success"]


def test_only_tasks_with_objects_can_displace_them():
    environment = gymnasium.make(environment_id("reach"), disable_env_checker=True)
    with pytest.raises(UserError, match="no objects"):
        DisplacedObjects(environment, Displacement(5))
    with pytest.raises(UserError, match="displace_by"):
        Displacement(5, 0.0)
