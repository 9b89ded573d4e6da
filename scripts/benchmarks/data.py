"""Samples per second of the loader: random access, chunks of 100 actions, one 480x640 camera.

The peer writes a dataset with its own writer, and both sides read that folder. The same frames are
also measured as raw HDF5, which the peer does not read.
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.clock import loader_speed
from benchmarks.common import Row, ask_peer

from act_policy.errors import UserError

CHUNK_LENGTH, BATCH_SIZE = 100, 32
DATASET = {"episodes": 8, "steps": 200, "height": 480, "width": 640, "rate": 50}


def measure(config: Any) -> list[Row]:
    """Measure our loader on each kind of file, and the peer's on its own."""
    if config.peer is None:
        raise UserError("measure=data needs peer=PYTHON: a Python with LeRobot writes the dataset")
    request = {
        **DATASET,
        "chunk_length": CHUNK_LENGTH,
        "batch_size": config.batch_size or BATCH_SIZE,
    }
    with tempfile.TemporaryDirectory(prefix="act_policy_data_", dir=config.folder) as work:
        video, hdf5, cache = (Path(work) / name for name in ("video", "hdf5", "cache"))
        request["folder"] = str(video)
        ask_peer(config, None, **request, write=True)
        peer = ask_peer(config, None, **request, write=False)
        write_hdf5(video, hdf5)
        build, epoch = first_epoch(video, cache, request["batch_size"])

        def speed(folder: Path, cache: Path | None) -> float:
            loader = make_loader(folder, cache, request["batch_size"])
            return loader_speed(config, batch_sizes(loader))

        speeds = {
            "HDF5, raw": speed(hdf5, None),
            "video, cached": speed(video, cache),
            "video, no cache": speed(video, None),
            "video, first epoch with the building of its cache": (
                DATASET["episodes"] * DATASET["steps"] / (build + epoch)
            ),
        }
    shared = {"unit": "samples/s", "compare_with": peer["who"]}
    rows = [
        {"who": f"act_policy, {what}", "value": value, **shared} for what, value in speeds.items()
    ]
    rows[-1]["seconds_of_building"] = build
    return [*rows, peer]


def make_loader(folder: Path, cache: Path | None, batch_size: int) -> Any:
    """Make our loader, which fetches in this process."""
    from act_policy.data.loading.datamodule import DemonstrationDataModule

    return DemonstrationDataModule(
        folder, CHUNK_LENGTH, batch_size, held_out_fraction=0.0, cache=cache
    ).train_dataloader()


def batch_sizes(loader: Any) -> Iterator[int]:
    """Load one epoch after the other, for ever."""
    for epoch in count():
        loader.order.set_epoch(epoch)
        for batch in loader:
            yield len(batch.step)


def first_epoch(folder: Path, cache: Path, batch_size: int) -> tuple[float, float]:
    """Return the seconds until everything is decoded, and those of the epoch after it."""
    began = time.perf_counter()
    loader = make_loader(folder, cache, batch_size)
    built = time.perf_counter()
    for _ in loader:
        pass
    return built - began, time.perf_counter() - built


def write_hdf5(source: Path, out: Path) -> None:
    """Write the same demonstrations as ALOHA files with raw images."""
    import numpy as np

    from act_policy.data.aloha.episode import write_episode
    from act_policy.data.open import open_dataset

    dataset = open_dataset(source)
    for episode in range(len(dataset.episodes)):
        images = {
            name: np.stack(
                [dataset.frame(episode, step, name) for step in range(dataset.lengths[episode])]
            )
            for name in dataset.schema.camera_names
        }
        state, action = dataset.state(episode), dataset.action(episode)
        path = out / f"episode_{episode:06d}.hdf5"
        write_episode(path, dataset.schema, images, state, action)
