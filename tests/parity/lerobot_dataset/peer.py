"""LeRobot's side of record.py, run with the Python that has LeRobot.

The arguments are dataset folders; the answer is JSON on the last line of the output: what LeRobot
says of each, and what it gives for every step.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 4


def main(folders: list[str]) -> dict[str, Any]:
    import lerobot

    return {"lerobot": lerobot.__version__} | {Path(f).name: read(Path(f)) for f in folders}


def read(folder: Path) -> dict[str, Any]:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    from scripts.benchmarks.peer import install_video_reader
    from tests.data.lerobot_for_tests import RATE

    install_video_reader()
    deltas = {"action": [step / RATE for step in range(CHUNK)]}
    dataset = LeRobotDataset(
        f"local/{folder.name}", root=folder, delta_timestamps=deltas, video_backend="pyav"
    )
    return {
        "episodes": dataset.num_episodes,
        "frames": dataset.num_frames,
        "rate": dataset.fps,
        "robot_type": dataset.meta.robot_type,
        "features": {key: list(f["shape"]) for key, f in dataset.features.items()},
        "stats": {
            key: {name: np.asarray(value).tolist() for name, value in found.items()}
            for key, found in dataset.meta.stats.items()
        },
        "steps": [step_of(item, dataset.meta.camera_keys) for item in dataset],
    }


def step_of(item: dict[str, Any], cameras: list[str]) -> dict[str, Any]:
    from tests.data.lerobot_for_tests import number_of

    effort = item.get("observation.effort")
    return {
        "episode": int(item["episode_index"]),
        "step": int(item["frame_index"]),
        "index": int(item["index"]),
        "task": item["task"],
        "state": item["observation.state"].tolist(),
        "actions": item["action"].tolist(),
        "is_pad": item["action_is_pad"].tolist(),
        "effort": None if effort is None else effort.tolist(),
        "shown": {
            key: number_of((item[key].numpy() * 255).round().transpose(1, 2, 0)) for key in cameras
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
