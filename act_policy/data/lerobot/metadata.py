"""The `meta` folder of a LeRobotDataset, v2.0, v2.1 or v3.0, in one form.

    meta/info.json                              features, rate, templates of the other paths
    meta/episodes.jsonl                         v2.0, v2.1: one line per episode
    meta/episodes/chunk-000/file-000.parquet    v3.0: one row per episode, and its place

Source of the layout: huggingface/lerobot, `lerobot/datasets`.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from act_policy.data.episode_errors import INCOMPLETE_COPY, EpisodeErrors, UnfinishedError
from act_policy.errors import UserError
from act_policy.system.foreign_files import is_hidden

VERSIONS = ("v2.0", "v2.1", "v3.0")
MOST_BUFFERED = {"v2.0": 1, "v2.1": 1, "v3.0": 10}
"""Episodes that info.json may be ahead of the other metadata when a recorder is killed."""
COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns that every LeRobotDataset has: float32 seconds, then int64."""
CAPTURE_TIME = "capture_time"
"""Column of our writer, float64: the true moment that a step shows, in seconds since the first,
while `timestamp` is even. `capture_time.CAMERA` is when its image was taken, where that is known.
No name of LeRobot's begins so, and its policies take neither for an input."""


class Feature(NamedTuple):
    """One entry of `features`: the content of a column or a video.

    is_depth: its images are depth maps.
    pixels: the pixel format of a video, "" where it is not stated.
    """

    dtype: str
    shape: tuple[int, ...]
    names: Any
    is_depth: bool
    pixels: str = ""

    @property
    def is_image(self) -> bool:
        """Whether it has one image per step, in a column or in a video."""
        return self.dtype in ("image", "video")

    @property
    def is_vector(self) -> bool:
        """Whether it has one vector of numbers per step."""
        return len(self.shape) == 1 and self.dtype not in ("image", "video", "string", "language")


class VideoPart(NamedTuple):
    """The place of a camera's frames of one episode; start in s, None for the whole file."""

    path: Path
    start: float | None


class EpisodeEntry(NamedTuple):
    """The metadata of one episode.

    first_index: number of its first step, counted through all episodes; None where episodes
        before it are missing and v2 does not store it.
    videos: by feature key.
    seed, outcome, ended: only where our writer stored them.
    """

    number: int
    length: int
    first_index: int | None
    tasks: tuple[str, ...]
    data: Path
    videos: dict[str, VideoPart]
    seed: int | None = None
    outcome: bool | None = None
    ended: str = ""

    @property
    def instruction(self) -> str:
        """The task given to the operator."""
        return "; ".join(self.tasks)


class Metadata(NamedTuple):
    """The whole folder; episodes in the order of their index.

    folder: of the dataset.
    plain: the content of `info.json`.
    notes: warnings about a recording that was cut short.
    """

    folder: Path
    rate: float
    features: dict[str, Feature]
    episodes: list[EpisodeEntry]
    plain: dict[str, Any]
    notes: list[str]


def read_metadata(folder: Path, errors: EpisodeErrors) -> Metadata:
    """Read and check everything in `meta`; raises UserError naming file and field."""
    path = folder / "meta" / "info.json"
    info = _Info(path)
    version = str(info.get("codebase_version"))
    if version not in VERSIONS:
        raise UserError(f"{path}: codebase_version {version}; {_advise(version)}")
    rate = float(info.get("fps", (int, float)))
    if not rate > 0:
        raise UserError(f"{path}: fps is {rate:g}; expected a positive number")
    features = {
        name: _feature(path, name, plain) for name, plain in info.get("features", dict).items()
    }
    keys = [key for key, feature in features.items() if feature.dtype == "video"]
    notes: list[str] = []
    if version != "v3.0":
        episodes = _episodes_v21(folder, info, keys, errors, notes)
    else:
        episodes = _episodes_v30(folder, info, keys, rate, errors, notes)
    if not episodes:
        raise UserError(f"{folder}: holds no episode")
    stated, found = info.get("total_episodes", int), episodes[-1].number + 1
    if stated not in (found, len(episodes)):
        # Recorders write one after the other, and the metadata of several episodes at a time.
        text = f"{path}: total_episodes is {stated}, but the episodes' metadata end after {found}"
        if stated - found > MOST_BUFFERED[version]:
            text += f": files of the metadata are missing. {INCOMPLETE_COPY}"
            for lost in range(found, stated):
                errors.add(lost, UnfinishedError(text, missing=True))
        else:
            notes.append(
                f"{text}: the recording (or a copy) was cut short; only episodes in both metadata "
                "and files are used"
            )
    frames = sum(episode.length for episode in episodes)
    stated_frames = info.get("total_frames", int)
    if stated == len(episodes) and stated_frames != frames:
        raise UserError(
            f"{path}: total_frames is {stated_frames}, but the episodes' metadata count {frames}. "
            "Was the dataset copied, recorded or edited only in part?"
        )
    return Metadata(folder, rate, features, episodes, info.plain, notes)


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Read columns of a parquet file; raises UserError if the file or a column is missing."""
    with open_parquet(path) as file:
        if lacking := [name for name in columns if name not in file.schema_arrow.names]:
            raise UserError(
                f"{path}: has no column {', '.join(lacking)}; "
                f"found {', '.join(file.schema_arrow.names)}"
            )
        try:
            return file.read(columns=columns).select(columns)
        except (pa.ArrowException, OSError) as error:
            raise UnfinishedError(
                f"{path}: cannot be read ({error}). Copy the file again.", path
            ) from None


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file; raises UserError."""
    if not path.is_file():
        text = f"{path}: no such file, but the metadata names it. {INCOMPLETE_COPY}"
        raise UnfinishedError(text, path, missing=True)
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UnfinishedError(
            f"{path}: is not a readable parquet file ({error}). The copy or the recording may have "
            "been cut short: copy the file again.",
            path,
        ) from None


