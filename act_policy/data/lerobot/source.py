"""The parts of a LeRobotDataset, taken from demonstrations of any format."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.lerobot.dataset import LeRobotDataset
from act_policy.data.lerobot.features import image_feature, read_tasks
from act_policy.data.lerobot.metadata import CAPTURE_TIME, COUNTERS
from act_policy.data.lerobot.schema import is_camera
from act_policy.data.video.writer import FrameRange
from act_policy.types import ACTION_KEY, IMAGE_PREFIX, STATE_KEY


class Description(NamedTuple):
    """Description of a dataset as a whole.

    features: of all columns and cameras, as in `info.json`.
    tasks: the texts to which `task_index` refers.
    ours: fields that only this project reads, stored under the key `act_policy`.
    """

    features: dict[str, Any]
    rate: float
    robot_type: str | None
    tasks: list[str]
    ours: dict[str, Any]


class Parts:
    """The parts that any reader offers; a reader of another format may offer more.

    Attributes:
        tasks: the texts to which `task_index` refers.
        robot_type: LeRobot's name of the robot; None if unknown.
        has_videos: whether images may be copied as videos.
    """

    robot_type: str | None = None
    has_videos = False

    def __init__(self, dataset: DemonstrationDataset) -> None:
        self.dataset = dataset
        self.tasks = list(dict.fromkeys(episode.instruction for episode in dataset.episodes))

    def features(self) -> dict[str, Any]:
        """Describe every column except images, by LeRobot's key."""
        dataset, schema = self.dataset, self.dataset.schema
        vectors = {
            f"observation.{n}": dataset.vector_dimensions(n).names for n in dataset.vector_names
        }
        state = {STATE_KEY: schema.state_names} if schema.state_names else {}
        named = {**state, **vectors, ACTION_KEY: schema.action_names}
        features: dict[str, Any] = {
            key: {"dtype": "float32", "shape": [len(names)], "names": list(names)}
            for key, names in named.items()
        }
        for key in self._times(0):
            features[key] = {"dtype": "float64", "shape": [1], "names": None}
        for key in COUNTERS:
            dtype = "float32" if key == "timestamp" else "int64"
            features[key] = {"dtype": dtype, "shape": [1], "names": None}
        return features

    def camera_key(self, camera: str) -> str:
        """Return the name of the feature that holds a camera's images."""
        return f"{IMAGE_PREFIX}{camera}"

    def encoded_images(self, episode: int, camera: str) -> FrameRange | pa.Array | None:
        """Return the encoded images of a camera that may be copied; see `LeRobotDataset`."""
        return None

    def tasks_of(self, episode: int) -> list[str]:
        """Return the texts of one episode."""
        return [self.dataset.episodes[episode].instruction]

    def rows(self, episode: int) -> pa.Table:
        """Return every column of an episode except images."""
        dataset = self.dataset
        has_state = dataset.schema.state_size > 0
        vectors = {STATE_KEY: dataset.state(episode)} if has_state else {}
        vectors |= {f"observation.{n}": dataset.vector(episode, n) for n in dataset.vector_names}
        vectors[ACTION_KEY] = dataset.action(episode)
        columns = {name: _to_column(values) for name, values in vectors.items()}
        steps = np.arange(dataset.lengths[episode], dtype=np.int64)
        columns["timestamp"] = pa.array((steps / dataset.schema.rate).astype(np.float32))
        columns |= {key: pa.array(times) for key, times in self._times(episode).items()}
        columns["frame_index"] = pa.array(steps)
        columns["task_index"] = self._count_task(episode)
        return pa.table(columns)

    def _times(self, episode: int) -> dict[str, np.ndarray]:
        """The columns of true times (T,) that every episode has."""
        names = set.intersection(*(set(times) for times in self._every_time))
        return {name: times for name, times in self._every_time[episode].items() if name in names}

    @cached_property
    def _every_time(self) -> list[dict[str, np.ndarray]]:
        found = []
        for episode in range(len(self.dataset.episodes)):
            times = self.dataset.timestamps(episode)
            known = {} if times is None else {CAPTURE_TIME: times}
            images = self.dataset.image_times(episode)
            found.append(known | {f"{CAPTURE_TIME}.{name}": each for name, each in images.items()})
        return found

    def _count_task(self, episode: int) -> pa.Array:
        """Return the column `task_index` of an episode with one task."""
        about = self.dataset.episodes[episode]
        index = self.tasks.index(about.instruction) if about.instruction in self.tasks else 0
        return pa.array(np.full(about.length, index, np.int64))


