"""Small folders of episodes, written by our writer or in the layout of other software."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image

from act_policy.types import Camera, Schema


def make_schema(cameras: Mapping[str, tuple[int, int]] | None = None, size: int = 3) -> Schema:
    """Describe joints j0, j1, ... in radians at 10 steps per second."""
    names = tuple(f"j{i}" for i in range(size))
    sizes = {"top": (6, 8)} if cameras is None else cameras
    return Schema(
        cameras=tuple(Camera(name, *shape) for name, shape in sizes.items()),
        state_names=names,
        state_units=("rad",) * size,
        action_names=names,
        action_units=("rad",) * size,
        rate=10.0,
        environment="act_policy/test-v0",
    )


def make_arrays(schema: Schema, steps: int, seed: int) -> dict[str, Any]:
    """Return images, state and action of one random episode, ready for `write_episode`."""
    rng = np.random.default_rng(seed)
    return {
        "images": {
            c.name: rng.integers(0, 256, (steps, c.height, c.width, 3), np.uint8)
            for c in schema.cameras
        },
        "state": rng.normal(size=(steps, schema.state_size)).astype(np.float32),
        "action": rng.normal(size=(steps, schema.action_size)).astype(np.float32),
    }


def jpeg_rows(frames: np.ndarray) -> np.ndarray:
    """Compress like act-plus-plus: OpenCV mistakes RGB for BGR, rows are padded with zeros."""
    encoded = []
    for frame in frames:
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(frame[:, :, ::-1])).save(buffer, "JPEG", quality=50)
        encoded.append(np.frombuffer(buffer.getvalue(), np.uint8))
    rows = np.zeros((len(encoded), max(map(len, encoded))), np.uint8)
    for row, bytes_ in zip(rows, encoded, strict=True):
        row[: len(bytes_)] = bytes_
    return rows


def write_foreign_episode(
    path: Path, steps: int, images: Mapping[str, np.ndarray], size: int = 14
) -> None:
    """Write an episode without attributes, like the oldest ALOHA recordings."""
    rng = np.random.default_rng(steps)
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["observations/qpos"] = rng.normal(size=(steps, size)).astype(np.float32)
        file["action"] = rng.normal(size=(steps, size)).astype(np.float32)
        for camera, frames in images.items():
            file[f"observations/images/{camera}"] = frames


def smooth_frames(steps: int, height: int = 32, width: int = 48) -> np.ndarray:
    """Return uint8 (T, h, w, 3): a gradient that JPEG keeps well, below a pure-red square."""
    ramp = np.linspace(0, 200, width, dtype=np.uint8)
    frames = np.empty((steps, height, width, 3), np.uint8)
    frames[:] = ramp[None, None, :, None]
    frames += np.arange(steps, dtype=np.uint8)[:, None, None, None]
    frames[:, :16, :16] = (255, 0, 0)
    return frames
