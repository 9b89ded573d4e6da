"""`scripts/train.py` as a user runs it."""

import csv
import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from act_policy import ACTPolicy
from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.training.check_demonstrations import check_demonstrations
from act_policy.training.losses import action_l1
from act_policy.types import Observation
from tests.paths import ROOT
from tests.scripts_for_tests import call_script
from tests.system.train_for_tests import SCHEMA, call


def test_help_is_fast_and_loads_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['train.py', '--help']\n"
        "import runpy\n"
        "try: runpy.run_path('scripts/train.py', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'lightning', 'numpy'} & set(sys.modules)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # not the time on a busy machine
    took = sum(after[:2]) - sum(before[:2])  # user's and system's
    assert "experiment: " in done.stdout
    assert "data.path" in done.stdout or "path: ???" in done.stdout
    assert took < 3


@pytest.mark.slow
def test_a_sweep_trains_like_single_runs(demonstrations: Path, tmp_path: Path) -> None:
    tiny = ("experiment=tiny", f"data.path={demonstrations}", "max_steps=4", "validate_every=2")
    done = call("-m", *tiny, "seed=0,1", "out=sweep", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = call(*tiny, "seed=1", "out=single", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = {}
    for name in ("sweep/0", "sweep/1", "single"):
        with (tmp_path / name / "metrics.csv").open() as file:
            losses[name] = [row["train_l1"] for row in csv.DictReader(file)]
    assert losses["sweep/1"] == losses["single"] != losses["sweep/0"]


def test_training_leaves_a_complete_run(demonstrations: Path, tmp_path: Path) -> None:
    done = call("experiment=tiny", f"data.path={demonstrations}", "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("Warning", "litlogger", "GPU available", "Seed set", "Traceback"):
        assert word not in done.stdout + done.stderr
    assert "camera front" in done.stdout
    assert "step 10/10" in done.stderr
    run = tmp_path / "run"
    assert sorted(p.relative_to(run).as_posix() for p in run.rglob("*")) == [
        "checkpoints",
        "checkpoints/best.ckpt",
        "checkpoints/last.ckpt",
        "config.yaml",
        "metrics.csv",
        "report.html",
        "versions.json",
    ]
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["max_steps"] == 10
    assert config["data"]["path"] == str(demonstrations)
    (start,) = json.loads((run / "versions.json").read_text())
    assert torch.__version__.startswith(start["torch"])
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [str(i) for i in range(1, 11)]
    assert [row["step"] for row in rows if row["held_out_l1"]] == ["5", "10"]
    policy = ACTPolicy.load(run)
    observation = Observation({"front": np.zeros((16, 16, 3), np.uint8)}, np.zeros(2, np.float32))
    assert policy.predict_chunk(observation).shape == (4, 2)
    assert policy.demonstration_seeds == (0, 1, 2, 3)

    again = call("experiment=tiny", f"data.path={demonstrations}", "out=run", cwd=tmp_path)
    assert again.returncode == 2
    assert "resume=" in again.stderr
    assert (run / "versions.json").read_text().count('"started"') == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["out=run"], ["data.path"]),
        (["data.path=DEMOS"], ["out=", "resume="]),
        (["data.path=nowhere", "out=run"], ["nowhere"]),
        (["data.path=DEMOS", "out=run", "max_step=3"], ["max_step", "did you mean max_steps?"]),
        (["data.path=DEMOS", "out=run", "experiment=tinny"], ["did you mean tiny?"]),
        (["data.path=DEMOS", "out=run", "model.heads=3"], ["16", "3 heads"]),
        (["data.path=DEMOS", "out=run", "optim.schedule=step"], ["optim.schedule", "cosine"]),
        (["data.path=DEMOS", "out=run", "data.cameras=[rear]"], ["rear", "front"]),
        (["data.path=DEMOS", "out=run", "trainer.accelerator=gpu"], ["gpu", "trainer=auto"]),
        (["data.path=DEMOS", "out=run", "trainer.precision=foo"], ["foo", "bf16-mixed"]),
        (["data.path=DEMOS", "out=run", "log_every=0"], ["log_every=0"]),
        (["data.path=DEMOS", "out=run", "validate_every=0"], ["validate_every=0"]),
        (["data.path=DEMOS", "out=run", "max_steps=null"], ["max_steps=null", "int"]),
        (["data.path=DEMOS", "out=run", "+max_step=3"], ["+max_step=3"]),
        (["resume=nowhere"], ["nowhere", "run folder"]),
        (["resume=nowhere", "out=run"], ["out=", "resume=", "not both"]),
        (["resume=last"], ["out=RUN"]),
        (
            ["data.path=DEMOS", "out=run", "data.train_episodes=5"],
            ["train_episodes: expected a list of indices like [0, 1], found 5"],
        ),
    ],
)
def test_wrong_input_exits_with_2_and_leaves_no_files(
    demonstrations: Path,
    tmp_path: Path,
    arguments: list[str],
    words: list[str],
) -> None:
    given = [a.replace("DEMOS", str(demonstrations)) for a in arguments]
    if not any(a.startswith("experiment=") for a in given):
        given.append("experiment=tiny")
    done = call_script("train.py", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


def write_compressed(folder: Path) -> None:
    """Write four nameless episodes of other software; one frame of the first is cut off."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for episode in range(4):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(buffer, "JPEG")
        rows = np.stack([np.frombuffer(buffer.getvalue(), np.uint8)] * 6)
        if episode == 0:
            rows[3, 50:] = 0
        with h5py.File(folder / f"episode_{episode}.hdf5", "w") as file:
            file["observations/qpos"] = rng.normal(size=(6, 2)).astype(np.float32)
            file["action"] = rng.normal(size=(6, 2)).astype(np.float32)
            file["observations/images/front"] = rows


@pytest.mark.slow
def test_relative_paths_work_from_anywhere_and_skipped_frames_are_reported(tmp_path: Path) -> None:
    write_compressed(tmp_path / "theirs")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA.to_dict()))
    relative = ["data.path=theirs", "data.schema=schema.json", "data.cache=cache"]
    skip = ["data.undecodable=skip", "data.train_episodes=[0, 1, 2]"]
    done = call("experiment=tiny", *relative, *skip, "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "data.undecodable=skip: frames that are left out: 1" in done.stdout
    (tmp_path / "elsewhere").mkdir()
    done = call(f"resume={tmp_path / 'run'}", "max_steps=12", cwd=tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.slow
def test_warnings_about_the_demonstrations_come_first(
    demonstrations: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, copy in (("000000", "0"), ("000001", "1"), ("000000", "2")):
        (tmp_path / f"episode_{copy}.hdf5").write_bytes(
            (demonstrations / f"episode_{name}.hdf5").read_bytes()
        )
    config = InspectionConfig(2, 0.01, "stop")
    check_demonstrations(open_dataset(tmp_path), config)
    assert "warning: states and actions are those of another episode" in capsys.readouterr().err
    with h5py.File(tmp_path / "episode_1.hdf5", "a") as file:
        file["action"][3, 1] = np.nan
    with pytest.raises(UserError, match=r"first dy at step 3\).*Leave these episodes out"):
        check_demonstrations(open_dataset(tmp_path), config)


@pytest.mark.slow
def test_a_copied_run_folder_can_be_resumed(demonstrations: Path, tmp_path: Path) -> None:
    first = call("experiment=tiny", f"data.path={demonstrations}", f"out={tmp_path / 'first'}")
    assert first.returncode == 0, first.stderr
    (tmp_path / "first").rename(tmp_path / "moved")
    done = call("resume=moved", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "finished: step 10 of 10; a larger max_steps= or budget= trains on\n"
    config = tmp_path / "moved" / "config.yaml"  # with older names of the callbacks
    text = config.read_text().replace("progress:", "monitor:")
    text = text.replace("training.callbacks.progress.", "training.monitor.")
    assert "training.monitor.Progress" in text
    config.write_text(text.replace("training.trainer.", "training.elsewhere."))
    refused = call("resume=moved", "data.batch_size=3", "max_steps=14", cwd=tmp_path)
    assert refused.returncode == 2  # and the run's configuration is unchanged
    assert "batch_size 4" in refused.stderr
    for resume in ("moved", "moved/checkpoints/last.ckpt"):
        steps = 14 if resume == "moved" else 16
        done = call(f"resume={resume}", f"max_steps={steps}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "first").exists()
    with (tmp_path / "moved" / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == [str(i) for i in range(1, 17)]
    assert len(json.loads((tmp_path / "moved" / "versions.json").read_text())) == 3
    done = call("resume=moved", "experiment=tiny", cwd=tmp_path)
    assert done.returncode == 2
    assert "experiment" in done.stderr


@pytest.mark.slow
def test_wandb_is_offline_and_needs_no_input(demonstrations: Path, tmp_path: Path) -> None:
    done = call(
        "experiment=tiny", "logger=wandb", f"data.path={demonstrations}", "out=run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert (tmp_path / "run" / "metrics.csv").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_two_processes_are_one_run(demonstrations: Path, tmp_path: Path) -> None:
    done = call(
        "experiment=tiny", "trainer=ddp", f"data.path={demonstrations}", f"out={tmp_path / 'run'}"
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert done.stdout.count("encoder tokens") == 1
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [str(i) for i in range(1, 11)]
    policy = ACTPolicy.load(tmp_path / "run" / "checkpoints" / "last.ckpt").eval()
    data = DemonstrationDataModule(demonstrations, chunk_length=4, batch_size=4)
    samples = data.held_out_samples
    batch = samples.__getitems__(list(range(len(samples))))
    state = batch.observation.state
    with torch.no_grad():
        predicted = policy.normalizer.actions(policy(batch.observation), state)
        held_out = action_l1(
            predicted, policy.normalizer.actions(batch.actions, state), batch.is_pad
        )
    assert float(rows[-1]["held_out_l1"]) == pytest.approx(float(held_out), rel=1e-5)
    done = call(f"resume={tmp_path / 'run'}", "max_steps=13")
    assert done.returncode == 0, done.stderr
