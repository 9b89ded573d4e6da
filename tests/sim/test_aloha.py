"""ALOHA's environments: initial states, stages, images; and its scripted experts."""

import subprocess
import sys
from importlib import util

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.sim import ALOHA_TASKS, aloha_environment_id
from act_policy.sim.aloha.physics import GRIPPERS
from act_policy.sim.aloha.tasks import insertion_stage, transfer_stage
from act_policy.sim.environment import Variation, scripted_expert
from act_policy.sim.record import RecordingConfig, disturbance, record_episode
from act_policy.types import Observation

HOME = np.array([0, -0.96, 1.16, 0, -0.3, 0, 0.1] * 2, np.float32)


def physics(environment):
    """Everything that decides what happens next, bit by bit."""
    model, data = environment.model, environment._data
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return state


def some_steps(environment, count, seed=0):
    moves = np.random.default_rng(seed).normal(0, 0.1, (count, 14)).astype(np.float32)
    for move in moves:
        environment.step(HOME + move)


def play(environment, seed, variation=Variation()):  # noqa: B008
    """The expert's episode: its actions and the stages reached."""
    environment.reset(seed=seed)
    expert = scripted_expert(environment, variation)
    actions, stages, ended = [], [], False
    while not ended and len(stages) < 400:
        actions.append(expert())
        _, reward, ended, _, info = environment.step(actions[-1])
        assert reward == info["stage"]
        assert info["success"] == ended == (reward == 4)
        stages.append(info["stage"])
    return np.array(actions), stages


def test_both_tasks_are_registered_with_400_steps():
    for task in ALOHA_TASKS:
        assert gymnasium.spec(aloha_environment_id(task)).max_episode_steps == 400


def test_nothing_of_gym_aloha_is_imported():
    code = (
        "import sys, gymnasium, act_policy.sim\n"
        "gymnasium.make('act_policy/AlohaTransferCube-v0').reset(seed=0)\n"
        "print([name for name in sys.modules if name.startswith(('gym_aloha', 'dm_control'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_missing_models_are_named(monkeypatch, make_aloha):
    monkeypatch.setattr("act_policy.sim.aloha.physics.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"gym-aloha, which is not installed; pip install"):
        make_aloha()


@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_the_seed_alone_fixes_what_happens(make_aloha, task):
    first, second = make_aloha(task), make_aloha(task)
    first.reset(seed=7)
    initial = physics(first)
    second.reset(seed=8)
    some_steps(second, 15, seed=1)
    second.reset()
    second.reset(seed=7)
    np.testing.assert_array_equal(physics(second), initial)
    some_steps(first, 10)
    some_steps(second, 10)
    np.testing.assert_array_equal(physics(first), physics(second))


def test_environments_in_one_process_keep_their_own_objects(make_aloha):
    one, other = make_aloha(), make_aloha()
    one.reset(seed=1)
    before = one.object_poses
    other.reset(seed=2)
    some_steps(other, 5)
    np.testing.assert_array_equal(one.object_poses, before)
    assert not np.array_equal(other.object_poses, before)


def test_unseeded_resets_follow_the_last_seed_and_differ(make_aloha):
    def three():
        environment = make_aloha()
        environment.reset(seed=3)
        poses = [environment.object_poses]
        for _ in range(2):
            environment.reset()
            poses.append(environment.object_poses)
        return np.array(poses)

    first, second = three(), three()
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first[:, 0, 0])) == 3


@pytest.mark.parametrize(
    ("task", "sample"),
    [("TransferCube", "sample_box_pose"), ("Insertion", "sample_insertion_pose")],
)
@pytest.mark.parametrize("seed", [0, 1, 42, 1000])
def test_objects_lie_where_gym_aloha_puts_them(make_aloha, task, sample, seed):
    # the file alone: the package around it needs dm_control
    folder = util.find_spec("gym_aloha").submodule_search_locations[0]
    spec = util.spec_from_file_location("gym_aloha_utils", f"{folder}/utils.py")
    theirs = util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    environment = make_aloha(task)
    environment.reset(seed=seed)
    expected = np.concatenate(np.atleast_1d(getattr(theirs, sample)(seed)), axis=None)
    np.testing.assert_array_equal(environment.object_poses.ravel(), expected)


def test_global_numpy_randomness_is_neither_used_nor_touched(make_aloha):
    environment = make_aloha()
    before = str(np.random.get_state())  # noqa: NPY002
    environment.reset()
    environment.reset(seed=5)
    assert str(np.random.get_state()) == before  # noqa: NPY002


# joint angles have no end at 1, and a joint that gives way none at all
@pytest.mark.filterwarnings("ignore:.*(symmetric and normalized space|Box observation space m)")
@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_gymnasium_finds_nothing_to_complain_of(make_aloha, task):
    check_env(make_aloha(task, cameras={"top": (12, 16)}))


