"""What every reader of demonstrations offers."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Schema


class UndecodableFrameError(UserError):
    """One frame of a camera cannot be decoded; the message names episode, camera and step."""


class DatasetWarning(UserWarning):
    """The dataset can be used, but a person must know something of it."""


class VectorDimensions(NamedTuple):
    """Names and units of a vector's dimensions; a unit is "" where it is not known."""

    names: tuple[str, ...]
    units: tuple[str, ...]


@runtime_checkable
class DemonstrationDataset(Protocol):
    """Demonstrations in whatever format, one episode after the other.

    folder: that holds them.
    schema: what all episodes share.
    lengths: int64 (episodes,), steps in each.
    episode_names: by which a person finds each.
    episode_indices: int64 (episodes,), ascending, by which a person chooses: LeRobot's, or the
        number in the file's name. That of an episode which is left out is no other's.
    last_index: the largest of an episode on disk, left out or not.
    episode_paths: the file with each one's states and actions; several may share one.
    instructions: what the operator was told to do, "" where it is not known.
    seeds: the simulator's seed of each, None where it is not known.
    outcomes: whether the demonstration succeeded, None where it is not known.
    vector_names: what was observed besides state and images and every episode has, such as
        "velocity" and "effort".
    left_alone: what the files hold besides and is not read, such as depth images.
    notes: what a person must be told: episodes left out, doubts. `open_dataset` gives each as a
        `DatasetWarning`.
    """

    folder: Path
    schema: Schema
    lengths: np.ndarray
    episode_names: list[str]
    episode_indices: np.ndarray
    last_index: int
    episode_paths: list[Path]
    instructions: list[str]
    seeds: list[int | None]
    outcomes: list[bool | None]
    vector_names: tuple[str, ...]
    left_alone: tuple[str, ...]
    notes: list[str]

    @property
    def episode_count(self) -> int:
        """How many episodes there are."""

    def state(self, episode: int) -> np.ndarray:
        """float32 (T, s) in the schema's units; may hold values that are not finite."""

    def action(self, episode: int) -> np.ndarray:
        """float32 (T, a) in the schema's units; may hold values that are not finite."""

    def vector(self, episode: int, name: str) -> np.ndarray:
        """float32 (T, n), one of `vector_names`; read from the file at each call.

        Raises:
            UserError: there is no such vector, or it cannot be read.
        """

    def vector_dimensions(self, name: str) -> VectorDimensions:
        """What the n dimensions of one of `vector_names` are; raises UserError."""

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """uint8 (h, w, 3) RGB; raises UndecodableFrameError.

        Frames asked for in order, episode after episode, are each decoded once.
        """

    def image_file(self, episode: int, camera: str) -> Path:
        """The file that holds the camera's frames of an episode; several may share one."""

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        """int64 (T,), where each frame's raw bytes lie in the image file; None if encoded."""

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        """What besides the image file decides how the decoded frames look: part in it, options."""

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        """int64, ascending steps from which decoding can begin; None if from every step.

        A frame between two of them costs the decoding of those before it.
        """

    def close(self) -> None:
        """Close the files that reading frames left open; the next frame opens them again."""


def place_of(dataset: DemonstrationDataset, episode: int) -> str:
    """Where an episode is to be found: its file, and its name where the file holds several."""
    path, name = dataset.episode_paths[episode], dataset.episode_names[episode]
    return f"{path}" if name in (path.name, path.stem) else f"{path}: {name}"


def check_vector_name(dataset: DemonstrationDataset, name: str) -> None:
    """Raise UserError unless every episode has such a vector."""
    if name not in dataset.vector_names:
        raise UserError(
            f"{dataset.folder}: no vector {name} that every episode has; "
            f"found {', '.join(dataset.vector_names) or 'none'}"
        )


def check_step(dataset: DemonstrationDataset, episode: int, step: int) -> None:
    """Raise IndexError unless the episode has such a step."""
    if not 0 <= step < dataset.lengths[episode]:
        raise IndexError(f"step {step} of episode {episode}, which has {dataset.lengths[episode]}")
