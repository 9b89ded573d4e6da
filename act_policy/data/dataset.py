"""The interface of every reader of demonstrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Observation, Schema

OPERATOR = "operator"
"""The vector (T, 1) that is 1 where a person acted in a recorded run of a policy, else 0."""


class UndecodableFrameError(UserError):
    """One frame of a camera cannot be decoded; the message names episode, camera and step."""


class DatasetWarning(UserWarning):
    """The dataset can be used, but a person should know something about it."""


DEPTH = "it is a depth map"
"""Why a camera is left out that says itself that it holds depth; the others deserve a warning."""

IMAGES_ALONE = (
    "a policy trained on it sees images alone (features={state: null} says that this is meant, "
    "data.features= in training)"
)


class VectorDimensions(NamedTuple):
    """Names and units of a vector's dimensions; an unknown unit is ""."""

    names: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class Episode:
    """One demonstration, as its reader describes it.

    name: shown to people, who find the episode by it.
    index: used to choose it: LeRobot's index, or the number in the file's name. The index of an
        episode that is left out is not given to another.
    length: number of steps T.
    file: holds its states and actions, perhaps with those of other episodes.
    instruction: the task given to the operator, or several in one text, see `instructions` of the
        dataset; "" if unknown.
    seed: the simulator's; None if unknown.
    outcome: whether the demonstration succeeded; None if unknown.
    ended: the kind of event that ended a recorded run of a policy; "" if unknown.
    """

    name: str
    index: int
    length: int
    file: Path
    instruction: str = ""
    seed: int | None = None
    outcome: bool | None = None
    ended: str = ""


def lengths_of(episodes: Sequence[Episode]) -> np.ndarray:
    """Return int64 (episodes,), the number of steps in each."""
    return np.array([episode.length for episode in episodes], np.int64)


@runtime_checkable
class DemonstrationDataset(Protocol):
    """Demonstrations in any format, one episode after the other.

    folder: holds the files.
    schema: common to all episodes.
    episodes: by ascending index. The methods count them from 0, as this sequence does.
    lengths: int64 (episodes,), their lengths again, for arithmetic.
    last_index: the largest index of an episode on disk, left out or not.
    vector_names: further vectors that every episode has, such as "velocity" and "effort".
    left_out: contents of the files that are not read, such as depth images -> why not; "" where
        there is no use for them.
    notes: warnings for a person: episodes left out, doubts. `open_dataset` gives each as a
        `DatasetWarning`.
    """

    folder: Path
    schema: Schema
    episodes: Sequence[Episode]
    lengths: np.ndarray
    last_index: int
    vector_names: tuple[str, ...]
    left_out: Mapping[str, str]
    notes: list[str]

    def state(self, episode: int) -> np.ndarray:
        """Return float32 (T, s) in the schema's units; values may not be finite."""

    def action(self, episode: int) -> np.ndarray:
        """Return float32 (T, a) in the schema's units; values may not be finite."""

    def timestamps(self, episode: int) -> np.ndarray | None:
        """Return float64 (T,), the moment that each step shows in s; None if the files lack it."""
        return None

    def image_times(self, episode: int) -> dict[str, np.ndarray]:
        """Camera -> when its images were taken, float64 (T,); empty if the files lack it."""
        return {}

    def instructions(self, episode: int) -> Mapping[str, np.ndarray]:
        """Return each instruction that the operator had in an episode -> bool (T,), its steps."""
        about = self.episodes[episode]
        return {about.instruction: np.ones(about.length, bool)}

    def vector(self, episode: int, name: str) -> np.ndarray:
        """Return one of `vector_names`, float32 (T, n), read from the file; raises UserError."""

    def vector_dimensions(self, name: str) -> VectorDimensions:
        """Describe the n dimensions of one of `vector_names`; raises UserError."""

    def environment(self, episode: int) -> str:
        """Return the id of the simulated environment of an episode; "" on a real robot."""
        return self.schema.environment

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """Return uint8 (h, w, 3) RGB; raises UndecodableFrameError.

        Each frame is decoded only once if frames are read in order, episode after episode.
        """

    def image_file(self, episode: int, camera: str) -> Path:
        """Return the file that holds the camera's frames; several episodes may share one."""
        return self.episodes[episode].file

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        """Return int64 (T,), offsets of the raw frames in the image file; None if encoded."""
        return None

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        """Return all that the decoded frames depend on except the image file's bytes."""

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        """Return int64, ascending steps from which decoding can begin; None if from every step.

        To read a frame between two of them, the frames since the earlier one must be decoded.
        """
        return None

    def close(self) -> None:
        """Close the files opened to read frames; the next frame opens them again."""


def observation_at(
    dataset: DemonstrationDataset, episode: int, step: int
) -> Observation[np.ndarray]:
    """Read every camera's image at a step of an episode, the state, and the task in words."""
    images = {name: dataset.frame(episode, step, name) for name in dataset.schema.camera_names}
    told = dataset.instructions(episode).items()
    task = next((text for text, steps in told if text and steps[step]), None)
    return Observation(images, dataset.state(episode)[step], task=task)


def name_left_out(left_out: Mapping[str, str]) -> list[str]:
    """Name what is left out, each with the reason where there is one."""
    return [f"{name} ({why})" if why else name for name, why in left_out.items()]


def place_of(dataset: DemonstrationDataset, episode: int) -> str:
    """Return an episode's file, and its name where the file holds several."""
    file, name = dataset.episodes[episode].file, dataset.episodes[episode].name
    return f"{file}" if name in (file.name, file.stem) else f"{file}: {name}"


def check_vector_name(dataset: DemonstrationDataset, name: str) -> None:
    """Raise UserError unless every episode has this vector."""
    if name not in dataset.vector_names:
        raise UserError(
            f"{dataset.folder}: no vector {name} that every episode has; "
            f"found {', '.join(dataset.vector_names) or 'none'}"
        )


def check_frame(
    dataset: DemonstrationDataset, camera: str, frame: np.ndarray, where: str
) -> np.ndarray:
    """Return a frame; raise UndecodableFrameError unless it is as large as the schema says."""
    expected = next(c for c in dataset.schema.cameras if c.name == camera)
    if frame.shape != (shape := (expected.height, expected.width, 3)):
        raise UndecodableFrameError(f"{where} has shape {frame.shape}, expected {shape}")
    return frame


def check_step(dataset: DemonstrationDataset, episode: int, step: int) -> None:
    """Raise IndexError unless the episode has this step."""
    if not 0 <= step < dataset.lengths[episode]:
        raise IndexError(f"step {step} of episode {episode}, which has {dataset.lengths[episode]}")
