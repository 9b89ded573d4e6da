"""Let a policy act in gym-aloha's own environment and in ours, from the same initial states.

    .venv/bin/python -m tests.parity.gym_aloha.record RUN [EPISODES]

RUN is a run folder or a bundle, of cube transfer or insertion with the camera `top`. Writes
gym_aloha_TASK.json, which test_outcomes.py reads. Both draw without shadows and multisampling, like
the demonstrations: with shadows, which it has never seen, such a policy fails in both.
"""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from act_policy.checkpoints.open import open_policy
from act_policy.evaluation.rollouts.delays import Delay, make_executor
from act_policy.evaluation.rollouts.run import build_environment, run_episode
from act_policy.sim import ALOHA_EPISODE_STEPS
from act_policy.sim.images import LazyImages
from act_policy.types import Schema
from tests.parity.peers import keep

HERE = Path(__file__).parent
TASKS = {"TransferCube": "transfer_cube", "Insertion": "insertion"}
FIRST_SEED = 1000


class TheirEnvironment(gymnasium.Env[Any, Any]):
    """gym-aloha's AlohaEnv, its image drawn as the policy knows it, and only when it is read."""

    def __init__(self, task: str, schema: Schema) -> None:
        from gym_aloha.env import AlohaEnv

        self._inner = AlohaEnv(task, obs_type="pixels_agent_pos")
        (camera,) = schema.cameras
        physics = self._inner._env.physics
        physics.model.vis.quality.offsamples = 0
        self._draw = partial(
            physics.render,
            height=camera.height,
            width=camera.width,
            render_flag_overrides={"shadow": False, "reflection": False},
        )
        black = np.zeros((480, 640, 3), np.uint8)
        physics.render = lambda **ignored: black  # of three views at every step
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._steps = 0
        observation, info = self._inner.reset(seed=seed)
        return self._observe(observation), info

    def step(self, action: np.ndarray) -> Any:
        observation, reward, terminated, _, info = self._inner.step(action)
        self._steps += 1
        ended = self._steps == ALOHA_EPISODE_STEPS
        return (
            self._observe(observation),
            reward,
            terminated,
            ended,
            {"success": info["is_success"]},
        )

    def _observe(self, observation: Any) -> dict[str, Any]:
        images = LazyImages(["top"], lambda camera: self._draw(camera_id=camera))
        return {"pixels": images, "agent_pos": observation["agent_pos"].astype(np.float32)}


def main(run: str, episodes: int = 20) -> None:
    policy = open_policy(Path(run))
    (task,) = (name for name in TASKS if name in policy.schema.environment)
    environments = {
        "here": build_environment(policy.schema, max_steps=ALOHA_EPISODE_STEPS),
        "there": TheirEnvironment(TASKS[task], policy.schema),
    }
    outcomes: dict[str, list[list[int]]] = {side: [] for side in environments}
    for seed in range(FIRST_SEED, FIRST_SEED + episodes):
        for side, environment in environments.items():
            executor = make_executor(policy, None, None, Delay(), seed)
            result = run_episode(environment, executor.select_action, seed)
            outcomes[side].append([int(result.success), result.steps])
        print(f"seed {seed}: success and steps {outcomes['here'][-1]}, {outcomes['there'][-1]}")
    versions = {name: version(name) for name in ("gym-aloha", "dm_control", "mujoco")}
    record = {"task": task, "first_seed": FIRST_SEED, **outcomes, "versions": versions}
    keep(record, HERE / f"gym_aloha_{TASKS[task]}.json")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
