"""The rows of a LeRobotDataset's parquet files: states, actions, times."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from act_policy.data.episode_errors import EpisodeErrors, UnfinishedError
from act_policy.data.lerobot.metadata import (
    CAPTURE_TIME,
    EpisodeEntry,
    Feature,
    Metadata,
    read_columns,
)
from act_policy.data.lerobot.schema import Keys
from act_policy.errors import UserError


class EpisodeRows(NamedTuple):
    """State, action and true time (s) of one episode, and its first row in its file."""

    state: np.ndarray
    action: np.ndarray
    timestamps: np.ndarray
    first: int


def read_rows(
    metadata: Metadata, keys: Keys, errors: EpisodeErrors, notes: list[str]
) -> dict[int, EpisodeRows]:
    """Return the rows of every episode without an error, by its index."""
    wanted = [key for key in (keys.state, keys.action) if key is not None]
    found: dict[int, EpisodeRows] = {}
    files: dict[Path, list[EpisodeEntry]] = {}
    for entry in metadata.episodes:
        files.setdefault(entry.data, []).append(entry)
    counters = ["episode_index", "frame_index", "index", "timestamp"]
    times = CAPTURE_TIME if CAPTURE_TIME in metadata.features else "timestamp"
    known = {entry.number for entry in metadata.episodes}
    for path, group in files.items():
        try:
            table = read_columns(path, list(dict.fromkeys([*wanted, *counters, times])))
        except UnfinishedError as error:
            for entry in group:
                errors.add(entry.number, error)
            continue
        action = _matrix(path, table, keys.action, metadata.features[keys.action])
        state = np.empty((len(action), 0), np.float32)
        if keys.state is not None:
            state = _matrix(path, table, keys.state, metadata.features[keys.state])
        columns = {name: _numbers(path, name, table.column(name)) for name in (*counters, times)}
        rows_of = _runs(path, columns["episode_index"])
        for entry in group:
            rows = rows_of.pop(entry.number, slice(0, 0))
            part = {name: column[rows] for name, column in columns.items()}
            try:
                _check_rows(path, entry, part, metadata)
            except UserError as error:
                errors.add(entry.number, error)
            found[entry.number] = EpisodeRows(state[rows], action[rows], part[times], rows.start)
        if misplaced := [index for index in rows_of if index in known]:
            raise UserError(
                f"{path}: holds rows of episode {min(misplaced)}, which the metadata do not "
                "place here"
            )
        if any(index > max(known) for index in rows_of):  # one between is an error already
            notes.append(
                f"{path}: holds rows of episodes {min(rows_of)} to {max(rows_of)}, which the "
                "metadata do not know: the recording was cut short; they are left out"
            )
    return found


def read_vectors(path: Path, key: str, feature: Feature) -> np.ndarray:
    """Read a vector feature for all rows of a file, float32 (rows, n)."""
    return _matrix(path, read_columns(path, [key]), key, feature)


def _runs(path: Path, episodes: np.ndarray) -> dict[int, slice]:
    """Return the rows of each episode, which must be contiguous."""
    edges = [0, *(np.flatnonzero(np.diff(episodes)) + 1), len(episodes)]
    if np.isnan(episodes).any():
        raise UserError(f"{path}: a row has no episode_index")
    rows: dict[int, slice] = {}
    for start, end in pairwise(edges):
        if start == end:
            continue
        if (episode := int(episodes[start])) in rows:
            raise UserError(f"{path}: the rows of episode {episode} are not contiguous")
        rows[episode] = slice(int(start), int(end))
    return rows


def _check_rows(
    path: Path, entry: EpisodeEntry, part: dict[str, np.ndarray], metadata: Metadata
) -> None:
    """Compare the counters of an episode's rows with its metadata."""
    index, found = entry.number, len(part["index"])
    if found != entry.length:
        kind = UnfinishedError if found < entry.length else UserError
        raise kind(f"{path}: episode {index} has {found} rows, the metadata say {entry.length}")
    steps = np.arange(entry.length)
    first = part["index"][0] if entry.first_index is None else entry.first_index
    for name, expected in (("frame_index", steps), ("index", first + steps)):
        if len(wrong := np.flatnonzero(part[name] != expected)):
            step = int(wrong[0])
            raise UserError(
                f"{path}: episode {index}: {name} at step {step} is {part[name][step]:g}, "
                f"expected {expected[step]}; steps are missing, repeated or out of order"
            )
    if entry.videos:
        off = np.abs(part["timestamp"] - steps / metadata.rate)
        if len(wrong := np.flatnonzero(~(off < 0.5 / metadata.rate))):  # NaN counts as wrong
            step = int(wrong[0])
            raise UserError(
                f"{path}: episode {index}: timestamp at step {step} is "
                f"{part['timestamp'][step]:.4f} s, which is not the frame of the video at "
                f"{step} / {metadata.rate:g} = {step / metadata.rate:.4f} s. Is that rate, fps "
                "in meta/info.json, right?"
            )


_LISTS = (pa.types.is_list, pa.types.is_fixed_size_list, pa.types.is_large_list)


def _matrix(path: Path, table: pa.Table, key: str, feature: Feature) -> np.ndarray:
    """Return a column of vectors, or of numbers if size is 1, as float32 (rows, size)."""
    column, size = table.column(key), int(feature.shape[0])
    if any(is_kind(column.type) for is_kind in _LISTS):
        lengths = pc.list_value_length(column).to_numpy()
        if len(wrong := np.flatnonzero(lengths != size)):
            count = "no" if np.isnan(lengths[wrong[0]]) else f"{lengths[wrong[0]]:g}"
            raise UserError(
                f"{path}: {key} has {count} values in row {wrong[0]}; meta/info.json says {size}"
            )
        column = pc.list_flatten(column)
    elif size != 1:
        raise UserError(f"{path}: {key} is {column.type}; expected {size} values per row")
    return _numbers(path, key, column).astype(np.float32).reshape(-1, size)


def _numbers(path: Path, key: str, column: pa.ChunkedArray) -> np.ndarray:
    """Return the values; an empty one becomes NaN."""
    values = column.to_numpy()
    if not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
        raise UserError(f"{path}: {key} is {column.type}; expected numbers")
    return np.asarray(values)
