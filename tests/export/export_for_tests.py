"""A policy with cameras of two sizes and every kind of input, and the script that exports it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera, Schema
from tests.paths import ROOT

LARGEST_ACTION = 5.0
"""In standard deviations, from zero: -90 degrees and three deviations of 45."""


def make_policy(
    environment_state: bool = True,
    positions: bool = False,
    tasks: tuple[str, ...] = (),
    **fields: object,
) -> ACTPolicy:
    """positions: the actions are positions of the state."""
    torch.manual_seed(0)
    action_names, action_units = ("dx", "dy", "gripper"), ("deg", "m", "1")
    schema = Schema(
        cameras=(Camera("top", 32, 48), Camera("left", 24, 24), Camera("right", 24, 24)),
        state_names=action_names if positions else ("x", "y"),
        state_units=action_units if positions else ("deg", "m"),
        action_names=action_names,
        action_units=action_units,
        rate=10.0,
        environment_state_names=("cube",) if environment_state else (),
        tasks=tasks,
    )

    def field(*rows: tuple[float, float]) -> FieldStatistics:
        mean, std = np.array(rows, dtype=np.float64).T
        return FieldStatistics(mean, std, mean - 3 * std, mean + 3 * std)

    action = field((-90.0, 45.0), (0.2, 0.05), (0.3, 0.0))
    statistics = Statistics(
        state=action if positions else field((30.0, 60.0), (0.5, 0.1)),
        action=action,
        step_count=10,
        environment_state=field((0.0, 1.0)) if environment_state else None,
    )
    settings = {
        "chunk_length": 4,
        "width": 16,
        "heads": 2,
        "feedforward_width": 24,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "latent_size": 4,
        "latent_layers": 1,
        "pre_norm": True,
        "backbone_stages": 1,
        "backbone_width": 0.25,
        "backbone_norm": "group",
        "camera_embedding": True,
        **fields,
    }
    return ACTPolicy(ACTConfig.for_schema(schema, **settings), schema, statistics).eval()


def export_everything(policy: ACTPolicy, folder: Path) -> subprocess.CompletedProcess[str]:
    """Export a policy to `folder`/out in every format and precision."""
    policy.save(folder / "bundle")
    return run_script(
        f"checkpoint={folder / 'bundle'}",
        "format=[bundle,onnx,pt2,policy_package]",
        "precision=[fp32,fp16,int8]",
        f"out={folder / 'out'}",
    )


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/export_policy.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
