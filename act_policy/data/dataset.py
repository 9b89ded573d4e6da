"""What every reader of demonstrations offers, and the choice of the reader."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.data.faults import Wanted
from act_policy.data.hub import is_hub_id, resolve
from act_policy.data.schemas import SchemaSource
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


def open_dataset(
    path: str | Path,
    schema: SchemaSource | None = None,
    cameras: Sequence[str] | None = None,
    jpeg_order: str = "bgr",
    unreadable: str = "stop",
    action_shift: int = 0,
    download: bool = False,
    wanted: Wanted | None = None,
) -> DemonstrationDataset:
    """Open a folder of demonstrations with the reader that its content asks for.

    A folder with `meta/info.json` is a LeRobotDataset, one with `*.hdf5` files is ALOHA's.

    Args:
        path: the folder, or the hub id of a LeRobotDataset, `user/name`, that is on this machine
            already.
        schema: names, units and rate where the files do not say them (a JSON file or a mapping).
        cameras: which cameras to use, in this order; by default all.
        jpeg_order: channel order inside the JPEG rows of HDF5, see `AlohaHDF5Dataset`.
        unreadable: "stop" at an episode that cannot be read or contradicts its metadata, or "skip"
            it and say so.
        action_shift: by how many steps later than what was observed the actions are stored: 1 for
            ALOHA recordings of a real robot, see `shifted`.
        download: whether a hub id that is not on this machine may be fetched.
        wanted: chooses the episodes that are used; what is wrong with others does not matter.

    Raises:
        UserError: no such folder, nothing readable in it, or episodes that do not fit together.
    """
    folder = find_folder(path, download)
    check_converted(folder)
    dataset: DemonstrationDataset
    # Each reader needs other libraries, and not every machine has all of them.
    if (folder / "meta" / "info.json").exists():
        from act_policy.data.lerobot_dataset import LeRobotDataset

        dataset = LeRobotDataset(folder, schema, cameras, unreadable, action_shift, wanted)
    elif any(folder.glob("*.hdf5")):
        from act_policy.data.aloha_hdf5 import AlohaHDF5Dataset

        dataset = AlohaHDF5Dataset(
            folder, schema, cameras, jpeg_order, unreadable, action_shift, wanted=wanted
        )
    elif (folder / "meta").is_dir() or (folder / "data").is_dir():
        raise UserError(
            f"{folder}: has no meta/info.json; a LeRobotDataset was copied or recorded only in part"
        )
    else:
        raise UserError(
            f"{folder}: holds no episode; expected files named episode_000000.hdf5 or so, or a "
            "LeRobotDataset with meta/info.json"
        )
    for note in dataset.notes:
        warnings.warn(note, DatasetWarning, stacklevel=2)
    return dataset


def find_folder(path: str | Path, download: bool = False) -> Path:
    """The folder of that name, or of a dataset in the hub's cache; raises UserError."""
    folder = Path(path)
    if not folder.exists():
        if not is_hub_id(path):
            raise UserError(f"{folder}: no such folder of demonstrations")
        folder = resolve(str(path), download)
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the folder that holds the episodes")
    return folder


CONVERSION_FILE = "conversion.json"
"""In a folder that `convert` fills: what is converted into it, and whether that is done."""


def check_converted(folder: Path) -> None:
    """Raise UserError where a conversion into the folder has not come to its end."""
    file = folder / CONVERSION_FILE
    try:
        finished = json.loads(file.read_text()).get("finished")
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from None
    if not finished:
        raise UserError(
            f"{folder}: a conversion into this folder was not finished; the same command goes on"
        )
