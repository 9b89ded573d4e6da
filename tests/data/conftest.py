"""Folders of small episodes for these tests."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.types import Schema
from tests.data.episodes_for_tests import make_arrays, make_schema

FolderMaker = Callable[..., Path]


@pytest.fixture
def make_folder(tmp_path: Path) -> FolderMaker:
    """Write a folder of random episodes of the given lengths; episode i has seed 100 + i."""

    def make(lengths: Sequence[int], schema: Schema | None = None, name: str = "episodes") -> Path:
        schema = schema or make_schema()
        for episode, steps in enumerate(lengths):
            write_episode(
                tmp_path / name / f"episode_{episode:06d}.hdf5",
                schema,
                **make_arrays(schema, steps, episode),
                seed=100 + episode,
                success=True,
            )
        return tmp_path / name

    return make
