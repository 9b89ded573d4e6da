"""What the `meta` folder of a LeRobotDataset says, in v2.1 and v3.0, as one thing.

    meta/info.json                              features, rate, templates of the other paths
    meta/episodes.jsonl                         v2.1: one line an episode
    meta/episodes/chunk-000/file-000.parquet    v3.0: one row an episode, and where it lies

Source of the layout: huggingface/lerobot, `lerobot/datasets`.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from act_policy.errors import UserError

VERSIONS = ("v2.1", "v3.0")


class Feature(NamedTuple):
    """One entry of `features`: what a column or a video holds."""

    dtype: str
    shape: tuple[int, ...]
    names: Any
    is_depth: bool

    @property
    def is_image(self) -> bool:
        """Whether it is an image a step, in a column or in a video."""
        return self.dtype in ("image", "video")

    @property
    def is_vector(self) -> bool:
        """Whether it is a vector of numbers a step."""
        return len(self.shape) == 1 and self.dtype not in ("image", "video", "string", "language")


class VideoPart(NamedTuple):
    """Where a camera's frames of one episode lie; start in seconds, None for the whole file."""

    path: Path
    start: float | None


class EpisodeEntry(NamedTuple):
    """What the metadata says of one episode.

    first_index: number of its first step, counted through all episodes.
    videos: by feature key.
    """

    length: int
    first_index: int
    instruction: str
    data: Path
    videos: dict[str, VideoPart]


class Metadata(NamedTuple):
    """The whole folder; episodes in the order of their index, which has no gaps."""

    version: str
    rate: float
    features: dict[str, Feature]
    episodes: list[EpisodeEntry]


def read_metadata(folder: Path) -> Metadata:
    """Read and check everything in `meta`; raises UserError naming file and field."""
    path = folder / "meta" / "info.json"
    info = _Info(path)
    version = str(info.get("codebase_version"))
    if version not in VERSIONS:
        raise UserError(f"{path}: codebase_version {version}; {_what_to_do(version)}")
    rate = float(info.get("fps", (int, float)))
    if not rate > 0:
        raise UserError(f"{path}: fps is {rate:g}; expected a positive number")
    features = {
        name: _feature(path, name, plain) for name, plain in info.get("features", dict).items()
    }
    if version == "v2.1":
        episodes = _episodes_v21(folder, info, features)
    else:
        episodes = _episodes_v30(folder, info, features, rate)
    frames = sum(episode.length for episode in episodes)
    for field, found in (("total_episodes", len(episodes)), ("total_frames", frames)):
        if (stated := info.get(field, int)) != found:
            raise UserError(
                f"{path}: {field} is {stated}, but the episodes' metadata count {found}. "
                "Was the dataset copied, recorded or edited only in part?"
            )
    if not episodes:
        raise UserError(f"{folder}: holds no episode")
    return Metadata(version, rate, features, episodes)


def read_columns(path: Path, columns: list[str]) -> pa.Table:
    """Read columns of a parquet file; raises UserError where it or one of them is missing."""
    with open_parquet(path) as file:
        if lacking := [name for name in columns if name not in file.schema_arrow.names]:
            raise UserError(
                f"{path}: has no column {', '.join(lacking)}; "
                f"found {', '.join(file.schema_arrow.names)}"
            )
        try:
            return file.read(columns=columns).select(columns)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read ({error}). Copy the file again.") from None


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file; raises UserError."""
    if not path.is_file():
        raise UserError(f"{path}: no such file, but the metadata names it")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: is not a readable parquet file ({error}). Copy the file again."
        ) from None


class _Info:
    """`info.json`, with messages for what it lacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._plain = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({error})") from None
        if not isinstance(self._plain, dict):
            raise UserError(f"{path}: expected an object of fields")

    def get(self, field: str, kind: type | tuple[type, ...] = str) -> Any:
        value = self._plain.get(field)
        if not isinstance(value, kind) or isinstance(value, bool):
            found = "missing" if value is None else f"{value!r}"
            raise UserError(f"{self.path}: field {field} is {found}; every LeRobotDataset has it")
        return value

    def fill(self, field: str, **places: Any) -> Path:
        """A path of the dataset by its template."""
        template = self.get(field)
        try:
            return self.path.parent.parent / str(template).format(**places)
        except (KeyError, IndexError, ValueError) as error:
            raise UserError(
                f"{self.path}: {field} {template!r} cannot be filled in with "
                f"{', '.join(places)} ({error})"
            ) from None


def _what_to_do(version: str) -> str:
    reads = f"this version reads {' and '.join(VERSIONS)}"
    if version.startswith("v3."):
        return f"{reads}. Update act_policy, or write the dataset with LeRobot 0.4."
    if version == "v2.0":
        return (
            f"{reads}. Convert it with LeRobot 0.3: "
            "python -m lerobot.datasets.v21.convert_dataset_v20_to_v21 --repo-id=NAME"
        )
    if version.startswith("v1."):
        return f"{reads}. Convert it to v2.0 with LeRobot 0.1, then to v2.1 with LeRobot 0.3."
    return reads


