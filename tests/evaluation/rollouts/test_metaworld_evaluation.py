"""The real task: a policy file in, a report and a video out, the same for 1 and 2 workers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from act_policy import UserError
from act_policy.evaluation.evaluate import EvaluationConfig, evaluate
from act_policy.evaluation.rollouts.run import build_environment
from act_policy.types import Camera, Schema
from tests.paths import ROOT
from tests.policy_for_tests import smallest_policy

TASK = "act_policy/MetaWorld-button-press-topdown-v0"

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
    folder = tmp_path_factory.mktemp("bundle")
    smallest_policy(schema, chunk_length=8, pre_norm=True, activation="gelu").save(folder)
    return folder


def test_one_and_two_workers_and_a_fresh_start_find_the_same(bundle: Path, tmp_path: Path) -> None:
    config = EvaluationConfig(episodes=3, seed=1000, max_steps=25)
    reports = [
        evaluate(bundle, tmp_path / str(workers), config, videos=1, workers=workers)
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
    command = [sys.executable, str(ROOT / "scripts" / "evaluate.py"), f"checkpoint={bundle}"]
    done = subprocess.run(
        [*command, f"out={tmp_path}", "episodes=1", "max_steps=10", "execute_steps=3", "videos=0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "black image" in done.stdout
    report = json.loads((tmp_path / "evaluation.json").read_text())
    assert report["episodes"] == [{"seed": 1000, "success": False, "steps": 10}]
    assert report["environment"] == TASK
    assert not (tmp_path / "videos").exists()


def test_another_schema_is_refused_by_name(schema: Schema) -> None:
    renamed = replace(schema, state_names=("a", "b", "c", "d"))
    with pytest.raises(UserError, match=r"state_names: \['a', 'b', 'c', 'd'\] here, \['hand_x'"):
        build_environment(renamed)
    unknown = replace(schema, cameras=(Camera("nose", 32, 32),))
    with pytest.raises(UserError, match="nose"):
        build_environment(unknown)
