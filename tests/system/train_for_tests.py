"""scripts/train.py in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from act_policy.types import Camera, Schema
from tests.paths import ROOT

TRAIN = [sys.executable, str(ROOT / "scripts" / "train.py")]
PATIENCE = 300.0  # seconds for one process, on a busy machine
SCHEMA = Schema(
    cameras=(Camera("front", 16, 16),),
    state_names=("x", "y"),
    state_units=("m", "m"),
    action_names=("dx", "dy"),
    action_units=("m", "m"),
    rate=10.0,
)


def environment() -> dict[str, str]:
    quiet = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    return quiet | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def call(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*TRAIN, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
    )
