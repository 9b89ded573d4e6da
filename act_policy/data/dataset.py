"""What every reader of demonstrations offers."""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Episode:
    """One demonstration, as its reader describes it.

    name: by which a person finds it.
    index: by which a person chooses it: LeRobot's, or the number in the file's name. That of an
        episode which is left out is no other's.
    length: number of steps T.
    file: holds its states and actions, perhaps with those of other episodes.
    instruction: what the operator was told to do; "" if unknown.
    seed: the simulator's; None if unknown.
    outcome: whether the demonstration succeeded; None if unknown.
    """

    name: str
    index: int
    length: int
    file: Path
    instruction: str = ""
    seed: int | None = None
    outcome: bool | None = None


def lengths_of(episodes: Sequence[Episode]) -> np.ndarray:
    """int64 (episodes,), the steps in each."""
    return np.array([episode.length for episode in episodes], np.int64)


@runtime_checkable
class DemonstrationDataset(Protocol):
    """Demonstrations in whatever format, one episode after the other.

    folder: that holds them.
    schema: what all episodes share.
    episodes: by ascending index. The methods count them from 0, as this sequence does.
    lengths: int64 (episodes,), their lengths again, for arithmetic.
    last_index: the largest index of an episode on disk, left out or not.
    vector_names: what was observed besides state and images and every episode has, such as
        "velocity" and "effort".
    left_alone: what the files hold besides and is not read, such as depth images.
    notes: what a person must be told: episodes left out, doubts. `open_dataset` gives each as a
        `DatasetWarning`.
    """

    folder: Path
    schema: Schema
    episodes: Sequence[Episode]
    lengths: np.ndarray
    last_index: int
    vector_names: tuple[str, ...]
    left_alone: tuple[str, ...]
    notes: list[str]

    def state(self, episode: int) -> np.ndarray:
        """float32 (T, s) in the schema's units; may hold values that are not finite."""

    def action(self, episode: int) -> np.ndarray:
        """float32 (T, a) in the schema's units; may hold values that are not finite."""

    def timestamps(self, episode: int) -> np.ndarray | None:
        """float64 (T,), seconds at which the steps were recorded; None if the files say none."""

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
    file, name = dataset.episodes[episode].file, dataset.episodes[episode].name
    return f"{file}" if name in (file.name, file.stem) else f"{file}: {name}"


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
