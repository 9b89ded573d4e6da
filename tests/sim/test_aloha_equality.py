"""ALOHA here and gym-aloha: the same seeds and actions give the same physics and images."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from act_policy.sim.environment import scripted_expert

PEER = Path(__file__).with_name("gym_aloha_peer.py")
IMAGE_STEPS = (0, 60, 130, 200)


@pytest.fixture(scope="module", autouse=True)
def _gym_aloha() -> None:
    code = "import gym_aloha.env"
    if (run := subprocess.run([sys.executable, "-c", code], capture_output=True)).returncode != 0:
        reason = run.stderr.decode().strip().splitlines()[-1]
        pytest.skip(f"gym-aloha does not run here, so nothing is compared with it: {reason}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 1001])
@pytest.mark.parametrize(
    ("task", "theirs"), [("TransferCube", "transfer_cube"), ("Insertion", "insertion")]
)
def test_the_experts_episode_is_the_same_in_gym_aloha(make_aloha, tmp_path, task, theirs, seed):
    environment = make_aloha(task, cameras={"top": (480, 640)}, quality="exact")
    observation, _ = environment.reset(seed=seed)
    expert = scripted_expert(environment)
    positions, states, rewards = [environment.joint_positions], [observation["agent_pos"]], [0.0]
    images, actions = [observation["pixels"]["top"]], []
    terminated = False
    while not terminated:
        actions.append(expert())
        observation, reward, terminated, _, _ = environment.step(actions[-1])
        positions.append(environment.joint_positions)
        states.append(observation["agent_pos"])
        rewards.append(reward)
        if len(actions) in IMAGE_STEPS:
            images.append(observation["pixels"]["top"])
    assert rewards[-1] == 4

    np.save(tmp_path / "actions.npy", np.array(actions, np.float64))
    outcome_file = tmp_path / "outcome.npz"
    steps = ",".join(map(str, IMAGE_STEPS))
    subprocess.run(
        [sys.executable, PEER, theirs, str(seed), tmp_path / "actions.npy", outcome_file, steps],
        check=True,
    )
    outcome = np.load(outcome_file)
    np.testing.assert_allclose(positions, outcome["positions"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(states, outcome["states"], rtol=0, atol=1e-5)  # float32
    np.testing.assert_array_equal(rewards, outcome["rewards"])
    difference = np.abs(np.array(images, int) - outcome["images"])
    assert difference.max() <= 1
