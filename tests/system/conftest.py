"""Small demonstrations for every test of this package."""

from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from tests.system.train_for_tests import SCHEMA


@pytest.fixture(scope="session")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four episodes in which the action is twice the state."""
    folder = tmp_path_factory.mktemp("demonstrations")
    rng = np.random.default_rng(0)
    for episode, steps in enumerate((9, 5, 7, 6)):
        state = rng.normal(size=(steps, 2)).astype(np.float32)
        images = {"front": rng.integers(0, 256, (steps, 16, 16, 3), dtype=np.uint8)}
        path = folder / f"episode_{episode:06}.hdf5"
        write_episode(path, SCHEMA, images, state, 2 * state, seed=episode)
    return folder
