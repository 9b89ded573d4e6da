"""Starts, physics and observations of the simulated tasks."""

import subprocess
import sys

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from act_policy.errors import UserError
from act_policy.sim import TASKS, environment_id
from act_policy.sim.environment import scripted_expert
from act_policy.types import Observation


def physics(environment):
    """Everything that decides what happens next, bit by bit, and what an expert sees."""
    model, data = environment._inner.model, environment._inner.data
    state = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    return np.concatenate(
        [state, model.body_pos.ravel(), model.site_pos.ravel(), environment.full_observation()]
    )


def some_steps(environment, count, seed=0):
    actions = np.random.default_rng(seed).uniform(-1, 1, (count, 4)).astype(np.float32)
    return [environment.step(action)[1] for action in actions]


def test_importing_the_package_of_environments_leaves_the_simulator_alone():
    code = "import sys, act_policy.sim; print('mujoco' in sys.modules, 'metaworld' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]


def test_every_task_of_metaworld_is_registered():
    from metaworld.env_dict import ENV_CLS_MAP

    assert sorted(f"{task}-v3" for task in TASKS) == sorted(ENV_CLS_MAP)
    assert all(environment_id(task) in gymnasium.registry for task in TASKS)


def test_the_seed_alone_fixes_the_initial_state(make):
    first, second = make(cameras={}), make(cameras={})
    first.reset(seed=7)
    start = physics(first)
    second.reset(seed=8)
    some_steps(second, 30)
    second.reset()
    second.reset(seed=7)
    np.testing.assert_array_equal(physics(second), start)
    assert some_steps(first, 20) == some_steps(second, 20)
    np.testing.assert_array_equal(physics(first), physics(second))


def test_initial_states_of_different_seeds_differ(make):
    environment = make(cameras={})
    initial_states = set()
    for seed in range(60):  # more than Meta-World's 50 fixed goals
        environment.reset(seed=seed)
        initial_states.add(environment.full_observation()[4:7].tobytes())
    assert len(initial_states) == 60


def test_unseeded_resets_follow_the_last_seed_and_differ(make):
    def three_initial_states():
        environment = make(cameras={})
        environment.reset(seed=3)
        states = [physics(environment)]
        for _ in range(2):
            environment.reset()
            states.append(physics(environment))
        return states

    first, second = three_initial_states(), three_initial_states()
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[1], first[0])
    assert not np.array_equal(first[2], first[1])


def test_global_numpy_randomness_is_neither_used_nor_touched(make):
    environment = make(cameras={})
    np.random.seed(1)  # noqa: NPY002
    environment.reset(seed=5)
    start = physics(environment)
    np.random.seed(2)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    make(cameras={}).reset()
    environment.reset(seed=5)
    some_steps(environment, 5)
    environment.reset(seed=5)
    np.testing.assert_array_equal(physics(environment), start)
    assert str(np.random.get_state()) == str(before)  # noqa: NPY002


def test_the_initial_state_is_one_that_metaworld_itself_gives(make):
    environment = make(cameras={})
    environment.reset(seed=4)
    from metaworld.env_dict import ENV_CLS_MAP

    original = ENV_CLS_MAP["button-press-topdown-v3"]()
    original._set_task_called, original._last_rand_vec = True, environment._inner._last_rand_vec
    original._partially_observable = False
    observation, _ = original.reset()
    np.testing.assert_allclose(environment.full_observation(), observation, atol=1e-12)
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32)
    for action in actions:
        _, reward, _, _, info = environment.step(action)
        observation, original_reward, _, _, original_info = original.step(action)
        np.testing.assert_allclose(environment.full_observation()[:36], observation[:36], atol=1e-9)
        assert reward == pytest.approx(original_reward)
        assert info == {"success": bool(original_info["success"])}


def test_gymnasium_finds_nothing_to_complain_of(make):
    check_env(make(cameras={"topview": (24, 32), "corner3": (16, 16)}))


