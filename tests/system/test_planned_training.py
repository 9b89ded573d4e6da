"""The bare command: what is not set is planned, trained, and judged at the end."""

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

import act_policy
from act_policy.cli.training.plan import end_in_time
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.model.policy import ACTPolicy
from act_policy.training.plan.facts import Workload
from act_policy.training.plan.plan import Choice, Plan
from tests.data.motion_for_tests import aloha_motion
from tests.scripts_for_tests import call_script

SMALL = ("model=act_tiny", "data.batch_size=4", "max_steps=4")
CPU = {"CUDA_VISIBLE_DEVICES": ""}


def test_the_plan_alone_is_printed(demonstrations: Path, tmp_path: Path) -> None:
    path = f"data.path={demonstrations}"
    done = call_script("train.py", path, "plan=only", "model=act_tiny", cwd=tmp_path, **CPU)
    assert done.returncode == 0, done.stderr
    facts = f"plan for {demonstrations}\n  4 demonstrations, 3 s in all at 10 steps a second; "
    assert facts in done.stdout
    for words in ("act_tiny", "small enough as they are", "max_steps=N", "time: about", "disk: "):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("plan", ["auto", "only"])
def test_what_is_wrong_with_the_demonstrations_is_said_instead_of_a_plan(
    plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def move_by_differences(_: int, state: np.ndarray, action: np.ndarray) -> None:
        action[:] = np.diff(state, axis=0, append=state[-1:])

    aloha_motion(tmp_path, move_by_differences, lengths=(60,) * 4)  # whose actions are in rad
    with pytest.raises(UserError, match="by name and unit a position, by the numbers a displa"):
        act_policy.train(tmp_path, tmp_path / "run", plan=plan)
    assert "plan for" not in capsys.readouterr().out


def test_a_planned_run_is_resolved_judged_and_extended(
    demonstrations: Path, tmp_path: Path
) -> None:
    path = f"data.path={demonstrations}"
    done = call_script("train.py", path, *SMALL, "out=run", cwd=tmp_path, **CPU)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["plan"] == "made"
    assert config["budget"] is None  # the steps are given
    assert config["max_minutes"] is None
    assert (config["max_steps"], config["data"]["batch_size"]) == (4, 4)
    assert config["model"]["width"] == 16  # as given
    assert config["model"]["chunk_length"] == 4  # in the file that was given
    assert config["data"]["held_out_fraction"] == 0.25
    execution = ACTPolicy.load(run).execution
    assert execution.execute_steps == config["execution"]["execute_steps"]
    assert execution.reason.startswith("planned: ")
    last = done.stdout.splitlines()[-3:]
    assert [line.partition(":")[0] for line in last] == ["how good", "next", "on the robot"]
    assert "holding still" in last[0]
    assert "checkpoint=run out=run/export" in last[2]
    assert "dx" in done.stdout  # the table of every action
    report = (run / "report.html").read_text()
    assert "<h2>Outcome</h2>" in report
    assert "<h2>Open-loop error</h2>" in report

    with (run / "metrics.csv").open() as file:
        minutes = float(list(csv.DictReader(file))[-1]["minutes"])
    refused = call_script("train.py", "resume=run", f"budget={30 * minutes}s", cwd=tmp_path, **CPU)
    assert refused.returncode == 2
    assert "minutes of training already" in refused.stderr
    more = ("budget=2h", "max_steps=7")
    done = call_script("train.py", "resume=run", *more, cwd=tmp_path, **CPU)
    assert done.returncode == 0, done.stderr
    assert "trained 7 steps" in done.stdout
    assert "how good: " in done.stdout
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["max_steps"], config["budget"], config["max_minutes"]) == (7, "2h", 120)


@pytest.mark.parametrize(
    ("given", "spent", "minutes"),
    [([], 600.0, 49.0), ([], 3700.0, 0.0333), (["max_minutes"], 600.0, None)],
)
def test_training_ends_with_the_budget(
    given: list[str], spent: float, minutes: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACT_POLICY_PLAN", "")  # so that the test leaves nothing there
    config = OmegaConf.create({"given": given, "max_minutes": None, "plan": "made"})
    choice = Choice("steps", 10, "10", "why", "max_steps=N", {"max_steps": 10})
    workload = Workload("act_small", ((8, 8),), 4, 4)
    end_in_time(config, Plan((choice,), workload, 10, 2.0, 0.0, 0, 3600.0), spent)
    assert config.max_minutes == minutes


def test_from_python(demonstrations: Path, tmp_path: Path) -> None:
    settings = {"model": "act_tiny", "data.batch_size": 4, "data.cameras": ["front"]}
    settings |= {"execution.execute_steps": 3}
    run = act_policy.train(demonstrations, tmp_path / "it's a run", settings, max_steps=2)
    assert run.folder == tmp_path / "it's a run"
    assert run.held_out_l1 is not None
    assert run.policy.config.width == 16
    assert run.policy.execution == Execution(3)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("plan=maybe", "plan=maybe: expected auto, only or null"),
        ("budget=soon", "expected a time such as 30m"),
        ("plan=only experiment=tiny", "experiment= fixes every setting"),
    ],
)
def test_settings_that_cannot_be_read(
    demonstrations: Path, tmp_path: Path, setting: str, words: str
) -> None:
    given = dict(part.split("=") for part in setting.split())
    with pytest.raises(UserError, match=words):
        act_policy.train(demonstrations, tmp_path / "run", given)


@pytest.mark.slow
def test_without_a_plan_the_defaults_hold(demonstrations: Path, tmp_path: Path) -> None:
    small = (*SMALL, "plan=null", f"data.path={demonstrations}", "out=run")
    done = call_script("train.py", *small, cwd=tmp_path, **CPU)
    assert done.returncode == 0, done.stderr
    assert "plan for" not in done.stdout
    assert "how good" not in done.stdout
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["data"]["held_out_fraction"] == 0.1
