"""Demonstrations of any format as the parts of which a LeRobotDataset is made."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.lerobot.dataset import LeRobotDataset
from act_policy.data.lerobot.features import features_of, image_feature, image_key
from act_policy.data.lerobot.features import read_tasks as tasks_of_folder
from act_policy.data.lerobot.metadata import COUNTERS
from act_policy.data.lerobot.staging import (
    CameraSource,
    LeRobotWriterConfig,
    StagedEpisode,
    stage_episode,
)
from act_policy.data.lerobot.writer import Description
from act_policy.types import ACTION_KEY, STATE_KEY


def describe(source: DemonstrationDataset, config: LeRobotWriterConfig) -> Description:
    """What the dataset to be written says of itself; a LeRobotDataset's own words are kept."""
    schema, robot_type = source.schema, None
    if isinstance(source, LeRobotDataset):
        plain = source.information
        robot_type = plain.get("robot_type")
        features = {
            name: feature
            for name, feature in plain["features"].items()
            if feature["dtype"] not in ("image", "video")
        }
        features[STATE_KEY] = features[STATE_KEY] | {"names": list(schema.state_names)}
        features[ACTION_KEY] = features[ACTION_KEY] | {"names": list(schema.action_names)}
    else:
        features = features_of(source)
    cameras = {
        _key(source, camera.name): image_feature(camera, config.images == "video")
        for camera in schema.cameras
    }
    counters = {name: features.pop(name) for name in COUNTERS}
    ours = {
        "state_units": list(schema.state_units),
        "action_units": list(schema.action_units),
        "environment_state_names": list(schema.environment_state_names),
        "environment": schema.environment,
    }
    return Description(features | cameras | counters, schema.rate, robot_type, _tasks(source), ours)


def stage(
    source: DemonstrationDataset,
    episode: StagedEpisode,
    folder: Path,
    config: LeRobotWriterConfig,
    alive: Callable[[], None],
) -> None:
    """Stage one episode of the source."""
    number = episode.episode
    if isinstance(source, LeRobotDataset) and not _is_told_anew(source, number):
        episode = episode._replace(tasks=list(source.entries[number].tasks))
    cameras: dict[str, CameraSource] = {}
    for name in source.schema.camera_names:
        camera = CameraSource(partial(_frame, source, number, name))
        if isinstance(source, LeRobotDataset):
            camera = camera._replace(
                in_video=source.frame_range(number, name), column=source.image_rows(number, name)
            )
        cameras[_key(source, name)] = camera
    rows = _rows(source, number)
    stage_episode(folder, episode, rows, cameras, source.schema.rate, config, alive)


def has_videos(source: DemonstrationDataset) -> bool:
    """Whether the source's images may be copied as videos."""
    return isinstance(source, LeRobotDataset) and any(
        feature["dtype"] == "video" for feature in source.information["features"].values()
    )


def _frame(source: DemonstrationDataset, episode: int, camera: str, step: int) -> np.ndarray:
    return source.frame(episode, step, camera)


def _key(source: DemonstrationDataset, camera: str) -> str:
    return source.feature_key(camera) if isinstance(source, LeRobotDataset) else image_key(camera)


def _tasks(source: DemonstrationDataset) -> list[str]:
    """The texts that `task_index` counts: the source's own, and instructions besides."""
    own = tasks_of_folder(source.folder) if isinstance(source, LeRobotDataset) else []
    told = [
        about.instruction
        for e, about in enumerate(source.episodes)
        if not own or _is_told_anew(source, e)
    ]
    return list(dict.fromkeys([*own, *told]))


def _is_told_anew(source: DemonstrationDataset, episode: int) -> bool:
    """Whether an episode's instruction is not what a LeRobotDataset's metadata say."""
    return (
        isinstance(source, LeRobotDataset)
        and source.entries[episode].instruction != source.episodes[episode].instruction
    )


def _rows(source: DemonstrationDataset, episode: int) -> pa.Table:
    tasks, steps = _tasks(source), np.arange(source.lengths[episode], dtype=np.int64)
    instruction = source.episodes[episode].instruction
    index = tasks.index(instruction) if instruction in tasks else 0
    if isinstance(source, LeRobotDataset):
        rows = source.rows(episode)
        columns: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
        named = columns.get("task_index")
        known = named is not None and 0 <= _largest(named) < len(tasks_of_folder(source.folder))
        if not known or _is_told_anew(source, episode):
            columns["task_index"] = pa.array(np.full_like(steps, index))
        if source.action_shift:
            columns[ACTION_KEY] = _vectors(source.action(episode))
        return pa.table(columns)
    columns = {STATE_KEY: source.state(episode)}
    columns |= {f"observation.{name}": source.vector(episode, name) for name in source.vector_names}
    columns[ACTION_KEY] = source.action(episode)
    columns = {name: _vectors(values) for name, values in columns.items()}
    columns["timestamp"] = pa.array((steps / source.schema.rate).astype(np.float32))
    columns["frame_index"] = pa.array(steps)
    columns["task_index"] = pa.array(np.full_like(steps, index))
    return pa.table(columns)


def _vectors(values: np.ndarray) -> pa.Array:
    if values.shape[1] == 1:
        return pa.array(values[:, 0])
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _largest(column: pa.ChunkedArray) -> int:
    return int(np.max(column.to_numpy(), initial=-1))