class _Info:
    """`info.json`, with messages for missing fields."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.plain = json.loads(path.read_text(encoding="utf-8-sig"))  # editors may add a BOM
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({error})") from None
        if not isinstance(self.plain, dict):
            raise UserError(f"{path}: expected an object of fields")

    def get(self, field: str, kind: type | tuple[type, ...] = str) -> Any:
        value = self.plain.get(field)
        if not isinstance(value, kind) or isinstance(value, bool):
            found = "missing" if value is None else f"{value!r}"
            raise UserError(f"{self.path}: field {field} is {found}; every LeRobotDataset has it")
        return value

    def fill(self, field: str, **places: Any) -> Path:
        """Return a path of the dataset, made from its template."""
        template = self.get(field)
        try:
            return self.path.parent.parent / str(template).format(**places)
        except (KeyError, IndexError, ValueError) as error:
            raise UserError(
                f"{self.path}: {field} {template!r} cannot be filled in with "
                f"{', '.join(places)} ({error})"
            ) from None


def _advise(version: str) -> str:
    reads = f"this version reads {', '.join(VERSIONS)}"
    if version.startswith("v3."):
        return f"{reads}. Update act_policy, or write the dataset with LeRobot 0.4."
    if version.startswith("v1."):
        return f"{reads}. Convert it to v2.0 with LeRobot 0.1."
    return reads


def _feature(path: Path, name: str, plain: Any) -> Feature:
    if not isinstance(plain, dict):
        plain = {}
    dtype, shape = plain.get("dtype"), plain.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise UserError(f"{path}: feature {name} needs dtype and shape; found {sorted(plain)}")
    # older versions call it video_info
    every = [about for about in (plain.get("info"), plain.get("video_info")) if about]
    flags = ("is_depth_map", "video.is_depth_map")
    is_depth = any(about.get(flag) for about in every for flag in flags)
    pixels = next((p for about in every if (p := about.get("video.pix_fmt"))), "")
    return Feature(dtype, tuple(shape), plain.get("names"), is_depth, str(pixels))


def _episodes_v21(
    folder: Path, info: _Info, keys: list[str], errors: EpisodeErrors, notes: list[str]
) -> list[EpisodeEntry]:
    path = folder / "meta" / "episodes.jsonl"
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            told = row.get("tasks", [])
            tasks = [told] if isinstance(told, str) else [str(task) for task in told]
            rows.append((int(row["episode_index"]), int(row["length"]), tasks))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"{path}: line {number} is not an episode's index, tasks and length ({error!r})"
            if line.endswith(b"\n") or not rows:
                raise UserError(text) from None
            notes.append(f"the recording was cut short; its last episode is left out. {text}")
    chunk_size = info.get("chunks_size", int)
    episodes: list[EpisodeEntry] = []
    first_index: int | None = 0
    for index, length, tasks in sorted(rows):
        if _check_index(path, episodes, index, length, errors):
            first_index = None
        where = {"episode_chunk": index // max(chunk_size, 1), "episode_index": index}
        videos = {
            key: VideoPart(info.fill("video_path", video_key=key, **where), None) for key in keys
        }
        data = info.fill("data_path", **where)
        episodes.append(EpisodeEntry(index, length, first_index, tuple(tasks), data, videos))
        first_index = None if first_index is None else first_index + length
    return episodes


def _episodes_v30(
    folder: Path,
    info: _Info,
    keys: list[str],
    rate: float,
    errors: EpisodeErrors,
    notes: list[str],
) -> list[EpisodeEntry]:
    parent = folder / "meta" / "episodes"
    paths = sorted(path for path in parent.glob("*/*.parquet") if not is_hidden(path.name))
    if not paths:
        raise UserError(
            f"{parent}: holds no *.parquet file of episodes. If a recording was killed, none of "
            "its episodes was whole yet."
        )
    rows = []
    for path in paths:
        try:
            rows += [(path, row) for row in _episode_rows(path, keys)]
        except UnfinishedError as error:
            if path != paths[-1] or len(paths) == 1:
                raise
            notes.append(f"the recording was cut short; its last episodes are left out. {error}")
    rows.sort(key=lambda found: found[1]["episode_index"])
    episodes: list[EpisodeEntry] = []
    first_index = 0
    for path, row in rows:
        index, length = row["episode_index"], row["length"]
        span = row["dataset_from_index"], row["dataset_to_index"]
        if _check_index(path, episodes, index, length, errors):
            first_index = span[0]  # after a gap, which a person chose to skip
        if span != (first_index, first_index + length):
            text = (
                f"{path}: episode {index} is at steps {span[0]} to {span[1]} of the dataset; "
                f"{first_index} to {first_index + length} follow from the lengths"
            )
            errors.add(index, UserError(text))
        videos = {}
        for key in keys:
            chunk, file, start, end = (row[f"videos/{key}/{field}"] for field in _PLACE_OF_VIDEO)
            if abs((end - start) * rate - length) >= 0.5:
                text = (
                    f"{path}: episode {index}, {key}: {start:g} s to {end:g} s are not its "
                    f"{length} steps at {rate:g} frames per second. Is that rate, fps in "
                    "meta/info.json, right?"
                )
                errors.add(index, UserError(text))
            video = info.fill("video_path", video_key=key, chunk_index=chunk, file_index=file)
            videos[key] = VideoPart(video, start)
        chunk, file = row["data/chunk_index"], row["data/file_index"]
        data = info.fill("data_path", chunk_index=chunk, file_index=file)
        tasks, seed, outcome = tuple(map(str, row["tasks"])), row.get("seed"), row.get("success")
        episodes.append(
            EpisodeEntry(
                *(index, length, first_index, tasks, data, videos, seed, outcome),
                ended=row.get("ended") or "",
            )
        )
        first_index += length
    for key in keys:
        _check_overlap(parent, key, episodes, rate, errors)
    return episodes


def _episode_rows(path: Path, keys: list[str]) -> list[dict[str, Any]]:
    columns = [
        *("episode_index", "length", "tasks", "data/chunk_index", "data/file_index"),
        *("dataset_from_index", "dataset_to_index"),
        *(f"videos/{key}/{field}" for key in keys for field in _PLACE_OF_VIDEO),
    ]
    with open_parquet(path) as file:
        optional = [
            name for name in ("seed", "success", "ended") if name in file.schema_arrow.names
        ]
    rows: list[dict[str, Any]] = read_columns(path, columns + optional).to_pylist()
    for row in rows:
        for column in columns:
            if row[column] is None:
                raise UserError(f"{path}: episode {row['episode_index']} has no value of {column}")
    return rows


_PLACE_OF_VIDEO = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")


def _check_index(
    path: Path, before: list[EpisodeEntry], index: int, length: int, errors: EpisodeErrors
) -> bool:
    """Check the index and the length of the next episode; return whether one before is missing."""
    expected = before[-1].number + 1 if before else 0
    if index < expected:
        raise UserError(f"{path}: episode {index} occurs twice; expected 0, 1, 2, ... once each")
    for missing in range(expected, index):
        text = f"{path}: episode {missing} is missing; expected 0, 1, 2, ... once each"
        errors.add(missing, UserError(text))
    if length < 1:
        raise UserError(f"{path}: episode {index} has length {length}; expected at least 1")
    return index > expected


def _check_overlap(
    where: Path, key: str, episodes: list[EpisodeEntry], rate: float, errors: EpisodeErrors
) -> None:
    for path, group in in_same_video(key, episodes):
        for one, other in pairwise(group):
            start, following = (entry.videos[key].start or 0.0 for entry in (one, other))
            if start + (one.length - 0.5) / rate > following:
                error = UserError(
                    f"{where}: episodes {one.number} and {other.number} overlap in {path}: the "
                    f"first has {one.length} frames from {start:g} s on, the other begins at "
                    f"{following:g} s"
                )
                errors.add(one.number, error)
                errors.add(other.number, error)


def in_same_video(
    key: str, episodes: list[EpisodeEntry]
) -> Iterator[tuple[Path, list[EpisodeEntry]]]:
    """Return each video file of a feature with its episodes, in their order in the file."""
    groups: dict[Path, list[EpisodeEntry]] = {}
    for episode in episodes:
        groups.setdefault(episode.videos[key].path, []).append(episode)
    for path, group in groups.items():
        yield path, sorted(group, key=lambda episode: episode.videos[key].start or 0.0)
