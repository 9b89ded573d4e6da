"""Anonymous memory stays constant while a dataset larger than the allowed memory is loaded."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.loading.datamodule import DemonstrationDataModule
from tests.data.episodes_for_tests import make_arrays, make_schema
from tests.data.lerobot_for_tests import write_lerobot
from tests.data.loading.memory_of_loading import anonymous_bytes

ALLOWED = 1300 * 2**20
"""Bytes: Python, Lightning, torch's CUDA build and four workers need three quarters of it."""
SCRIPT = Path(__file__).with_name("memory_of_loading.py")
EPOCHS = 5


@pytest.fixture
def cgroup() -> Iterator[str]:
    """Make a memory cgroup with this limit; yield "none" if this machine does not permit one.

    Without it only the anonymous memory is measured.
    """
    root = Path("/sys/fs/cgroup")
    old = (root / "memory").is_dir()
    folder = (root / "memory" if old else root) / f"act_policy_test_{os.getpid()}"
    try:
        folder.mkdir()
        limit = folder / ("memory.limit_in_bytes" if old else "memory.max")
        limit.write_text(str(ALLOWED))
    except OSError:
        yield "none"
        return
    yield f"{folder}"
    deadline = time.monotonic() + 10  # the fork server ends after its workers
    while (folder / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    folder.rmdir()


def load(folder: Path, cache: str, cgroup: str) -> tuple[np.ndarray, int]:
    """Return the anonymous bytes after each epoch, and the number of samples loaded."""
    command = [sys.executable, str(SCRIPT), str(folder), cache, str(EPOCHS), cgroup]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    return np.array(report["anonymous"]), report["samples"]


@pytest.mark.slow
def test_raw_images_three_times_larger_than_memory(tmp_path: Path, cgroup: str) -> None:
    schema = make_schema({"top": (480, 640)})
    steps, frame = 100, 480 * 640 * 3
    episodes = 3 * ALLOWED // (steps * frame) + 2
    arrays = make_arrays(schema, steps, 0)
    for episode in range(episodes):
        write_episode(tmp_path / f"episode_{episode}.hdf5", schema, **arrays)
    memory, samples = load(tmp_path, "auto", cgroup)
    assert samples >= 0.85 * EPOCHS * episodes * steps
    assert memory.max() < ALLOWED
    assert (memory[1:] < 1.03 * memory[0]).all(), memory


@pytest.mark.slow
def test_decoding_keeps_nothing_from_epoch_to_epoch(tmp_path: Path, cgroup: str) -> None:
    folder = write_lerobot(tmp_path / "dataset", lengths=[80] * 12)
    memory, _ = load(folder, "none", cgroup)
    assert (memory[2:] < 1.03 * memory[1]).all(), memory


@pytest.mark.slow
def test_many_folders_of_tasks_begin_at_once_and_take_no_memory_for_their_images(
    tmp_path: Path,
) -> None:
    schema = make_schema({"top": (64, 64)})
    folders, episodes, steps = 50, 4, 80
    for folder in range(folders):
        for episode in range(episodes):
            path = tmp_path / f"{folder}" / f"episode_{episode}.hdf5"
            arrays = make_arrays(schema, steps, episode)
            write_episode(path, schema, **arrays, instruction=f"task {folder}")
    mix = [{"path": tmp_path / f"{folder}"} for folder in range(1, folders)]
    before, began = anonymous_bytes(), time.process_time()
    data = DemonstrationDataModule(tmp_path / "0", 32, 64, mix=mix, balance_tasks=True)
    _ = data.statistics
    data.setup("fit")
    batches = iter(data.train_dataloader())
    assert next(batches).observation.task.max() < folders == len(data.schema.tasks)
    assert time.process_time() - began < 60 * folders * episodes / 2500
    for _ in range(100):
        next(batches)
    images = folders * episodes * steps * 64 * 64 * 3
    assert anonymous_bytes() - before < images / 10
