"""The real task: a policy file in, a report and a video out, the same for 1 and 2 workers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import UserError
from act_policy.evaluation.evaluate import Settings, evaluate
from act_policy.evaluation.rollouts import build_environment
from act_policy.model.act import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, FieldStatistics, Schema, Statistics

TASK = "act_policy/MetaWorld-button-press-topdown-v0"
REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def schema() -> Schema:
    import gymnasium

    environment = gymnasium.make(TASK, cameras={"topview": (32, 48)})
    found: Schema = environment.unwrapped.schema  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module")
def bundle(schema: Schema, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy with random weights; it moves, but not to the button."""
    zeros, ones = np.zeros(4), np.ones(4)
    field = FieldStatistics(zeros, ones, -ones, ones)
    config = ACTConfig.for_schema(
        schema,
        chunk_length=8,
        width=16,
        heads=2,
        feedforward_width=32,
        encoder_layers=1,
        decoder_layers=1,
        latent_size=0,
        latent_layers=0,
        pre_norm=True,
        activation="gelu",
        dropout=0.0,
        backbone="resnet18",
        backbone_stages=1,
        backbone_width=0.25,
        backbone_norm="group",
        camera_embedding=False,
    )
    folder = tmp_path_factory.mktemp("bundle")
    ACTPolicy(config, schema, Statistics(field, field, 1)).save(folder)
    return folder


def test_one_and_two_workers_and_a_fresh_start_find_the_same(bundle: Path, tmp_path: Path) -> None:
    settings = Settings(episodes=3, seed=1000, max_steps=25)
    reports = [
        evaluate(bundle, tmp_path / str(workers), settings, videos=1, workers=workers)
        for workers in (1, 2)
    ]
    assert reports[0]["episodes"] == reports[1]["episodes"]
    assert reports[0]["baselines"] == reports[1]["baselines"]
    videos = [
        (tmp_path / str(workers) / "videos" / "seed_1000_failure.mp4").read_bytes()
        for workers in (1, 2)
    ]
    assert videos[0] == videos[1]


def test_the_script_from_a_bundle_to_the_table(bundle: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "evaluate.py"), f"checkpoint={bundle}"]
    done = subprocess.run(
        [*command, f"out={tmp_path}", "episodes=1", "max_steps=10", "execute_steps=3", "videos=0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "black image" in done.stdout
    report = json.loads((tmp_path / "evaluation.json").read_text())
    assert report["episodes"] == [{"seed": 1000, "success": False, "steps": 10}]
    assert report["task"] == TASK
    assert not (tmp_path / "videos").exists()


def test_another_schema_is_refused_by_name(schema: Schema) -> None:
    renamed = replace(schema, state_names=("a", "b", "c", "d"))
    with pytest.raises(UserError, match=r"state_names: \['a', 'b', 'c', 'd'\] here, \['hand_x'"):
        build_environment(renamed)
    unknown = replace(schema, cameras=(Camera("nose", 32, 32),))
    with pytest.raises(UserError, match="nose"):
        build_environment(unknown)
