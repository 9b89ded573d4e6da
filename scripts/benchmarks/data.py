"""Samples per second of the loader: random access, chunks of 100 actions, one 480x640 camera.

The peer writes a dataset with its own writer, and both sides read that folder. The same frames are
also measured as raw HDF5, which the peer does not read.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Row, ask_peer

from act_policy.errors import UserError

CHUNK_LENGTH, BATCH_SIZE = 100, 32
DATASET = {"episodes": 8, "steps": 200, "height": 480, "width": 640, "rate": 50}


def measure(config: Any) -> list[Row]:
    """Measure our loader on each kind of file, and the peer's on its own."""
    if config.peer is None:
        raise UserError("suite=data needs peer=PYTHON: a Python with LeRobot writes the dataset")
    request = {
        **DATASET,
        "chunk_length": CHUNK_LENGTH,
        "batch_size": config.batch_size or BATCH_SIZE,
    }
    with tempfile.TemporaryDirectory(prefix="act_policy_data_", dir=config.folder) as work:
        request["folder"] = str(Path(work) / "video")
        ask_peer(config, None, **request, write=True)
        peer = ask_peer(config, None, **request, write=False)
        hdf5 = Path(work) / "hdf5"
        write_hdf5(Path(request["folder"]), hdf5)
        sizes = request["batch_size"], config.seconds, config.repeats
        build, epoch = first_epoch(Path(request["folder"]), Path(work) / "cache", sizes[0])
        samples = DATASET["episodes"] * DATASET["steps"]
        rows = [
            row("HDF5, raw", loader_speed(hdf5, None, *sizes)),
            row("video, cached", loader_speed(request["folder"], Path(work) / "cache", *sizes)),
            row("video, no cache", loader_speed(request["folder"], None, *sizes)),
            row("video, first epoch with the building of its cache", samples / (build + epoch)),
        ]
    rows[-1]["seconds_of_building"] = build
    for mine in rows:
        mine["compare_with"] = peer["who"]
    return [*rows, peer]


def row(what: str, speed: float) -> Row:
    """Return one of our figures as a row."""
    return {"who": f"act_policy, {what}", "value": speed, "unit": "samples/s"}


def make_data(folder: str | Path, cache: Path | None, batch_size: int) -> Any:
    """Make our data module, which fetches in this process."""
    from act_policy.data.loading.datamodule import DemonstrationDataModule

    return DemonstrationDataModule(
        folder, CHUNK_LENGTH, batch_size, held_out_fraction=0.0, cache=cache
    )


def loader_speed(
    folder: str | Path, cache: Path | None, batch_size: int, seconds: float, repeats: int
) -> float:
    """Return samples per second, the median of the repeats; epochs follow one another."""
    from statistics import median

    loader = make_data(folder, cache, batch_size).train_dataloader()
    speeds: list[float] = []
    began, count, epoch = time.perf_counter(), 0, 0
    while len(speeds) <= repeats:
        loader.order.set_epoch(epoch)
        for batch in loader:
            count += len(batch.step)
            if (elapsed := time.perf_counter() - began) >= seconds:
                speeds.append(count / elapsed)
                began, count = time.perf_counter(), 0
        epoch += 1
    return median(speeds[1:])  # the first one opens files


def first_epoch(folder: Path, cache: Path, batch_size: int) -> tuple[float, float]:
    """Return the seconds until everything is decoded, and those of the epoch after it."""
    began = time.perf_counter()
    loader = make_data(folder, cache, batch_size).train_dataloader()
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
