"""What every reader of demonstrations offers, and the choice of the reader."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Schema


class UndecodableFrameError(UserError):
    """One frame of a camera cannot be decoded; the message names episode, camera and step."""


@runtime_checkable
class DemonstrationDataset(Protocol):
    """Demonstrations in whatever format, one episode after the other.

    schema: what all episodes share.
    lengths: int64 (episodes,), steps in each.
    episode_names, episode_paths: the file of each.
    seeds: the simulator's seed of each, None where it is not known.
    outcomes: whether the demonstration succeeded, None where it is not known.
    """

    schema: Schema
    lengths: np.ndarray
    episode_names: list[str]
    episode_paths: list[Path]
    seeds: list[int | None]
    outcomes: list[bool | None]

    @property
    def episode_count(self) -> int:
        """How many episodes there are."""

    def state(self, episode: int) -> np.ndarray:
        """float32 (T, s) in the schema's units; may hold values that are not finite."""

    def action(self, episode: int) -> np.ndarray:
        """float32 (T, a) in the schema's units; may hold values that are not finite."""

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """uint8 (h, w, 3) RGB; raises UndecodableFrameError."""

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        """int64 (T,), where each frame's raw bytes lie in the episode's file; None if encoded."""

    def decoding_options(self) -> dict[str, Any]:
        """What besides the files decides how a decoded frame looks; part of a cache's name."""


def open_dataset(path: str | Path, **options: Any) -> DemonstrationDataset:
    """Open a folder of demonstrations with the reader that its content asks for.

    Args:
        path: the folder.
        options: what the reader takes, see `AlohaHDF5Dataset`.

    Raises:
        UserError: no such folder, nothing readable in it, or episodes that do not fit together.
    """
    from act_policy.data.aloha_hdf5 import AlohaHDF5Dataset

    folder = Path(path)
    if not folder.exists():
        raise UserError(f"{folder}: no such folder of demonstrations")
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the folder that holds the episodes")
    if any(folder.glob("*.hdf5")):
        return AlohaHDF5Dataset(folder, **options)
    if (folder / "meta" / "info.json").exists():
        raise UserError(f"{folder}: is a LeRobot dataset; this version reads ALOHA's HDF5 only")
    raise UserError(f"{folder}: holds no episode; expected files named episode_000000.hdf5 or so")
