"""LeRobot's side of record.py: its own MetaworldEnv, run with the Python that has LeRobot.

    PYTHON peer.py describe FOLDER TASK...
    PYTHON peer.py play POLICY.onnx EXECUTE_STEPS EPISODES SEED TASK...

`describe` answers with the protocol, and writes FOLDER/TASK.npz: the first image of seed 0 and the
poses that it shows. `play` runs our exported policy in it, and answers with each episode's success
and steps. The answer is JSON on the last line.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.envs import metaworld as theirs

from act_policy import Observation
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.images.resize import crop_and_resize

POSES = ("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "light_xpos", "light_xdir")


def make(task: str) -> Any:
    return theirs.MetaworldEnv(f"{task}-v3", obs_type="pixels_agent_pos")


def describe(folder: Path, tasks: list[str]) -> dict[str, Any]:
    for task in tasks:
        environment = make(task)
        observation, _ = environment.reset(seed=0)
        data = environment._env.data
        poses = {name: getattr(data, name) for name in POSES}
        np.savez(folder / f"{task}.npz", image=observation["pixels"], **poses)
        steps = environment._max_episode_steps
        environment.close()
    return {
        "lerobot": version("lerobot"),
        "metaworld": version("metaworld"),
        "mujoco": version("mujoco"),
        "max_steps": steps,
        "groups": theirs.DIFFICULTY_TO_TASKS,
        "words": theirs.TASK_DESCRIPTIONS,
    }


def play(policy: OnnxPolicy, execute_steps: int, seeds: range, task: str) -> list[list[int]]:
    environment = make(task)
    (camera,) = policy.schema.cameras
    outcomes = []
    for seed in seeds:
        observation, _ = environment.reset(seed=seed)
        queue: list[np.ndarray] = []
        steps = 0
        success = False
        while not success and steps < environment._max_episode_steps:
            if not queue:
                image = crop_and_resize(observation["pixels"], None, camera.height, camera.width)
                seen = Observation(
                    {camera.name: image},
                    observation["agent_pos"].astype(np.float32),
                    task=environment.task_description,
                )
                queue = list(policy.predict_chunk(seen)[:execute_steps])
            observation, _, _, _, info = environment.step(np.clip(queue.pop(0), -1, 1))
            success = info["is_success"]
            steps += 1
        outcomes.append([int(success), steps])
        print(f"{task}, seed {seed}: {outcomes[-1]}", file=sys.stderr)
    environment.close()
    return outcomes


def main(what: str, *arguments: str) -> dict[str, Any]:
    if what == "describe":
        return describe(Path(arguments[0]), list(arguments[1:]))
    file, execute_steps, episodes, seed = arguments[0], *map(int, arguments[1:4])
    policy, seeds = OnnxPolicy(file, threads=1), range(seed, seed + episodes)
    return {task: play(policy, execute_steps, seeds, task) for task in arguments[4:]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
