"""LeRobot's side of the recorders, run with the Python that has LeRobot.

The request is JSON in the first argument, the answer JSON on the last line of the output:
{"write": F} writes a dataset into F with LeRobot's own recorder; {"read": [F, ...]} answers what
LeRobot says of each dataset, and what it gives for every step; "decoded": F keeps the images there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 4
LENGTHS = (7, 12, 5, 9, 3)
JOINTS = ("shoulder", "elbow", "gripper")
TASKS = ("pick the cube", "stack the cubes")
DEPTH = "observation.images.depth"


def main(request: dict[str, Any]) -> dict[str, Any]:
    import lerobot

    answer: dict[str, Any] = {"lerobot": lerobot.__version__}
    if "write" in request:
        write(Path(request["write"]))
    for folder in map(Path, request.get("read", [])):
        answer[folder.name] = read(folder, request.get("decoded"))
    return answer


def write(folder: Path) -> None:
    """Record with a depth camera, small files, and videos that are encoded while recording."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    from tests.data.lerobot_for_tests import HEIGHT, RATE, WIDTH, arrays, numbered_frame, shown

    vector = {"dtype": "float32", "shape": (3,), "names": list(JOINTS)}
    names = ["height", "width", "channels"]
    image = {"dtype": "video", "shape": (HEIGHT, WIDTH, 3), "names": names}
    depth = image | {"shape": (HEIGHT, WIDTH, 1), "info": {"is_depth_map": True}}
    dataset = LeRobotDataset.create(
        "local/written",
        RATE,
        {
            "observation.state": vector,
            "action": vector,
            "observation.effort": vector,
            "next.done": {"dtype": "bool", "shape": (1,), "names": None},
            "observation.images.top": image,
            "observation.images.wrist": image,
            DEPTH: depth,
        },
        root=folder,
        robot_type="test_arm",
        streaming_encoding=True,
    )
    dataset.meta.update_chunk_settings(2, 0.002, 0.003)  # files in a folder; MB in one
    index = 0
    for episode, steps in enumerate(LENGTHS):
        state, action = arrays(steps, episode)
        for step in range(steps):
            frame = {
                f"observation.images.{camera}": numbered_frame(shown(camera, index))
                for camera in ("top", "wrist")
            }
            millimetres = 500 + 20 * index + np.arange(WIDTH)[None, :, None]
            frame[DEPTH] = np.broadcast_to(millimetres, (HEIGHT, WIDTH, 1)).astype(np.uint16)
            frame["observation.state"], frame["action"] = state[step], action[step]
            frame["observation.effort"] = state[step] - action[step]
            frame["next.done"] = np.array([step == steps - 1])
            # one thing is to be done in the first two episodes, then both, then the other
            dataset.add_frame(frame | {"task": TASKS[episode > 2 or (episode == 2 and step > 1)]})
            index += 1
        dataset.save_episode()
    dataset.finalize()


def read(folder: Path, decoded: str | None) -> dict[str, Any]:
    import lerobot
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    from tests.data.lerobot_for_tests import RATE
    from tests.paths import ROOT

    if lerobot.__version__.startswith("0.4"):
        sys.path.append(str(ROOT / "scripts" / "benchmarks"))
        from peer import video_backend

        video_backend()  # torchvision has lost the reader that it uses
    deltas = {"action": [step / RATE for step in range(CHUNK)]}
    dataset = LeRobotDataset(
        f"local/{folder.name}", root=folder, delta_timestamps=deltas, video_backend="pyav"
    )
    depth = getattr(dataset.meta, "depth_keys", [])
    cameras = [key for key in dataset.meta.camera_keys if key not in depth]
    items = list(dataset)
    if decoded is not None:
        images = {key: np.stack([image_of(item, key) for item in items]) for key in cameras}
        np.savez_compressed(decoded, **images)
    return {
        "episodes": dataset.num_episodes,
        "frames": dataset.num_frames,
        "rate": dataset.fps,
        "robot_type": dataset.meta.robot_type,
        "features": {key: list(f["shape"]) for key, f in dataset.features.items()},
        "depth": list(depth),
        "stats": {
            key: {name: np.asarray(value).tolist() for name, value in found.items()}
            for key, found in dataset.meta.stats.items()
        },
        "steps": [step_of(item, cameras) for item in items],
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
        "shown": {key: number_of(image_of(item, key)) for key in cameras},
    }


def image_of(item: dict[str, Any], key: str) -> np.ndarray:
    """uint8 (h, w, 3)."""
    floats: np.ndarray = item[key].numpy()
    return (floats * 255).round().astype(np.uint8).transpose(1, 2, 0)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