def test_the_observation_fits_the_schema(make_aloha):
    environment = make_aloha(cameras={"top": (24, 32), "left_wrist": (16, 20)})
    observation, info = environment.reset(seed=0)
    schema = environment.schema
    schema.check(Observation(observation["pixels"], observation["agent_pos"]))
    assert schema.camera_names == ("top", "left_wrist")
    assert schema.state_names == schema.action_names
    assert (schema.state_names[0], schema.state_names[-1]) == ("left_waist", "right_gripper")
    assert (schema.state_units[0], schema.state_units[-1]) == ("rad", "0..1")
    assert schema.rate == 50.0
    assert schema.environment == "act_policy/AlohaTransferCube-v0"
    assert info == {"success": False, "stage": 0}
    np.testing.assert_allclose(observation["agent_pos"], HOME, atol=2e-4)


def test_the_state_follows_the_action_joint_by_joint(make_aloha):
    environment = make_aloha(cameras={})
    environment.reset(seed=0)
    action = HOME.copy()
    action[[0, 6, 8, 13]] = [0.3, 0.9, -0.8, 0.5]
    for _ in range(100):
        observation, *_ = environment.step(action)
    np.testing.assert_allclose(observation["agent_pos"], action, atol=0.04)


@pytest.mark.parametrize("action", [np.zeros(13), np.full(14, np.nan)])
def test_an_action_of_another_kind_is_refused(make_aloha, action):
    environment = make_aloha(cameras={})
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="expected 14 finite action values"):
        environment.step(action)


def test_images_that_nobody_reads_are_not_drawn(make_aloha):
    environment = make_aloha(cameras={"top": (24, 32), "angle": (24, 32)})
    observation, _ = environment.reset(seed=0)
    some_steps(environment, 3)
    assert environment.frame_count == 0
    late = observation["pixels"]["top"]  # of the initial moment, though it is read later
    assert environment.frame_count == 1
    np.testing.assert_array_equal(late, environment.reset(seed=0)[0]["pixels"]["top"])


def test_the_top_view_is_upright(make_aloha):
    """Seen from above, x grows to the right and y upwards, and the cube is red."""
    environment = make_aloha(cameras={"top": (96, 128)})
    seen = []
    for seed in range(6):
        observation, _ = environment.reset(seed=seed)
        image = observation["pixels"]["top"].astype(int)
        red = np.argwhere((image[..., 0] > 120) & (image[..., 1:].max(-1) < 80))
        assert 2 <= len(red) <= 20
        row, column = red.mean(axis=0)
        x, y = environment.object_poses[0, :2]
        seen.append([column, -row, x, y])
    correlation = np.corrcoef(np.array(seen).T)
    assert correlation[0, 2] > 0.97
    assert correlation[1, 3] > 0.97
    left, right = image[:, :40], image[:, -40:]
    assert (left.min(-1) > 120).any()  # an arm at either side
    assert (right.min(-1) > 120).any()


def test_every_camera_of_the_model_can_be_asked_for(make_aloha):
    names = ["top", "angle", "front_close", "left_pillar", "right_pillar"]
    names += ["left_wrist", "right_wrist"]
    environment = make_aloha(cameras=dict.fromkeys(names, (12, 16)))
    observation, _ = environment.reset(seed=0)
    images = observation["pixels"].values()
    assert len({image.tobytes() for image in images}) == 7
    assert all(image.std() > 10 for image in images)


def test_an_unknown_camera_is_named_with_those_there_are(make_aloha):
    with pytest.raises(UserError, match=r"'vis' is unknown; this task has .*top.*front_close"):
        make_aloha(cameras={"vis": (12, 16)})


def test_images_that_are_too_large_are_said_to_be(make_aloha):
    environment = make_aloha(cameras={"top": (8, 100_000)})
    observation, _ = environment.reset(seed=0)
    with pytest.raises(UserError, match=r"cannot be drawn .*: top 8x100000; ask for smaller"):
        observation["pixels"]["top"]


def test_rendering_needs_a_camera(make_aloha):
    with pytest.raises(UserError, match=r"rgb_array shows the first camera; cameras=\{\} has none"):
        make_aloha(cameras={}, render_mode="rgb_array")


def touching(*pairs):
    contacts = {frozenset(pair) for pair in pairs}
    return lambda one, other: frozenset((one, other)) in contacts


LEFT, RIGHT = (f"vx300s_{side}/10_{side}_gripper_finger" for side in ("left", "right"))


@pytest.mark.parametrize(
    ("contacts", "stage"),
    [
        ([("red_box", "table")], 0),
        ([("red_box", "table"), ("red_box", RIGHT)], 1),
        ([("red_box", RIGHT)], 2),
        ([("red_box", RIGHT), ("red_box", LEFT), ("red_box", "table")], 3),
        ([("red_box", LEFT), ("red_box", "table")], 3),
        ([("red_box", RIGHT), ("red_box", LEFT)], 4),
        ([("red_box", LEFT)], 4),
    ],
)
def test_stages_of_the_transfer(contacts, stage):
    assert transfer_stage(touching(*contacts)) == stage


