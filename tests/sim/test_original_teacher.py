"""The original's experts for ALOHA: where they drag the grippers, and that this does the task."""

import numpy as np
import pytest

from act_policy.errors import UserError
from act_policy.sim.aloha.expert import ARM_JOINTS
from act_policy.sim.aloha.inverse_kinematics import ArmKinematics
from act_policy.sim.aloha.original import (
    EndEffectorModel,
    insertion_paths,
    interpolate,
    transfer_paths,
)
from act_policy.sim.aloha.tasks import TASKS
from act_policy.sim.record import RecordingConfig
from act_policy.sim.teachers import Teacher

ORIGINAL = Teacher("original")
HALF = np.sqrt(0.5)


def play(environment, seed, teacher=ORIGINAL):
    """The teacher's episode, up to success: its actions and the stages reached."""
    environment.reset(seed=seed)
    act = teacher.begin(environment, seed)
    actions, stages = [], [0]
    while stages[-1] < 4 and len(actions) < 400:
        actions.append(act({}))
        stages.append(environment.step(actions[-1])[-1]["stage"])
    return np.array(actions), stages


def test_grippers_are_dragged_along_straight_lines():
    cube = np.array([[0.1, 0.5, 0.05, 1, 0, 0, 0]])
    left, right = (interpolate(path) for path in transfer_paths(cube))
    assert left.shape == right.shape == (400, 8)
    np.testing.assert_allclose(right[130], [0.1, 0.5, 0.035, HALF * np.sqrt(1.5), 0, -0.5, 0, 1])
    np.testing.assert_allclose(right[150, [0, 7]], [0.1, 0.5])  # the gripper is half closed
    np.testing.assert_allclose(left[180], [-0.04, 0.5, 0.23, HALF, HALF, 0, 0, 1])
    np.testing.assert_allclose(left[335, 3:], [(1 + HALF) / 2, HALF / 2, 0, 0, 0])
    objects = np.array([[0.15, 0.45, 0.05, 1, 0, 0, 0], [-0.12, 0.55, 0.05, 1, 0, 0, 0]])
    left, right = (interpolate(path) for path in insertion_paths(objects))
    np.testing.assert_allclose(left[120, :3], [-0.12, 0.55, 0.13])
    np.testing.assert_allclose(right[[285, 399], :3], [[0.1, 0.5, 0.15715], [0.05, 0.5, 0.15715]])
    np.testing.assert_allclose([left[200, 5], -right[200, 5]], 0.5)


def test_the_right_gripper_follows_its_path(make_aloha):
    """It lags, but where the path rests it arrives; without the stiffer weld it is 7 cm off."""
    environment = make_aloha(cameras={})
    environment.reset(seed=0)
    task = TASKS["TransferCube"]
    paths = transfer_paths(environment.object_poses)
    actions = EndEffectorModel(task.end_effector_file).follow(paths, environment.object_poses)
    assert actions.shape == (401, 14)
    joints = [f"vx300s_right/{joint}" for joint in ARM_JOINTS]
    ahead = np.array([0.1347, 0, 0])  # from the link to the point that the weld drags
    arm = ArmKinematics(environment.model, joints, "vx300s_right/gripper_link", ahead)
    dragged = interpolate(paths.right)
    for step, distance in ((165, 0.01), (300, 0.01), (390, 0.01)):
        reached = arm.forward(actions[step + 1, 7:13].astype(float)).position
        assert np.linalg.norm(reached - dragged[step, :3]) < distance


def test_the_motors_repeat_the_motion_and_do_the_task(make_aloha):
    environment = make_aloha(cameras={})
    actions, stages = play(environment, 0)
    assert stages[-1] == 4
    assert {1, 2, 4} <= set(stages)
    assert 280 < len(actions) < 320  # while the left gripper closes, before the right one opens
    again, _ = play(environment, 0)
    np.testing.assert_array_equal(actions, again)
    commanded = interpolate(transfer_paths(environment.object_poses).left)[:, 7]
    # an action holds the control of the step before, as it was observed
    np.testing.assert_allclose(actions[1:, 6], commanded[: len(actions) - 1], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("inject_noise", [False, True])
def test_it_succeeds_from_nearly_every_initial_state(make_aloha, task, inject_noise):
    environment = make_aloha(task, cameras={})
    teacher = Teacher("original", inject_noise=inject_noise)
    done = [play(environment, seed, teacher)[1][-1] == 4 for seed in range(20)]
    assert sum(done) >= 17


def test_noise_is_fixed_by_the_seed(make_aloha):
    environment = make_aloha(cameras={})
    noisy = Teacher("original", inject_noise=True)

    def first_actions(teacher, seed):
        environment.reset(seed=0)
        act = teacher.begin(environment, seed)
        return np.array([act({}) for _ in range(100)])

    usual, one, again = (first_actions(*each) for each in ((ORIGINAL, 1), (noisy, 1), (noisy, 1)))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, first_actions(noisy, 2))
    assert 1e-3 < np.abs(one - usual).max() < 0.2
    np.testing.assert_array_equal(one[:, [6, 13]], usual[:, [6, 13]])


def test_impossible_teachers_are_refused(make):
    reach = make("reach", cameras={})
    reach.reset(seed=0)
    with pytest.raises(
        UserError, match=r"teacher=original acts in ALOHA's tasks only; found .*reach"
    ):
        ORIGINAL.begin(reach, 0)
    usual = {"environment": "act_policy/AlohaInsertion-v0", "cameras": {"top": (12, 16)}}
    for options, message in (
        ({"teacher": "mine"}, "teacher=mine: expected expert, original, or module:function"),
        ({"teacher": "nowhere:act"}, "teacher=nowhere:act: No module named 'nowhere'"),
        ({"teacher": "math:act"}, "module 'math' has no attribute 'act'"),
        ({"teacher": "math:pi"}, "teacher=math:pi: 3.14.* is not a function"),
        ({"inject_noise": True}, "inject_noise=true is of teacher=original; found teacher=expert"),
        ({"teacher": "original", "pose_noise": 0.1}, "vary teacher=expert; found teacher=original"),
    ):
        with pytest.raises(UserError, match=message):
            RecordingConfig(**usual, **options)
    assert RecordingConfig(**usual, teacher="original").to_dict()["teacher"] == "original"
