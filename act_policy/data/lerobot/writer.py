"""Assemble a LeRobotDataset v3.0 from staged episodes.

    data/chunk-000/file-000.parquet             rows of many episodes, one row group each
    videos/KEY/chunk-000/file-000.mp4           frames of many episodes, packets copied
    meta/episodes/chunk-000/file-000.parquet    each episode's place and statistics
    meta/tasks.parquet, meta/stats.json
    meta/info.json                              written last: without it there is no dataset

Source of the layout: huggingface/lerobot, `lerobot/datasets`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from act_policy.data.lerobot.features import arrow_schema, write_tasks
from act_policy.data.lerobot.source import Description
from act_policy.data.lerobot.staging import LeRobotWriterConfig, StagedEpisode, staged_path
from act_policy.data.lerobot.stats import Summary, summarize_images, summarize_numbers
from act_policy.data.video.index import Stream, read_header
from act_policy.data.video.writer import FrameRange, join_videos, size_in_bytes
from act_policy.system.atomic import atomic_file
from act_policy.system.processes import Handler, run_jobs

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


class _Place(NamedTuple):
    """A file of one kind, and the episodes in it by their position in the list of all."""

    chunk: int
    file: int
    episodes: list[int]


class _File(NamedTuple):
    """A file to be written: rows of staged episodes, or frames of videos."""

    path: Path
    rows: list[tuple[Path, int, int]]  # staged file, episode_index, first index
    frames: list[FrameRange]


def assemble(
    folder: Path,
    staging: Path,
    episodes: Sequence[StagedEpisode],
    about: Description,
    config: LeRobotWriterConfig,
    workers: int,
    on_file: Callable[[int, int], None],
) -> None:
    """Write a dataset's files from the folder `staging`; those from an earlier attempt are kept.

    The dataset counts the episodes in the given order. `on_file` is called with the number of files
    done and the number of all.
    """
    starts = [0, *accumulate(episode.length for episode in episodes)]
    features = dict(about.features)
    staged = [staged_path(staging, episode.episode, "parquet") for episode in episodes]
    sizes = [path.stat().st_size for path in staged]
    places = {"data": _rotate(sizes, [None] * len(sizes), config.data_file_mb, config)}
    files = [
        _File(
            folder / DATA_PATH.format(chunk_index=place.chunk, file_index=place.file),
            [(staged[e], e, starts[e]) for e in place.episodes],
            [],
        )
        for place in places["data"]
    ]
    for key in [key for key, feature in features.items() if feature["dtype"] == "video"]:
        ranges = [episode.videos[key] for episode in episodes]
        streams = [read_header(frames.path).stream for frames in ranges]
        sizes = [size_in_bytes(frames) for frames in ranges]
        places[key] = _rotate(sizes, streams, config.video_file_mb, config)
        features[key] = features[key] | {"info": _video_info(streams[0], about.rate)}
        for place in places[key]:
            path = VIDEO_PATH.format(video_key=key, chunk_index=place.chunk, file_index=place.file)
            files.append(_File(folder / path, [], [ranges[e] for e in place.episodes]))
    about = about._replace(features=features)
    todo = [file for file in files if not file.path.exists()]
    done = len(files) - len(todo)

    def count(*_: Any) -> None:
        nonlocal done
        done += 1
        on_file(done, len(files))

    columns = arrow_schema(features)
    run_jobs(partial(_make_file_writer, columns, about.rate), todo, workers, 600.0, count)
    _write_metadata(folder, staged, episodes, starts, places, about, config)


def _rotate(
    sizes: Sequence[int], kinds: Sequence[Any], limit_mb: int | float, config: LeRobotWriterConfig
) -> list[_Place]:
    """Fill file after file up to the limit; a file holds episodes of one kind."""
    places: list[_Place] = []
    size = 0
    for episode, (more, kind) in enumerate(zip(sizes, kinds, strict=True)):
        if not episode or kind != kinds[episode - 1] or size + more >= limit_mb * 1024**2:
            places.append(_Place(*divmod(len(places), config.files_per_chunk), []))
            size = 0
        places[-1].episodes.append(episode)
        size += more
    return places


def _make_file_writer(columns: pa.Schema, rate: float) -> Handler[_File, None]:
    def write(file: _File, alive: Callable[[], None]) -> None:
        if file.frames:
            join_videos(file.path, file.frames, rate)
            return
        with (
            atomic_file(file.path) as handle,
            pq.ParquetWriter(handle, columns, compression="snappy") as writer,
        ):
            for path, episode, first in file.rows:
                rows = _counted(pq.read_table(path), episode, first)
                # the order and the types of the data files
                ordered = [rows.column(field.name).cast(field.type) for field in columns]
                writer.write_table(pa.table(ordered, columns), row_group_size=max(1, len(rows)))
                alive()

    return write


def _counted(rows: pa.Table, episode: int, first: int) -> pa.Table:
    """Return the rows with the numbers that follow from the episode's position among all."""
    steps = np.arange(len(rows), dtype=np.int64)
    for name, values in (("episode_index", np.full_like(steps, episode)), ("index", first + steps)):
        if name in rows.column_names:
            rows = rows.drop_columns([name])
        rows = rows.append_column(name, pa.array(values))
    return rows


