"""A run on a selection is trained, resumed, evaluated and exported with the same selection."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from act_policy.cli.entry import run_config
from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, Schema
from tests.paths import ROOT

NAMES = ("shoulder", "elbow", "gripper")
SELECT = [
    "data.select.episodes=[0, 2, 3]",
    "data.select.resize=[32, 32]",
    "data.select.append=[velocity]",
    "data.select.state=[elbow, shoulder, velocity_elbow]",
    "data.select.actions=[gripper, elbow]",
    "data.select.relative=true",
    "data.cameras={head: top}",
    "data.held_out_episodes=[2]",
]


def call(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return done


def write(folder: Path, episodes: int) -> None:
    schema = Schema((Camera("top", 48, 64),), NAMES, ("rad",) * 3, NAMES, ("rad",) * 3, 10.0)
    rng = np.random.default_rng(0)
    for episode in range(episodes):
        write_episode(
            folder / f"episode_{episode}.hdf5",
            schema,
            {"top": rng.integers(0, 256, (9, 48, 64, 3), np.uint8)},
            rng.normal(size=(9, 3)),
            rng.normal(size=(9, 3)),
            seed=episode,
        )


@pytest.mark.slow
def test_train_resume_export_and_the_demonstrations_of_an_evaluation(tmp_path: Path) -> None:
    demonstrations, other, run = tmp_path / "one", tmp_path / "two", tmp_path / "run"
    write(demonstrations, 4)
    write(other, 2)
    mix = f"data.mix=[{{path: {other}, weight: 2, select: {{episodes: [1]}}}}]"
    tiny = ["experiment=tiny", f"data.path={demonstrations}", *SELECT, mix]
    call("train.py", *tiny, f"out={run}", "max_steps=4", "validate_every=2")
    call("train.py", f"resume={run}", "max_steps=6")
    policy = ACTPolicy.load(run)
    assert policy.schema.cameras == (Camera("head", 32, 32, (48, 64)),)
    assert policy.schema.state_names == ("elbow", "shoulder", "velocity_elbow")
    assert policy.schema.action_names == ("gripper", "elbow")
    assert policy.statistics.relative_actions == ("elbow",)
    assert policy.statistics.step_count == 9 * 3
    assert policy.demonstration_seeds == (0, 1, 2, 3)

    call("export_policy.py", f"checkpoint={run}", f"out={tmp_path / 'export'}")
    schema = json.loads((tmp_path / "export" / "schema.json").read_text())
    assert Schema.from_dict(schema) == policy.schema

    found = find_demonstrations(run_config(run), None)
    actions = open_dataset(demonstrations).action(2)
    assert len(found.actions) == 4
    np.testing.assert_array_equal(found.actions[1], actions[:, [2, 1]])
    assert found.seeds == {0, 1, 2, 3}
