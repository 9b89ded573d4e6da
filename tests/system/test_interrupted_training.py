"""Training that is killed or interrupted, as a user does it, and the checkpoints it leaves."""

import csv
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from act_policy import ACTPolicy
from tests.system.train_for_tests import PATIENCE, TRAIN, environment


def start_endless(demonstrations: Path, run: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *TRAIN,
            "experiment=tiny",
            f"data.path={demonstrations}",
            f"out={run}",
            "max_steps=1000000",
            "validate_every=2",
            *more,
        ],
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def start_resumed(run: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*TRAIN, f"resume={run}"],
        env=environment(),
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    limit = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_sigkill_at_any_moment_loses_no_saved_checkpoint(
    demonstrations: Path, tmp_path: Path, processes: list["subprocess.Popen[str]"]
) -> None:
    run = tmp_path / "run"
    last = run / "checkpoints" / "last.ckpt"
    rng = random.Random(0)
    step = 0
    for kill in range(4):
        process = start_endless(demonstrations, run) if kill == 0 else start_resumed(run)
        processes.append(process)
        before = last.stat().st_mtime_ns if kill else 0
        limit = time.monotonic() + PATIENCE
        while not last.exists() or last.stat().st_mtime_ns == before:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < limit
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        process.kill()
        process.communicate()
        for name in ("last.ckpt", "best.ckpt"):
            saved = torch.load(last.with_name(name), weights_only=True)
            assert saved["global_step"] >= (step if name == "last.ckpt" else 0)
            ACTPolicy.load(last.with_name(name))
        step = int(torch.load(last, weights_only=True)["global_step"])
        with (run / "metrics.csv").open() as file:
            steps = [int(row["step"]) for row in csv.DictReader(file)]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) >= step
    assert step > 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_interrupt_stops_with_a_checkpoint(
    demonstrations: Path,
    tmp_path: Path,
    processes: list["subprocess.Popen[str]"],
    number: signal.Signals,
) -> None:
    run = tmp_path / "run"
    process = start_endless(demonstrations, run, "validate_every=100000", "log_every=1")
    processes.append(process)
    wait_for(run / "metrics.csv", process)
    process.send_signal(number)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert "Traceback" not in error
    assert f"resume={run}" in error
    saved = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    with (run / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)][-1] == str(saved["global_step"])
