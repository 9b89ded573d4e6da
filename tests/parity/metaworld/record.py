"""Ask LeRobot's MetaworldEnv for its protocol, and let our exported policy act in it.

    .venv/bin/python -m tests.parity.metaworld.record PYTHON_THAT_HAS_LEROBOT
    .venv/bin/python -m tests.parity.metaworld.record PYTHON_THAT_HAS_LEROBOT POLICY.onnx

The first writes lerobot_0_6_1.json (groups, words, steps) and images_0_6_1.npz (what its camera
sees), which test_protocol.py expects. The second, which takes half an hour, adds the outcomes of a
policy with the camera corner4 alone: 10 episodes of each of five tasks there, and as many here. The
environment:

    python3.12 -m venv ENV
    ENV/bin/pip install lerobot==0.6.1 metaworld==3.0.0 mujoco==3.3.0 scipy onnxruntime
"""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.evaluation.rollouts.run import Rollout, build_environment, evaluate_policy
from act_policy.images.resize import crop_and_resize
from act_policy.sim import environment_id
from tests.parity.peers import ask, keep
from tests.paths import ROOT

HERE = Path(__file__).parent
PROTOCOL = HERE / "lerobot_0_6_1.json"
IMAGES = HERE / "images_0_6_1.npz"
DRAWN = ("reach", "assembly", "stick-pull")
PLAYED = ("push", "hand-insert", "pick-place-wall", "shelf-place", "assembly")
SIDE = 96
EPISODES, FIRST_SEED = 10, 5000


def describe(python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        peer = [python, HERE / "peer.py", "describe", folder, *DRAWN]
        protocol = ask(peer, PYTHONPATH=str(ROOT), MUJOCO_GL="egl")
        kept: dict[str, np.ndarray] = {}
        for task in DRAWN:
            with np.load(Path(folder) / f"{task}.npz") as drawn:
                for name, values in drawn.items():
                    small = crop_and_resize(values, None, SIDE, SIDE) if name == "image" else values
                    kept[f"{task}/{name}"] = small
    np.savez_compressed(IMAGES, **kept)
    if PROTOCOL.is_file():
        protocol["played"] = json.loads(PROTOCOL.read_text()).get("played")
    keep(protocol, PROTOCOL, indent=1)


def play_here(file: str, execute_steps: int, words: dict[str, str]) -> dict[str, Any]:
    """The same number of episodes in our environments, by the executor of evaluations."""
    rollouts = [
        Rollout(seed, environment=environment_id(task), task=words[f"{task}-v3"], row=task)
        for task in PLAYED
        for seed in range(FIRST_SEED, FIRST_SEED + EPISODES)
    ]
    build = partial(build_environment, max_steps=500)
    results = evaluate_policy(partial(OnnxPolicy, file, 1), build, rollouts, 1, execute_steps)
    played: dict[str, Any] = {task: [] for task in PLAYED}
    for rollout, result in zip(rollouts, results, strict=True):
        played[rollout.row].append([int(result.success), result.steps])
    return played


def play(python: str, file: str) -> None:
    protocol = json.loads(PROTOCOL.read_text())
    policy = OnnxPolicy(file, threads=1)
    execute_steps = policy.execution.execute_steps or policy.chunk_length
    here = play_here(file, execute_steps, protocol["words"])
    numbers = map(str, (execute_steps, EPISODES, FIRST_SEED))
    peer = [python, HERE / "peer.py", "play", file, *numbers, *PLAYED]
    there = ask(peer, PYTHONPATH=str(ROOT), MUJOCO_GL="egl")
    protocol["played"] = {"execute_steps": execute_steps, "here": here, "there": there}
    keep(protocol, PROTOCOL, indent=1)


if __name__ == "__main__":
    (describe if len(sys.argv) == 2 else play)(*sys.argv[1:])
