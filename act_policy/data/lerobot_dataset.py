"""A LeRobotDataset (v2.1 or v3.0) on disk as demonstrations; nothing is ever downloaded.

States and actions come from the parquet files, images from image columns or from videos.
Cameras are the features `observation.images.<name>` and `observation.image`; other features are
left alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.dataset import UndecodableFrameError, VectorDimensions, check_vector_name
from act_policy.data.lerobot_metadata import (
    Feature,
    Metadata,
    in_same_video,
    open_parquet,
    read_metadata,
)
from act_policy.data.lerobot_rows import ImageColumn, read_rows, read_vectors
from act_policy.data.schemas import SchemaSource, check_described, read_schema, with_cameras
from act_policy.data.video_file import BrokenFrameError, VideoFile, read_header
from act_policy.errors import UserError
from act_policy.types import ACTION_KEY, IMAGE_PREFIX, STATE_KEY, Camera, Schema

TOLERANCE = 1e-4
"""Seconds by which LeRobot lets a frame's time in the video be off its time in the metadata."""
OPEN_VIDEOS = 8
"""Files that stay open, over all cameras: each holds a decoder with some frames of memory."""
OBSERVATION_PREFIX = "observation."
HOW_TO_SKIP = "Copy the file again, or drop such frames with data.undecodable=skip."


