"""Small demonstrations and what is built from them."""

from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha_hdf5 import write_episode
from act_policy.types import Camera, Schema

SCHEMA = Schema(
    cameras=(Camera("front", 16, 16), Camera("wrist", 12, 20)),
    state_names=("x", "y"),
    state_units=("m", "m"),
    action_names=("dx", "dy", "grip"),
    action_units=("m", "m", ""),
    rate=10.0,
)


def write_demonstrations(folder: Path, lengths: tuple[int, ...] = (9, 2, 7, 6)) -> Path:
    """Write episodes of those lengths with random content; the last lengths may be shorter."""
    rng = np.random.default_rng(0)
    for episode, steps in enumerate(lengths):
        state = rng.normal(size=(steps, 2)).astype(np.float32)
        action = np.concatenate([2 * state, state[:, :1] > 0], axis=1).astype(np.float32)
        images = {
            camera.name: rng.integers(
                0, 256, (steps, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in SCHEMA.cameras
        }
        write_episode(
            folder / f"episode_{episode:06}.hdf5", SCHEMA, images, state, action, seed=100 + episode
        )
    return folder


@pytest.fixture(scope="session")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes of 9, 2, 7 and 6 steps."""
    return write_demonstrations(tmp_path_factory.mktemp("demonstrations"))