class LeRobotParts(Parts):
    """The parts of a LeRobotDataset: its descriptions, rows and encoded images are kept.

    State, action and cameras get LeRobot's names where they have others.
    """

    dataset: LeRobotDataset

    def __init__(self, dataset: LeRobotDataset) -> None:
        super().__init__(dataset)
        own = read_tasks(dataset.folder)
        self._own_count = len(own)
        # Episodes whose instruction differs from the metadata.
        self._changed = [
            entry.instruction != episode.instruction
            for entry, episode in zip(dataset.entries, dataset.episodes, strict=True)
        ]
        told = [
            episode.instruction
            for episode, changed in zip(dataset.episodes, self._changed, strict=True)
            if changed or not own
        ]
        self.tasks = list(dict.fromkeys([*own, *told]))
        plain = dataset.metadata.plain
        self.robot_type = plain.get("robot_type")
        self.has_videos = any(f["dtype"] == "video" for f in plain["features"].values())
        keys = dataset.keys
        renamed = {keys.action: ACTION_KEY} | ({keys.state: STATE_KEY} if keys.state else {})
        taken = {new for old, new in renamed.items() if new != old}
        self._names = {key: f"original.{key}" for key in dataset.metadata.features if key in taken}
        self._names |= renamed
        """Name in the source -> name here, where the two may differ."""

    def features(self) -> dict[str, Any]:
        """Repeat the dataset's own description of every column except images."""
        features = {
            self._names.get(name, name): feature
            for name, feature in self.dataset.metadata.plain["features"].items()
            if feature["dtype"] not in ("image", "video")
        }
        schema = self.dataset.schema
        if schema.state_names:
            features[STATE_KEY] = features[STATE_KEY] | {"names": list(schema.state_names)}
        features[ACTION_KEY] = features[ACTION_KEY] | {"names": list(schema.action_names)}
        return features

    def camera_key(self, camera: str) -> str:
        """Return the name of the feature that holds a camera's images."""
        key = self.dataset.camera_keys[camera]
        return key if is_camera(key) else super().camera_key(camera)

    def encoded_images(self, episode: int, camera: str) -> FrameRange | pa.Array | None:
        """Return the range of frames in a video, or the rows of an image column."""
        return self.dataset.encoded_images(episode, camera)

    def tasks_of(self, episode: int) -> list[str]:
        """Return the texts of one episode."""
        if self._changed[episode]:
            return super().tasks_of(episode)
        return list(self.dataset.entries[episode].tasks)

    def rows(self, episode: int) -> pa.Table:
        """Return every column of an episode except images, as stored."""
        rows = self.dataset.rows(episode)
        columns: dict[str, Any] = {
            self._names.get(name, name): rows.column(name) for name in rows.column_names
        }
        named = columns.get("task_index")
        known = named is not None and 0 <= np.max(named.to_numpy(), initial=-1) < self._own_count
        if not known or self._changed[episode]:
            columns["task_index"] = self._count_task(episode)
        if self.dataset.action_shift:
            columns[ACTION_KEY] = _to_column(self.dataset.action(episode))
        return pa.table(columns)


def take_apart(dataset: DemonstrationDataset) -> Parts:
    """Choose the parts that the dataset's format offers; reads the dataset's texts once."""
    return LeRobotParts(dataset) if isinstance(dataset, LeRobotDataset) else Parts(dataset)


def describe(parts: Parts, as_video: bool) -> Description:
    """Describe the dataset to be written; a LeRobotDataset's descriptions are kept."""
    schema, features = parts.dataset.schema, parts.features()
    counters = {name: features.pop(name) for name in COUNTERS}
    cameras = {parts.camera_key(c.name): image_feature(c, as_video) for c in schema.cameras}
    ours = {
        "state_units": list(schema.state_units),
        "action_units": list(schema.action_units),
        "environment_state_names": list(schema.environment_state_names),
        "environment": schema.environment,
    } | ({"teacher": schema.teacher} if schema.teacher else {})
    features |= cameras | counters
    return Description(features, schema.rate, parts.robot_type, parts.tasks, ours)


def _to_column(values: np.ndarray) -> pa.Array:
    if values.shape[1] == 1:
        return pa.array(values[:, 0])
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