def _write_metadata(
    folder: Path,
    staged: Sequence[Path],
    episodes: Sequence[StagedEpisode],
    starts: Sequence[int],
    places: Mapping[str, list[_Place]],
    about: Description,
    config: LeRobotWriterConfig,
) -> None:
    place_of: dict[tuple[str, int], tuple[int, int, float]] = {}  # chunk, file, seconds in it
    for key, every in places.items():
        for place in every:
            before = 0
            for e in place.episodes:
                place_of[key, e] = place.chunk, place.file, before / about.rate
                before += episodes[e].length
    values: dict[str, list[np.ndarray]] = {}
    rows: list[dict[str, Any]] = []
    for e, episode in enumerate(episodes):
        numbers = _numbers(_counted(pq.read_table(staged[e]), e, starts[e]), about.features)
        stats = {key: summarize_numbers(array) for key, array in numbers.items()}
        stats |= {k: summarize_images(*found) for k, found in episode.histograms.items()}
        for key, array in numbers.items():
            values.setdefault(key, []).append(array)
        row: dict[str, Any] = {
            "episode_index": e,
            "tasks": episode.tasks,
            "length": episode.length,
            "data/chunk_index": place_of["data", e][0],
            "data/file_index": place_of["data", e][1],
            "dataset_from_index": starts[e],
            "dataset_to_index": starts[e + 1],
        }
        for key in episode.videos:
            chunk, file, seconds = place_of[key, e]
            row |= {
                f"videos/{key}/chunk_index": chunk,
                f"videos/{key}/file_index": file,
                f"videos/{key}/from_timestamp": seconds,
                f"videos/{key}/to_timestamp": seconds + episode.length / about.rate,
            }
        if any(other.seed is not None for other in episodes):
            row["seed"] = episode.seed
        if any(other.outcome is not None for other in episodes):
            row["success"] = episode.outcome
        if any(other.ended for other in episodes):
            row["ended"] = episode.ended
        row |= {f"stats/{k}/{name}": v for k, found in stats.items() for name, v in found.items()}
        rows.append(row)
    _write_episode_rows(folder, rows, config)
    with atomic_file(folder / "meta" / "tasks.parquet") as output:
        write_tasks(output, about.tasks)
    stats = {key: summarize_numbers(np.concatenate(arrays)) for key, arrays in values.items()}
    for key in episodes[0].histograms:
        found = [episode.histograms[key] for episode in episodes]
        total = np.sum([histogram for histogram, _ in found], axis=0)
        stats[key] = summarize_images(total, sum(count for _, count in found))
    _write_json(folder / "meta" / "stats.json", stats)
    _write_json(folder / "meta" / "info.json", _info(episodes, about, config))


def _numbers(rows: pa.Table, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return every feature of numbers as (T, ...)."""
    found: dict[str, np.ndarray] = {}
    for key, feature in features.items():
        if feature["dtype"] not in ("image", "video", "string", "language"):
            column = rows.column(key).combine_chunks()
            while isinstance(column, pa.ListArray | pa.FixedSizeListArray | pa.LargeListArray):
                column = column.flatten()
            array = column.to_numpy(zero_copy_only=False).reshape(len(rows), -1)
            found[key] = array.astype(np.int64) if array.dtype == bool else array
    return found


def _write_episode_rows(
    folder: Path, rows: list[dict[str, Any]], config: LeRobotWriterConfig
) -> None:
    table = pa.Table.from_pylist(rows)
    count = max(1, int(config.data_file_mb * 1024**2 / (table.nbytes / len(rows))))
    for number, begin in enumerate(range(0, len(rows), count)):
        chunk, file = divmod(number, config.files_per_chunk)
        part = table.slice(begin, count)
        for name, value in (("chunk", chunk), ("file", file)):
            column = pa.array([value] * len(part), pa.int64())
            part = part.append_column(f"meta/episodes/{name}_index", column)
        path = folder / EPISODES_PATH.format(chunk_index=chunk, file_index=file)
        with atomic_file(path) as output:
            pq.write_table(part, output)


def _info(
    episodes: Sequence[StagedEpisode], about: Description, config: LeRobotWriterConfig
) -> dict[str, Any]:
    has_video = any(feature["dtype"] == "video" for feature in about.features.values())
    return {
        "codebase_version": "v3.0",
        "robot_type": about.robot_type,
        "total_episodes": len(episodes),
        "total_frames": sum(episode.length for episode in episodes),
        "total_tasks": len(about.tasks),
        "chunks_size": config.files_per_chunk,
        "data_files_size_in_mb": _plain(config.data_file_mb),
        "video_files_size_in_mb": _plain(config.video_file_mb),
        "fps": _plain(about.rate),
        "splits": {"train": f"0:{len(episodes)}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if has_video else None,
        "features": about.features,
        "act_policy": about.ours,
    }


def _video_info(stream: Stream, rate: float) -> dict[str, Any]:
    codec = {"libdav1d": "av1", "libaom-av1": "av1"}.get(stream.codec, stream.codec)
    return {
        "video.height": stream.height,
        "video.width": stream.width,
        "video.codec": codec,
        "video.pix_fmt": stream.pixels,
        "video.is_depth_map": False,
        "video.fps": _plain(rate),
        "video.channels": 3,
        "has_audio": False,
    }


def _plain(number: int | float) -> int | float:
    return int(number) if number == int(number) else number


def _write_json(path: Path, content: Summary | dict[str, Any]) -> None:
    with atomic_file(path) as file:
        file.write(json.dumps(content, indent=4).encode())
