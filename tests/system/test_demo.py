"""A small `make demo`: record, train, evaluate and export by the scripts, as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.model.policy import ACTPolicy
from tests.paths import ROOT

TASK = "act_policy/MetaWorld-button-press-topdown-v0"


def run(folder: Path, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.slow
def test_from_demonstrations_to_an_exported_policy(tmp_path: Path) -> None:
    run(
        tmp_path,
        "record_demos",
        "task=metaworld/button-press-topdown",
        "cameras={topview: [24, 32]}",
        "quality=exact",
        "episodes=3",
        "seed=40",
        "tail=2",
        "out=demonstrations",
    )
    found = run(tmp_path, "inspect_dataset", "path=demonstrations", "strict=true")
    assert "note: constant dimensions: " in found  # the gripper's effort
    assert (tmp_path / "demonstrations.inspection.html").is_file()
    run(tmp_path, "train", "experiment=tiny", "data.path=demonstrations", "out=run")

    text = run(tmp_path, "evaluate", "checkpoint=run", "episodes=2", "videos=1", "execute_steps=4")
    report = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert report["environment"] == TASK
    assert set(report["baselines"]) == {"black_image", "replayed_demonstration"}
    for results in (report, *report["baselines"].values()):
        assert [episode["seed"] for episode in results["episodes"]] == [1000, 1001]
    assert report["settings"]["quality"] == "exact"
    assert report["settings"]["max_steps"] == 200  # the task's limit, from the recording
    # after ten steps of training the policy beats no baseline
    assert "warning: the policy is not clearly better than the black image" in text
    assert "at most 200 steps, exact images" in " ".join(text.split())
    assert list((tmp_path / "run" / "videos").glob("seed_100*.mp4"))

    refused = subprocess.run(
        [sys.executable, str(ROOT / "scripts/evaluate.py"), "checkpoint=run", "seed=41"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    assert "initial states were demonstrated" in refused.stderr

    run(tmp_path, "export_policy", "checkpoint=run", "out=export")
    parity = json.loads((tmp_path / "export" / "parity.json").read_text())
    assert set(parity["formats"]) == {"bundle", "onnx"}
    exported = OnnxPolicy(tmp_path / "export" / "policy.onnx")
    observation = {
        "observation.images.topview": np.full((24, 32, 3), 90, np.uint8),
        "observation.state": np.array([0.0, 0.6, 0.2, 1.0], np.float32),
    }
    action = ChunkExecutor(exported).select_action(observation)
    expected = ACTPolicy.load(tmp_path / "run").predict_chunk(observation)[0]
    np.testing.assert_allclose(action, expected, atol=1e-4)
    again = run(
        tmp_path,
        "evaluate",
        "checkpoint=export/policy.onnx",
        "episodes=1",
        "out=judged",
        "demonstrations=demonstrations",
        "videos=0",
        "baselines=false",
        "execute_steps=4",
    )
    assert "no demonstrations to replay" not in again
    judged = json.loads((tmp_path / "judged" / "evaluation.json").read_text())
    assert judged["settings"] == {**report["settings"], "episodes": 1}