class LeRobotDataset:
    """A LeRobotDataset in a folder.

    Everything but the images themselves is checked when the folder is opened, and states and
    actions are then in memory. A video's frame is found by its number in the file.

    Args:
        folder: holds `meta`, `data` and `videos`.
        schema: names, units and rate in place of the dataset's own. By default names are those of
            the features, or state_0, state_1, ... where these do not name each dimension; units
            are "", since LeRobot does not store them.
        cameras: which cameras to use, in this order; by default all that have three channels.

    Raises:
        UserError: something is missing, or the metadata does not describe the contents.
    """

    def __init__(
        self,
        folder: str | Path,
        schema: SchemaSource | None = None,
        cameras: Sequence[str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._metadata = read_metadata(self.folder)
        entries = self._metadata.episodes
        self.schema, self._keys = _schema(self.folder, self._metadata, schema, cameras)
        self.lengths = np.array([entry.length for entry in entries], np.int64)
        self.episode_names = [f"episode_{index:06d}" for index in range(len(entries))]
        self.episode_paths = [entry.data for entry in entries]
        self.instructions = [entry.instruction for entry in entries]
        self.seeds: list[int | None] = [None] * len(entries)
        self.outcomes: list[bool | None] = [None] * len(entries)
        self._states, self._actions, self._first_rows = read_rows(self._metadata)
        self._vector_keys = _vector_keys(self._metadata)
        self.vector_names = tuple(self._vector_keys)
        self._vectors: dict[str, tuple[Path, np.ndarray]] = {}  # of one file each
        self._frames_before: dict[tuple[int, str], int] = {}
        for camera in self.schema.cameras:
            self._check_images(camera)
        self._videos: dict[Path, VideoFile] = {}  # open ones, the one that was read last at the end
        self._columns: dict[str, ImageColumn] = {}
        self._first_frames: dict[tuple[int, str], int] = {}

    @property
    def episode_count(self) -> int:
        """How many episodes there are."""
        return len(self.lengths)

    def state(self, episode: int) -> np.ndarray:
        """float32 (T, s)."""
        return self._states[episode]

    def action(self, episode: int) -> np.ndarray:
        """float32 (T, a)."""
        return self._actions[episode]

    def vector(self, episode: int, name: str) -> np.ndarray:
        """float32 (T, n), the feature `observation.{name}`."""
        check_vector_name(self, name)
        path, key = self.episode_paths[episode], self._vector_keys[name]
        if name not in self._vectors or self._vectors[name][0] != path:
            self._vectors[name] = path, read_vectors(path, key, self._metadata.features[key])
        first = self._first_rows[episode]
        return self._vectors[name][1][first : first + self.lengths[episode]]

    def vector_dimensions(self, name: str) -> VectorDimensions:
        """The feature's names; LeRobot stores no units."""
        check_vector_name(self, name)
        names = _vector(self.folder / "meta" / "info.json", self._metadata, self._vector_keys[name])
        return VectorDimensions(names, ("",) * len(names))

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """uint8 (h, w, 3) RGB; raises UndecodableFrameError."""
        if not 0 <= step < self.lengths[episode]:
            raise IndexError(f"step {step} of episode {episode}, which has {self.lengths[episode]}")
        expected = next(c for c in self.schema.cameras if c.name == camera)
        place = f"episode {episode}, camera {camera}, frame {step}"
        where = f"{self.image_file(episode, camera)}: {place}"
        try:
            if self._is_video(camera):
                video = self._video(episode, camera)
                frame = video.frame(self._first_frame(video, episode, camera) + step)
            else:
                frame = self._column(episode, camera).frame(self._first_rows[episode] + step)
        except BrokenFrameError as error:
            raise UndecodableFrameError(
                f"{where} cannot be decoded ({error}). {HOW_TO_SKIP}"
            ) from None
        if frame.shape != (expected.height, expected.width, 3):
            raise UndecodableFrameError(
                f"{where} has shape {frame.shape}, expected {(expected.height, expected.width, 3)}"
            )
        return frame

    def image_file(self, episode: int, camera: str) -> Path:
        """The video, or the parquet file of an image column."""
        entry = self._metadata.episodes[episode]
        key = self._keys[camera]
        return entry.videos[key].path if self._is_video(camera) else entry.data

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        """None: every frame is encoded."""
        return None

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        """Where in the file the episode begins."""
        if self._is_video(camera):
            return (self._metadata.episodes[episode].videos[self._keys[camera]].start,)
        return (self._first_rows[episode],)

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        """int64, the steps of key frames; the first alone where images lie in a column.

        Images in a column each stand alone, but whole groups of rows are read at once.
        """
        if not self._is_video(camera):
            return np.zeros(1, np.int64)
        video = self._video(episode, camera)
        keys: np.ndarray = video.keys - self._first_frame(video, episode, camera)
        keys = keys[(keys >= 0) & (keys < self.lengths[episode])]
        return keys

    def close(self) -> None:
        """Close the files that reading frames left open."""
        for video in self._videos.values():
            video.close()
        self._videos, self._columns = {}, {}

    def _is_video(self, camera: str) -> bool:
        return self._metadata.features[self._keys[camera]].dtype == "video"

    def _check_images(self, camera: Camera) -> None:
        """Check what can be known without decoding: the files, their lengths and sizes."""
        key, entries = self._keys[camera.name], self._metadata.episodes
        if not self._is_video(camera.name):
            for path in dict.fromkeys(self.episode_paths):
                with open_parquet(path) as file:
                    if key not in file.schema_arrow.names:
                        raise UserError(
                            f"{path}: has no column {key}; "
                            f"found {', '.join(file.schema_arrow.names)}"
                        )
            return
        for path, group in in_same_video(key, entries):
            where = f"episodes {group[0]} to {group[-1]}" if group[1:] else f"episode {group[0]}"
            where += f", camera {camera.name}"
            try:
                header = read_header(path)
            except UserError as error:
                raise UserError(f"{error} ({where})") from None
            if (header.height, header.width) != (camera.height, camera.width):
                raise UserError(
                    f"{path}: {where}: the video is {header.height}x{header.width}, "
                    f"meta/info.json says {camera.height}x{camera.width}"
                )
            wanted, whole_file = 0, False
            for index in group:
                self._frames_before[index, camera.name] = wanted
                wanted += entries[index].length
                whole_file = entries[index].videos[key].start is None
            found = wanted if header.frames is None else header.frames
            if found < wanted or (whole_file and found != wanted):
                raise UserError(
                    f"{path}: {where}: the video has {found} frames, the metadata count {wanted}"
                )

    def _video(self, episode: int, camera: str) -> VideoFile:
        """The camera's video of an episode."""
        path = self.image_file(episode, camera)
        video = self._videos.pop(path, None)
        if video is None:
            while len(self._videos) >= OPEN_VIDEOS:
                self._videos.pop(next(iter(self._videos))).close()
            video = VideoFile(path)
        self._videos[path] = video
        return video

    def _first_frame(self, video: VideoFile, episode: int, camera: str) -> int:
        """Number in the file of the episode's first frame, checked against the frames' times."""
        if (known := self._first_frames.get((episode, camera))) is not None:
            return known
        entry, rate = self._metadata.episodes[episode], self._metadata.rate
        before = self._frames_before[episode, camera]
        start = entry.videos[self._keys[camera]].start
        where = f"{video.path}: episode {episode}, camera {camera}"
        if start is None:
            first = 0
            if video.whole and len(video) != entry.length:
                raise UserError(f"{where}: {len(video)} frames, the metadata say {entry.length}")
        elif len(video) == 0 or (not video.whole and start > video.times[-1] + TOLERANCE):
            first = len(video)  # it would begin where the file is cut off
        else:
            first = int(np.abs(video.times - start).argmin())
            off = abs(video.times[first] - start)
            # Times that were summed up from file to file drift; then the count must agree.
            if off > TOLERANCE and not (off < 0.5 / rate and first == before):
                raise UserError(
                    f"{where}: begins at {start:.4f} s by the metadata, but the nearest frame is "
                    f"frame {first} at {video.times[first]:.4f} s, and {before} frames belong to "
                    "the episodes before it"
                )
        shown = video.times[first : first + entry.length]
        if video.whole and len(shown) < entry.length:
            raise UserError(
                f"{where}: the video has {len(shown)} frames from {start or 0:g} s on, the "
                f"metadata say {entry.length}"
            )
        if len(shown):
            off_by = np.abs(shown - shown[0] - np.arange(len(shown)) / rate)
            if (worst := int(off_by.argmax())) and off_by[worst] >= 0.5 / rate:
                raise UserError(
                    f"{where}: frame {worst} is shown {shown[worst] - shown[0]:.4f} s after the "
                    f"first, expected {worst / rate:.4f} s at {rate:g} frames per second"
                )
        self._first_frames[episode, camera] = first
        return first

    def _column(self, episode: int, camera: str) -> "ImageColumn":
        path = self.episode_paths[episode]
        column = self._columns.get(camera)
        if column is None or column.path != path:
            self._columns[camera] = column = ImageColumn(path, self._keys[camera])
        return column

    def __getstate__(self) -> dict[str, Any]:
        # an open file does not travel to a worker
        return self.__dict__ | {"_videos": {}, "_columns": {}}


def _schema(
    folder: Path,
    metadata: Metadata,
    given: SchemaSource | None,
    selected: Sequence[str] | None,
) -> tuple[Schema, dict[str, str]]:
    """The schema, and the feature of each of its cameras."""
    info = folder / "meta" / "info.json"
    keys = {
        "image" if key == "observation.image" else key.removeprefix(IMAGE_PREFIX): key
        for key, feature in metadata.features.items()
        if feature.is_image and (key.startswith(IMAGE_PREFIX) or key == "observation.image")
    }
    every = {name: _camera(info, name, metadata.features[key]) for name, key in keys.items()}
    cameras = {name: camera for name, camera in every.items() if camera is not None}
    state, action = (_vector(info, metadata, key) for key in (STATE_KEY, ACTION_KEY))
    stored = None
    if given is not None:
        stored = read_schema(given, list(cameras.values()))
        check_described(stored, info, (len(state), len(action)), cameras)
        if stored.rate != metadata.rate:
            raise UserError(
                f"{info}: fps is {metadata.rate:g}, but the schema says {stored.rate:g}"
            )
    if selected is not None:
        names = [selected] if isinstance(selected, str) else list(selected)
    else:
        names = list(cameras if stored is None else stored.camera_names)
    if missing := [name for name in names if name not in cameras]:
        raise UserError(
            f"{info}: no camera {', '.join(missing)} of three channels; found "
            f"{', '.join(cameras) or 'none'}. Choose with cameras=[...] (data.cameras= in "
            "training)."
        )
    chosen = [cameras[name] for name in names]
    if stored is None:
        stored = Schema(
            cameras=(),
            state_names=state,
            state_units=("",) * len(state),
            action_names=action,
            action_units=("",) * len(action),
            rate=metadata.rate,
        )
    return with_cameras(stored, chosen), {name: keys[name] for name in names}


def _camera(info: Path, name: str, feature: Feature) -> Camera | None:
    """A camera's size; None where it is a depth map or has not three channels."""
    shape = feature.shape
    if len(shape) != 3:
        raise UserError(f"{info}: camera {name} has shape {list(shape)}; expected three numbers")
    # By name, else (names are often wrong or missing) by which axis can be the channels.
    names = feature.names if isinstance(feature.names, list) else []
    first = str(names[0]).startswith("channel") if names else False
    if not shape[0 if first else 2] <= 4:
        first = not first
    channels, height, width = shape if first else (shape[2], *shape[:2])
    return None if feature.is_depth or channels != 3 else Camera(name, height, width)


def _vector(info: Path, metadata: Metadata, key: str) -> tuple[str, ...]:
    """Names of a vector's dimensions."""
    feature = metadata.features.get(key)
    if feature is None:
        raise UserError(f"{info}: has no feature {key}; found {', '.join(metadata.features)}")
    if not feature.is_vector:
        raise UserError(
            f"{info}: {key} is {feature.dtype} {list(feature.shape)}; expected a vector of numbers"
        )
    size = int(feature.shape[0])
    names = list(_flat(feature.names))
    if len(names) == size == len(set(names)):
        return tuple(names)
    return tuple(f"{key.rpartition('.')[2]}_{dimension}" for dimension in range(size))


def _vector_keys(metadata: Metadata) -> dict[str, str]:
    """Features that are vectors of numbers observed besides the state, by their short names."""
    return {
        key.removeprefix(OBSERVATION_PREFIX): key
        for key, feature in metadata.features.items()
        if key.startswith(OBSERVATION_PREFIX) and key != STATE_KEY and feature.is_vector
    }


def _flat(names: Any) -> Iterator[str]:
    """Names in whatever form people wrote them: a list, lists in it, or a mapping to either."""
    if isinstance(names, str):
        yield names
    elif isinstance(names, dict):
        # {"motors": [...]} or {"shoulder": 0, "elbow": 1}
        if all(isinstance(value, int) for value in names.values()):
            yield from sorted(names, key=lambda name: names[name])
        else:
            for value in names.values():
                yield from _flat(value)
    elif isinstance(names, list):
        for value in names:
            yield from _flat(value)
