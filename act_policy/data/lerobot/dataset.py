"""A LeRobotDataset (v2.0, v2.1, v3.0) on disk as demonstrations; nothing is ever downloaded.

States and actions come from the parquet files, images from image columns or from videos.
Cameras are the features `observation.images.<name>` and `observation.image`, and those that
`features` of the ReaderConfig names; what is not read is named in `left_out`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from act_policy.data.dataset import (
    IMAGES_ALONE,
    DemonstrationDataset,
    Episode,
    UndecodableFrameError,
    VectorDimensions,
    check_frame,
    check_step,
    check_vector_name,
    lengths_of,
)
from act_policy.data.episode_errors import EpisodeErrors, UnfinishedError, Wanted
from act_policy.data.lerobot.cameras import channels_of
from act_policy.data.lerobot.features import read_tasks
from act_policy.data.lerobot.images import ImageColumn, first_value, image_files, is_by_name
from act_policy.data.lerobot.metadata import (
    CAPTURE_TIME,
    COUNTERS,
    EpisodeEntry,
    in_same_video,
    open_parquet,
    read_columns,
    read_metadata,
)
from act_policy.data.lerobot.rows import read_rows, read_vectors
from act_policy.data.lerobot.schema import (
    lerobot_schema,
    short_name,
    vector_keys,
    vector_names,
)
from act_policy.data.reader_config import DEFAULT_READER, STATE, ReaderConfig
from act_policy.data.schemas import shift_actions
from act_policy.data.video.decoder import BrokenFrameError, VideoFile
from act_policy.data.video.index import read_header
from act_policy.data.video.writer import FrameRange
from act_policy.errors import UserError
from act_policy.types import Camera

TOLERANCE = 1e-4
"""Largest difference in s that LeRobot allows between a frame's times in video and metadata."""
OPEN_VIDEOS = 8
"""Files that stay open, over all cameras: each holds a decoder and the memory of some frames."""