def test_the_observation_fits_the_schema(make):
    environment = make(cameras={"topview": (24, 32), "corner3": (16, 20)})
    observation, info = environment.reset(seed=0)
    schema = environment.schema
    schema.check(Observation(observation["pixels"], observation["agent_pos"]))
    assert schema.camera_names == ("topview", "corner3")
    assert schema.rate == pytest.approx(80.0)
    assert schema.environment == "act_policy/MetaWorld-button-press-topdown-v0"
    assert info == {"success": False}
    hand = environment._inner.data.body("hand").xpos
    np.testing.assert_allclose(observation["agent_pos"][:3], hand, atol=1e-6)


def test_the_gripper_opening_goes_from_one_to_less_when_it_closes(make):
    environment = make(cameras={})
    observation, _ = environment.reset(seed=0)
    assert observation["agent_pos"][3] > 0.9
    for _ in range(40):
        observation, *_ = environment.step(np.array([0, 0, 0, 1], np.float32))
    assert observation["agent_pos"][3] < 0.5


def test_no_object_state_reaches_the_policy(make):
    environment = make(cameras={})
    observation, _ = environment.reset(seed=0)
    before = observation["agent_pos"].copy()
    objects = environment.full_observation()[4:]
    inner = environment._inner
    inner.model.body("box").pos += [0.05, 0.03, 0.0]
    inner.data.joint("btnbox_joint").qpos -= 0.02
    mujoco.mj_forward(inner.model, inner.data)
    inner._target_pos = inner._target_pos + 0.1
    environment._full_observation = inner._get_obs()
    assert not np.allclose(environment.full_observation()[4:], objects)  # the expert sees it
    observation = environment._observe(environment._agent_pos())
    np.testing.assert_array_equal(observation["agent_pos"], before)
    assert set(observation) == {"pixels", "agent_pos"}


def test_actions_beyond_the_box_are_clipped(make):
    far, within = make(cameras={}), make(cameras={})
    far.reset(seed=0)
    within.reset(seed=0)
    for _ in range(10):
        far.step(np.array([5, 0.3, -7, 3], np.float32))
        within.step(np.array([1, 0.3, -1, 1], np.float32))
    np.testing.assert_array_equal(physics(far), physics(within))


@pytest.mark.parametrize("action", [[0, 0, 0], [0, 0, np.nan, 0]])
def test_a_broken_action_is_refused(make, action):
    environment = make(cameras={})
    environment.reset(seed=0)
    with pytest.raises(ValueError, match="4 finite action values"):
        environment.step(np.array(action, np.float32))


def test_gymnasium_ends_the_episode_at_max_episode_steps():
    environment = gymnasium.make(
        environment_id("button-press-topdown"), cameras={}, max_episode_steps=7
    )
    environment.reset(seed=0)
    ends = [environment.step(np.zeros(4, np.float32))[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]
    environment.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cameras": {"front": (8, 8)}}, "camera 'front' is unknown; this task has .*corner2"),
        ({"cameras": {"topview": (0, 8)}}, r"topview: size \[0, 8\]"),
        ({"quality": "best"}, "expected fast or exact"),
    ],
)
def test_wrong_options_are_named(make, options, message):
    with pytest.raises(UserError, match=message):
        make(**options)


def test_the_expert_presses_the_button(make):
    environment = make(cameras={})
    for seed in range(5):
        environment.reset(seed=seed)
        expert = scripted_expert(environment)
        actions, success = [], False
        while not success and len(actions) < 120:
            actions.append(expert())
            success = environment.step(actions[-1])[4]["success"]
        assert success
        assert all(environment.action_space.contains(action) for action in actions)


def test_an_environment_of_others_has_no_expert():
    with pytest.raises(UserError, match="no scripted expert"):
        scripted_expert(gymnasium.Env())


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_steps_from_an_initial_state_that_its_seed_alone_fixes(make, task):
    used, fresh = make(task, cameras={"corner2": (16, 16)}), make(task, cameras={})
    observation, _ = used.reset(seed=1)
    assert used.observation_space.contains(observation)
    other = physics(used)
    expert = scripted_expert(used)
    for _ in range(30):
        used.step(expert())
    used.reset(seed=2)
    fresh.reset(seed=2)
    np.testing.assert_array_equal(physics(used), physics(fresh))
    assert not np.array_equal(physics(used), other)
    assert some_steps(used, 20) == some_steps(fresh, 20)
    np.testing.assert_array_equal(physics(used), physics(fresh))