@pytest.mark.parametrize(
    ("contacts", "stage"),
    [
        ([("red_peg", "table"), ("socket-1", "table")], 0),
        ([("red_peg", RIGHT), ("red_peg", "table")], 0),
        ([("red_peg", RIGHT), ("socket-3", LEFT), ("socket-1", "table")], 1),
        ([("red_peg", RIGHT), ("socket-3", LEFT), ("red_peg", "table")], 1),
        ([("red_peg", RIGHT), ("socket-4", LEFT)], 2),
        ([("red_peg", RIGHT), ("socket-4", LEFT), ("red_peg", "socket-2")], 3),
        ([("red_peg", "socket-2"), ("socket-1", "table")], 0),
        ([("red_peg", "pin"), ("red_peg", "socket-2")], 4),
    ],
)
def test_stages_of_the_insertion(contacts, stage):
    assert insertion_stage(touching(*contacts)) == stage


@pytest.mark.parametrize("task", ALOHA_TASKS)
def test_the_expert_succeeds_stage_by_stage_with_the_same_timing(make_aloha, task):
    environment = make_aloha(task, cameras={})
    lengths = []
    for seed in (0, 1, 2):
        actions, stages = play(environment, seed)
        assert stages[-1] == 4
        assert {1, 2} <= set(stages)
        assert np.abs(np.diff(actions[:, environment.disturbed], axis=0)).max() < 0.08  # smooth
        assert all(environment.action_space.contains(action) for action in actions)
        lengths.append(len(stages))
    assert max(lengths) - min(lengths) <= 5


@pytest.mark.slow
@pytest.mark.parametrize(("task", "least"), [("TransferCube", 98), ("Insertion", 90)])
def test_the_expert_succeeds_from_nearly_every_initial_state(make_aloha, task, least):
    environment = make_aloha(task, cameras={})
    failed = [seed for seed in range(100) if play(environment, seed)[1][-1] != 4]
    assert 100 - len(failed) >= least, f"failed at the seeds {failed}"


def test_the_experts_way_varies_as_asked_and_as_its_seed_says(make_aloha):
    environment = make_aloha(cameras={})
    usual, _ = play(environment, 0)
    late, stages = play(environment, 0, Variation(timing=0.1, seed=1))
    assert stages[-1] == 4
    assert len(late) != len(usual)
    aside, stages = play(environment, 0, Variation(pose=0.003, seed=1))
    assert stages[-1] == 4
    assert 0 < np.abs(aside[:200] - usual[:200]).max() < 0.2
    np.testing.assert_array_equal(aside, play(environment, 0, Variation(pose=0.003, seed=1))[0])
    assert not np.array_equal(aside[:200], play(environment, 0, Variation(0.0, 0.003, 2))[0][:200])


def test_metaworlds_experts_cannot_vary(make):
    environment = make(cameras={})
    environment.reset(seed=0)
    with pytest.raises(UserError, match="timing_noise and pose_noise vary ALOHA's experts only"):
        scripted_expert(environment, Variation(pose=0.01))


def test_disturbances_move_joints_slowly_and_grippers_never(make_aloha):
    environment = make_aloha(cameras={})

    def added(seed, steps=2000):
        disturb = disturbance(environment, 0.02, seed)
        return np.array([disturb(HOME) - HOME for _ in range(steps)])

    first = added(1)
    np.testing.assert_array_equal(added(1, 20), first[:20])
    assert not np.array_equal(added(2, 20), first[:20])
    assert not first[:, GRIPPERS].any()
    joints = first[:, environment.disturbed]
    np.testing.assert_allclose(joints.std(), 0.02, rtol=0.1)
    kept = (joints[1:] * joints[:-1]).mean() / joints.var()
    assert kept == pytest.approx(environment.disturbance_memory, abs=0.02)


def test_a_demonstration_under_disturbances_stores_the_experts_own_actions(make_aloha, tmp_path):
    environment = make_aloha(cameras={"top": (12, 16)})
    clean, _ = play(environment, 0)
    config = RecordingConfig(
        aloha_environment_id("TransferCube"), {"top": (12, 16)}, max_steps=400, noise=0.01, tail=3
    )
    assert record_episode(environment, config, 0, tmp_path / "episode_000000.hdf5")
    dataset = open_dataset(tmp_path)
    assert dataset.schema == environment.schema
    steps = min(len(clean), len(dataset.action(0)))
    np.testing.assert_array_equal(dataset.action(0)[:steps], clean[:steps])
    environment.reset(seed=0)
    states = [environment.step(action)[0]["agent_pos"] for action in clean[:50]]
    moved = np.abs(dataset.state(0)[1:51] - states)
    assert 0.001 < moved[:, environment.disturbed].max() < 0.1  # executed otherwise