def _feature(path: Path, name: str, plain: Any) -> Feature:
    if not isinstance(plain, dict):
        plain = {}
    dtype, shape = plain.get("dtype"), plain.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise UserError(f"{path}: feature {name} needs dtype and shape; found {sorted(plain)}")
    about = plain.get("info") or {}
    is_depth = bool(about.get("is_depth_map") or about.get("video.is_depth_map"))
    return Feature(dtype, tuple(shape), plain.get("names"), is_depth)


def _episodes_v21(folder: Path, info: _Info, features: dict[str, Feature]) -> list[EpisodeEntry]:
    path = folder / "meta" / "episodes.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            rows.append(
                (
                    int(row["episode_index"]),
                    int(row["length"]),
                    [str(task) for task in row.get("tasks", [])],
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path}: line {number} is not an episode's index, tasks and length ({error!r})"
            ) from None
    rows.sort()
    chunk_size = info.get("chunks_size", int)
    episodes, first_index = [], 0
    for place, (index, length, tasks) in enumerate(rows):
        _check_index(path, place, index, length)
        where = {"episode_chunk": index // max(chunk_size, 1), "episode_index": index}
        videos = {
            key: VideoPart(info.fill("video_path", video_key=key, **where), None)
            for key in _video_keys(features)
        }
        data = info.fill("data_path", **where)
        episodes.append(EpisodeEntry(length, first_index, "; ".join(tasks), data, videos))
        first_index += length
    return episodes


def _episodes_v30(
    folder: Path, info: _Info, features: dict[str, Feature], rate: float
) -> list[EpisodeEntry]:
    parent = folder / "meta" / "episodes"
    paths = sorted(parent.glob("*/*.parquet"))
    if not paths:
        raise UserError(f"{parent}: holds no *.parquet file of episodes")
    keys = _video_keys(features)
    columns = [
        *("episode_index", "length", "tasks", "data/chunk_index", "data/file_index"),
        *("dataset_from_index", "dataset_to_index"),
        *(f"videos/{key}/{field}" for key in keys for field in _PLACE_OF_VIDEO),
    ]
    rows = []
    for path in paths:
        for row in read_columns(path, columns).to_pylist():
            for column, value in row.items():
                if value is None:
                    raise UserError(
                        f"{path}: episode {row['episode_index']} has no value of {column}"
                    )
            rows.append((path, row))
    rows.sort(key=lambda found: found[1]["episode_index"])
    episodes, first_index = [], 0
    for place, (path, row) in enumerate(rows):
        length = row["length"]
        _check_index(path, place, row["episode_index"], length)
        span = row["dataset_from_index"], row["dataset_to_index"]
        if span != (first_index, first_index + length):
            raise UserError(
                f"{path}: episode {place} is at steps {span[0]} to {span[1]} of the dataset; "
                f"{first_index} to {first_index + length} follow from the lengths"
            )
        videos = {}
        for key in keys:
            chunk, file, start, end = (row[f"videos/{key}/{field}"] for field in _PLACE_OF_VIDEO)
            if abs((end - start) * rate - length) >= 0.5:
                raise UserError(
                    f"{path}: episode {place}, {key}: {start:g} s to {end:g} s at {rate:g} frames "
                    f"per second are not its {length} steps"
                )
            video = info.fill("video_path", video_key=key, chunk_index=chunk, file_index=file)
            videos[key] = VideoPart(video, start)
        data = info.fill(
            "data_path", chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        instruction = "; ".join(map(str, row["tasks"]))
        episodes.append(EpisodeEntry(length, first_index, instruction, data, videos))
        first_index += length
    for key in keys:
        _check_overlap(parent, key, episodes, rate)
    return episodes


_PLACE_OF_VIDEO = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")


def _video_keys(features: dict[str, Feature]) -> list[str]:
    return [key for key, feature in features.items() if feature.dtype == "video"]


def _check_index(path: Path, place: int, index: int, length: int) -> None:
    if index != place:
        problem = f"{index} is there twice" if index < place else f"{place} is missing"
        raise UserError(f"{path}: episode {problem}; expected 0, 1, 2, ... once each")
    if length < 1:
        raise UserError(f"{path}: episode {index} has length {length}; expected at least 1")


def _check_overlap(where: Path, key: str, episodes: list[EpisodeEntry], rate: float) -> None:
    for path, group in in_same_video(key, episodes):
        for one, other in pairwise(group):
            start, following = episodes[one].videos[key].start, episodes[other].videos[key].start
            assert start is not None
            assert following is not None
            if start + (episodes[one].length - 0.5) / rate > following:
                raise UserError(
                    f"{where}: episodes {one} and {other} overlap in {path}: the first has "
                    f"{episodes[one].length} frames from {start:g} s on, the other begins at "
                    f"{following:g} s"
                )


def in_same_video(key: str, episodes: list[EpisodeEntry]) -> Iterator[tuple[Path, list[int]]]:
    """Each video file of a feature with its episodes, in the order in which they lie in it."""
    groups: dict[Path, list[int]] = {}
    for index, episode in enumerate(episodes):
        groups.setdefault(episode.videos[key].path, []).append(index)
    for path, group in groups.items():
        yield path, sorted(group, key=lambda index: episodes[index].videos[key].start or 0.0)
