"""Demonstrations without anything unusual, in every format, before a test plants a fault."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.open import open_dataset
from tests.data.episodes_for_tests import make_arrays, make_schema
from tests.data.lerobot_for_tests import TOP, change_table, write_lerobot

Change = Callable[[int, np.ndarray, np.ndarray], None]
"""Changes the state and the action of an episode in place."""

LEAD = 2
"""Steps by which the action leads the state."""


def sweep(steps: int, episode: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 (T, 3) state and action at 10 steps per second: three sweeping joints."""
    time = np.arange(steps + LEAD)[:, None] / 10 + episode
    path = np.sin(time * [1.0, 1.3, 0.7]).astype(np.float32)
    return path[:steps].copy(), path[LEAD:].copy()


def aloha_motion(
    folder: Path,
    change: Change | None = None,
    lengths: Sequence[int] = (60, 60),
    outcomes: Sequence[bool | None] | None = None,
    tasks: Sequence[str] | None = None,
) -> DemonstrationDataset:
    """Write ALOHA files; their random images count as moving."""
    schema = make_schema()
    for episode, steps in enumerate(lengths):
        state, action = sweep(steps, episode)
        if change is not None:
            change(episode, state, action)
        arrays = make_arrays(schema, steps, episode) | {"state": state, "action": action}
        path = folder / f"episode_{episode}.hdf5"
        success = None if outcomes is None else outcomes[episode]
        task = "" if tasks is None else tasks[episode]
        write_episode(path, schema, **arrays, success=success, instruction=task)
    return open_dataset(folder)


def lerobot_motion(
    folder: Path,
    change: Change | None = None,
    lengths: Sequence[int] = (60, 60),
    version: str = "v3.0",
    tasks: Sequence[str] | None = None,
) -> DemonstrationDataset:
    """Write a LeRobotDataset with an image column; v3.0 has all episodes in one file."""
    write_lerobot(folder, lengths, version, (TOP,), "image", len(lengths), files_per_chunk=1000)
    pairs = [sweep(steps, episode) for episode, steps in enumerate(lengths)]
    for episode, (state, action) in enumerate(pairs):
        if change is not None:
            change(episode, state, action)
    parts = [pairs] if version == "v3.0" else [[pair] for pair in pairs]

    def write(part: Sequence[tuple[np.ndarray, np.ndarray]], columns: dict[str, list[Any]]) -> None:
        for key, place in (("observation.state", 0), ("action", 1)):
            columns[key] = np.concatenate([pair[place] for pair in part]).tolist()

    for path, part in zip(sorted(folder.glob("data/chunk-000/*")), parts, strict=True):
        change_table(path, partial(write, part))
    told = ["pick"] * len(lengths) if tasks is None else tasks
    every = [[task] for task in told]
    for path in (folder / "meta/episodes/chunk-000").glob("*.parquet"):
        change_table(path, lambda c: c.update(tasks=[every[e] for e in c["episode_index"]]))
    if version == "v2.1":
        path = folder / "meta/episodes.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines = (json.dumps(row | {"tasks": every[row["episode_index"]]}) for row in rows)
        path.write_text("\n".join(lines))
    return open_dataset(folder)


WRITERS = {"aloha": aloha_motion, "lerobot": lerobot_motion}
FORMATS = WRITERS | {"lerobot_v2_1": partial(lerobot_motion, version="v2.1")}
