"""gym-aloha itself, in a process of its own: plays actions, says what became of them.

    python gym_aloha_peer.py TASK SEED ACTIONS.npy OUTCOME.npz IMAGE_STEPS

Needs gym-aloha and dm_control, and nothing of act_policy.
"""

import sys

import numpy as np
from gym_aloha.env import AlohaEnv


def main(task: str, seed: str, actions_file: str, outcome_file: str, image_steps: str) -> None:
    environment = AlohaEnv(task, obs_type="pixels_agent_pos")
    wanted = [int(step) for step in image_steps.split(",")]
    positions, states, rewards, images = [], [], [], []

    # It draws three views at every step, 0.2 s; the others are left black.
    physics = environment._env.physics
    draw, black = physics.render, np.zeros((480, 640, 3), np.uint8)

    def draw_wanted(*, camera_id: str, **size: int) -> np.ndarray:
        wants = len(rewards) in wanted and camera_id == "top"
        return draw(camera_id=camera_id, **size) if wants else black

    physics.render = draw_wanted

    def note(step: int, observation: dict, reward: float) -> None:
        positions.append(physics.data.qpos.copy())
        states.append(observation["agent_pos"])
        rewards.append(reward)
        if step in wanted:
            images.append(observation["pixels"]["top"])

    note(0, environment.reset(seed=int(seed))[0], 0)
    for step, action in enumerate(np.load(actions_file), start=1):
        observation, reward, *_ = environment.step(action)
        note(step, observation, reward)
    np.savez(outcome_file, positions=positions, states=states, rewards=rewards, images=images)


if __name__ == "__main__":
    main(*sys.argv[1:])
