"""The datasets that we write for LeRobot and rerun to open; the same ones every time."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from act_policy.data.aloha.episode import write_episode
from act_policy.data.conversion.convert import convert
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.data.open import open_dataset
from act_policy.types import Camera, Schema
from tests.data.lerobot_for_tests import HEIGHT, WIDTH, numbered_frame, shown, write_lerobot
from tests.parity.lerobot_dataset.peer import LENGTHS

RECORDS = Path(__file__).parent
THEIRS = RECORDS / "theirs_0_6_1"
"""A dataset that LeRobot recorded, see record_theirs.py."""
_SMALL = {"data_file_mb": 0.008, "video_file_mb": 0.006, "files_per_chunk": 2}
CASES: dict[str, tuple[str, LeRobotWriterConfig]] = {
    # what it is made from, and how it is written; the file limits make files and chunks rotate
    "b_frames_copied": ("v2.1 with B-frames", LeRobotWriterConfig(**_SMALL)),
    "video_copied": ("v2.1", LeRobotWriterConfig(**_SMALL)),
    "video_encoded": ("hdf5", LeRobotWriterConfig(**_SMALL)),
    "image_columns": ("hdf5", LeRobotWriterConfig(images="png", **_SMALL)),
    "theirs": ("LeRobot's", LeRobotWriterConfig(**_SMALL)),
}


def write_case(name: str, folder: Path) -> Path:
    """Write one of the cases into a folder; returns the dataset's."""
    source, config = CASES[name]
    made = folder / f"{name}.source"
    _SOURCES[source](made)
    dataset = open_dataset(made)
    instruction = "stack the cubes"
    convert(dataset, folder / name, "lerobot_v3", config, workers=1, instruction=instruction)
    return folder / name


def _write_v21(folder: Path, b_frames: int = 0) -> None:
    write_lerobot(folder, LENGTHS, "v2.1", group=4, options={"bf": str(b_frames)})


def _write_hdf5(folder: Path) -> None:
    joints, cameras = ("shoulder", "elbow", "gripper"), ("top", "wrist")
    units = ("rad", "rad", "0..1")
    schema = Schema(
        tuple(Camera(name, HEIGHT, WIDTH) for name in cameras), joints, units, joints, units, 10.0
    )
    index = 0
    for episode, steps in enumerate(LENGTHS):
        state, action, effort = np.random.default_rng(episode).normal(size=(3, steps, 3))
        images = {
            name: np.stack([numbered_frame(shown(name, index + step)) for step in range(steps)])
            for name in cameras
        }
        path = folder / f"episode_{episode}.hdf5"
        write_episode(
            path, schema, images, state, action, vectors={"effort": effort}, seed=40 + episode
        )
        index += steps


def offline(home: str) -> dict[str, str]:
    """The environment of a peer, which leaves nothing at home and asks no network."""
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "HOME": home}


def _copy_theirs(folder: Path) -> None:
    shutil.copytree(THEIRS, folder)


_SOURCES: dict[str, Callable[[Path], None]] = {
    "v2.1": _write_v21,
    "v2.1 with B-frames": partial(_write_v21, b_frames=2),
    "hdf5": _write_hdf5,
    "LeRobot's": _copy_theirs,
}
