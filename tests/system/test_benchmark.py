"""The benchmark's timing, and a run of each suite from the command line."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.paths import ROOT
from tests.scripts_for_tests import call_script

SCRIPT = ROOT / "scripts" / "benchmark.py"


clock = importlib.import_module("benchmarks.clock")
train = importlib.import_module("benchmarks.train")


def test_marks_are_divided_into_repeats() -> None:
    marks = [0.0, 1.0, 2.0, 4.0, 6.0, 7.0, 8.0]  # steps of 1, 1, 2, 2, 1, 1 seconds
    assert train.seconds_per_step(marks, 3) == [1.0, 2.0, 1.0]


def test_whole_episodes_are_timed() -> None:
    calls: list[int] = []
    seconds = clock.time_calls(
        SimpleNamespace(repeats=2, seconds=0.0), lambda: calls.append(1), whole=5
    )
    assert len(calls) % 5 == 0
    assert 0 <= seconds < 0.1


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure=speed"], "measure=speed: expected one of "),
        (["measure=data"], "measure=data needs peer=PYTHON"),
        (["measure=train", "peer=/nowhere/python"], "peer=/nowhere/python: no such Python"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str) -> None:
    done = call_script(SCRIPT, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "rows"), [("train", 1), ("infer", 4), ("rollout", 3)])
def test_each_suite_writes_positive_figures(suite: str, rows: int, tmp_path: Path) -> None:
    camera = "topview" if suite == "rollout" else "mine"
    done = call(
        f"measure={suite}", "recipe=tiny", "seconds=0.1", "repeats=2", "threads=1",
        f"cameras={{{camera}: [32, 32]}}", f"out={tmp_path}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / f"{suite}.json").read_text())
    others = {row["who"] for row in report["rows"] if "OpenVINO" in row["who"]}  # if installed
    assert len(report["rows"]) - len(others) == rows
    assert all(row["value"] > 0 for row in report["rows"])