class LeRobotDataset(DemonstrationDataset):
    """A LeRobotDataset in a folder.

    Everything except the images is checked when the folder is opened; states and actions are then
    in memory. A video's frame is found by its number in the file.

    Args:
        folder: holds `meta`, `data` and `videos`.
        reader: how to read it. Its schema replaces the dataset's. Without one, names are those of
            the features, or state_0, state_1, ... where these do not name each dimension; units
            are "", since LeRobot does not store them. Without cameras, all that have three
            channels are used.
        wanted: chooses the episodes to use; errors in the others do not matter.

    Raises:
        UserError: something is missing, or the metadata do not match the contents.
    """

    def __init__(
        self,
        folder: str | Path,
        reader: ReaderConfig = DEFAULT_READER,
        wanted: Wanted | None = None,
    ) -> None:
        self.folder = Path(folder)
        errors = EpisodeErrors(reader.unreadable, wanted)
        self.metadata = read_metadata(self.folder, errors)
        self.notes = list(self.metadata.notes)
        self.schema, self.keys, unused, notes = lerobot_schema(self.folder, self.metadata, reader)
        self.camera_keys = self.keys.cameras
        self.notes += [f"{self.folder}: {note}" for note in notes]
        if self.keys.state is None and STATE not in (reader.features or {}):
            self.notes.append(f"{self.folder}: holds no state; {IMAGES_ALONE}")
        rows = read_rows(self.metadata, self.keys, errors, self.notes)
        self._frames_before: dict[tuple[int, str], int] = {}
        for camera in self.schema.cameras:
            self._check_images(camera, errors)
        names = {e.number: f"episode_{e.number:06d}" for e in self.metadata.episodes}
        kept, notes = errors.settle(names)
        self.notes += notes
        self.episode_errors = dict(sorted(errors.by_episode.items()))
        self.entries: list[EpisodeEntry] = [e for e in self.metadata.episodes if e.number in kept]
        self.episodes: Sequence[Episode] = [
            Episode(
                *(names[e.number], e.number, e.length, e.data, e.instruction, e.seed, e.outcome),
                ended=e.ended,
            )
            for e in self.entries
        ]
        self.lengths = lengths_of(self.episodes)
        self.last_index = self.metadata.episodes[-1].number
        self.action_shift = reader.action_shift
        self._rows = [
            part._replace(action=shift_actions(part.action, self.action_shift))
            for part in (rows[entry.number] for entry in self.entries)
        ]
        self._vector_keys = vector_keys(self.metadata, self.keys)
        self.vector_names = tuple(self._vector_keys)
        read = {self.keys.state, self.keys.action, *COUNTERS}
        read |= {*self.camera_keys.values(), *self._vector_keys.values(), CAPTURE_TIME}
        read |= {f"{CAPTURE_TIME}.{camera}" for camera in self.camera_keys}
        self.left_out = {k: unused.get(k, "") for k in self.metadata.features if k not in read}
        self.left_out |= {
            f"{key} (alpha channel)": ""
            for key in self.camera_keys.values()
            if channels_of(self.metadata.features[key]) == 4
        }
        self._vectors: dict[str, tuple[Path, np.ndarray]] = {}  # of one file each
        self._videos: dict[Path, VideoFile] = {}  # open ones, the last one read at the end
        self._columns: dict[str, ImageColumn] = {}
        self._first_frames: dict[tuple[int, str], int] = {}

    @cached_property
    def _first_images(self) -> dict[str, Any]:
        """The first value in each camera's column of images."""
        columns = [name for name in self.camera_keys if not self._is_video(name)]
        return {name: first_value(self.metadata, self.camera_keys[name]) for name in columns}

    @cached_property
    def _tasks(self) -> list[str]:
        """The texts to which `task_index` refers."""
        return read_tasks(self.folder)

    def state(self, episode: int) -> np.ndarray:
        """Return float32 (T, s)."""
        return self._rows[episode].state

    def action(self, episode: int) -> np.ndarray:
        """Return float32 (T, a)."""
        return self._rows[episode].action

    def timestamps(self, episode: int) -> np.ndarray | None:
        """Return the column `capture_time`, or else `timestamp`, float64 (T,), in seconds."""
        return self._rows[episode].timestamps.astype(np.float64)

    def image_times(self, episode: int) -> dict[str, np.ndarray]:
        """Return the columns `capture_time.CAMERA`."""
        keys = {camera: f"{CAPTURE_TIME}.{camera}" for camera in self.camera_keys}
        keys = {camera: key for camera, key in keys.items() if key in self.metadata.features}
        if not keys:
            return {}
        table = read_columns(self.episodes[episode].file, list(keys.values()))
        part = table.slice(self._rows[episode].first, self.lengths[episode])
        return {c: part.column(key).to_numpy().astype(np.float64) for c, key in keys.items()}

    def instructions(self, episode: int) -> Mapping[str, np.ndarray]:
        """Return each instruction -> bool (T,), by the column `task_index` where there are several.

        Where that column names none of them, all steps have the episode's own text.
        """
        if len(self.entries[episode].tasks) < 2 or "task_index" not in self.metadata.features:
            return super().instructions(episode)
        texts, index = self._tasks, self._numbers(episode, "task_index")[:, 0].astype(int)
        found = {texts[i]: index == i for i in np.unique(index) if 0 <= i < len(texts)}
        whole = sum((steps.sum() for steps in found.values()), 0) == len(index)
        return found if whole else super().instructions(episode)

    def vector(self, episode: int, name: str) -> np.ndarray:
        """Return the feature `observation.{name}`, float32 (T, n)."""
        check_vector_name(self, name)
        return self._numbers(episode, self._vector_keys[name])

    def _numbers(self, episode: int, key: str) -> np.ndarray:
        """Return a feature of numbers, float32 (T, n)."""
        path = self.episodes[episode].file
        if key not in self._vectors or self._vectors[key][0] != path:
            self._vectors[key] = path, read_vectors(path, key, self.metadata.features[key])
        first = self._rows[episode].first
        return self._vectors[key][1][first : first + self.lengths[episode]]

    def vector_dimensions(self, name: str) -> VectorDimensions:
        """Return the feature's names; LeRobot stores no units."""
        check_vector_name(self, name)
        info = self.folder / "meta" / "info.json"
        names = vector_names(info, self.metadata, self._vector_keys[name], name)
        return VectorDimensions(names, ("",) * len(names))

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """Return uint8 (h, w, 3) RGB; raises UndecodableFrameError."""
        check_step(self, episode, step)
        where = (
            f"{self.image_file(episode, camera)}: episode {self.entries[episode].number}, "
            f"camera {camera}, frame {step}"
        )
        try:
            if self._is_video(camera):
                video = self._video(episode, camera)
                frame = video.frame(self._first_frame(video, episode, camera) + step)
            else:
                frame = self._column(episode, camera).frame(self._rows[episode].first + step)
        except BrokenFrameError as error:
            raise UndecodableFrameError(
                f"{where} cannot be decoded ({error}). Copy the file again, or drop such frames "
                "with data.undecodable=skip."
            ) from None
        return check_frame(self, camera, frame, where)

    def image_file(self, episode: int, camera: str) -> Path:
        """Return the video, or the parquet file of an image column."""
        entry = self.entries[episode]
        key = self.camera_keys[camera]
        return entry.videos[key].path if self._is_video(camera) else entry.data

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        """Return the place in the file where the episode begins, and the column's unusual name."""
        key = self.camera_keys[camera]
        if self._is_video(camera):
            return (self.entries[episode].videos[key].start,)
        first, length = self._rows[episode].first, int(self.lengths[episode])
        named: tuple[Any, ...] = ()
        if is_by_name(self._first_images[camera]):
            rows = slice(first, first + length)
            files = image_files(self.entries[episode].data, key, rows, self.folder)
            named = (tuple((f.stat().st_size, f.stat().st_mtime_ns) for f in files),)
        return (first, *(() if short_name(key) == camera else (key,)), *named)

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        """Return int64, the steps of key frames; only the first for images in a column.

        Images in a column are encoded one by one, but whole groups of rows are read at once.
        """
        if not self._is_video(camera):
            return np.zeros(1, np.int64)
        video = self._video(episode, camera)
        keys = video.index.keys - self._first_frame(video, episode, camera)
        return np.asarray(keys[(keys >= 0) & (keys < self.lengths[episode])])

    def close(self) -> None:
        """Close the files opened to read frames."""
        for video in self._videos.values():
            video.close()
        self._videos, self._columns = {}, {}

    def rows(self, episode: int) -> pa.Table:
        """Return every column of an episode except images, as stored."""
        names = [n for n, feature in self.metadata.features.items() if not feature.is_image]
        table = read_columns(self.episodes[episode].file, names).replace_schema_metadata(None)
        return table.slice(self._rows[episode].first, self.lengths[episode])

    def encoded_images(self, episode: int, camera: str) -> FrameRange | pa.Array | None:
        """Return the range of the frames in a video, or struct(bytes, path) of each step.

        None if an image column holds anything else, or not RGB.
        """
        if self._is_video(camera):
            video = self._video(episode, camera)
            first = self._first_frame(video, episode, camera)
            return FrameRange(video.path, first, int(self.lengths[episode]))
        if channels_of(self.metadata.features[self.camera_keys[camera]]) != 3:
            return None
        column = read_columns(self.episodes[episode].file, [self.camera_keys[camera]]).column(0)
        part = column.slice(self._rows[episode].first, self.lengths[episode]).combine_chunks()
        has_bytes = pa.types.is_struct(part.type) and part.field("bytes").null_count == 0
        return part if has_bytes else None

    def _is_video(self, camera: str) -> bool:
        return self.metadata.features[self.camera_keys[camera]].dtype == "video"

    def _check_images(self, camera: Camera, errors: EpisodeErrors) -> None:
        """Check without decoding: the files, their lengths and their sizes."""
        key, entries = self.camera_keys[camera.name], self.metadata.episodes
        if not self._is_video(camera.name):
            for path in dict.fromkeys(entry.data for entry in entries):
                with suppress(UnfinishedError), open_parquet(path) as file:  # known as an error
                    if key not in (found := file.schema_arrow.names):
                        raise UserError(f"{path}: has no column {key}; found {', '.join(found)}")
            return
        for path, group in in_same_video(key, entries):
            for error, episodes in self._check_video(path, group, camera):
                for entry in episodes:
                    errors.add(entry.number, error)

    def _check_video(
        self, path: Path, group: list[EpisodeEntry], camera: Camera
    ) -> Iterator[tuple[UserError, list[EpisodeEntry]]]:
        """Check the size and the number of a camera's frames in a video that episodes share."""
        key = self.camera_keys[camera.name]
        first, last = group[0].number, group[-1].number
        where = f"episodes {first} to {last}" if group[1:] else f"episode {first}"
        where += f", camera {camera.name}"
        try:
            total, stream = read_header(path)
        except UserError as error:
            lost = self._is_lost(key, group, path)
            yield UnfinishedError(f"{error} ({where})", path, lost), group
            return
        if (stream.height, stream.width) != (camera.height, camera.width):
            text = (
                f"{path}: {where}: the video is {stream.height}x{stream.width}, "
                f"meta/info.json says {camera.height}x{camera.width}"
            )
            yield UserError(text), group
            return
        frames, beyond = 0, []
        for entry in group:
            self._frames_before[entry.number, camera.name] = frames
            frames += entry.length
            if total is not None and frames > total:
                beyond.append(entry)
        text = f"{path}: {where}: the video has {total} frames, the metadata count {frames}"
        if beyond:
            yield UnfinishedError(text, path), beyond
        elif total not in (None, frames) and group[-1].videos[key].start is None:
            yield UserError(text), group

    def _is_lost(self, key: str, group: list[EpisodeEntry], path: Path) -> bool:
        """Whether a video is missing, and not only because a recorder had yet to encode it."""
        images = self.folder / "images" / key  # where LeRobot keeps the frames until then
        return not path.is_file() and not any(
            any(images.glob(f"episode[-_]{entry.number:06d}")) for entry in group
        )

    def _video(self, episode: int, camera: str) -> VideoFile:
        """Open the camera's video of an episode."""
        path = self.image_file(episode, camera)
        video = self._videos.pop(path, None)
        if video is None:
            while len(self._videos) >= OPEN_VIDEOS:
                self._videos.pop(next(iter(self._videos))).close()
            video = VideoFile(path)
        self._videos[path] = video
        return video

    def _first_frame(self, video: VideoFile, episode: int, camera: str) -> int:
        """Find the number of the episode's first frame in the file; check the frames' times."""
        if (known := self._first_frames.get((episode, camera))) is not None:
            return known
        entry, rate, index = self.entries[episode], self.metadata.rate, video.index
        before = self._frames_before[entry.number, camera]
        start = entry.videos[self.camera_keys[camera]].start
        where = f"{video.path}: episode {entry.number}, camera {camera}"
        if start is None:
            first = 0
            if index.whole and len(video) != entry.length:
                raise UserError(f"{where}: {len(video)} frames, the metadata say {entry.length}")
        elif len(video) == 0 or (not index.whole and start > index.seconds[-1] + TOLERANCE):
            first = len(video)  # it would begin where the file is cut off
        else:
            first = int(np.abs(index.seconds - start).argmin())
            off = abs(index.seconds[first] - start)
            # Times that were summed up from file to file drift; then the frame count must agree.
            if off > TOLERANCE and not (off < 0.5 / rate and first == before):
                raise UserError(
                    f"{where}: begins at {start:.4f} s by the metadata, but the nearest frame is "
                    f"frame {first} at {index.seconds[first]:.4f} s, and {before} frames belong to "
                    "the episodes before it"
                )
        shown = index.seconds[first : first + entry.length]
        if index.whole and len(shown) < entry.length:
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

    def _column(self, episode: int, camera: str) -> ImageColumn:
        path = self.episodes[episode].file
        column = self._columns.get(camera)
        if column is None or column.path != path:
            self._columns[camera] = column = ImageColumn(
                path, self.camera_keys[camera], self.folder
            )
        return column

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_videos": {}, "_columns": {}}  # open files cannot be sent
