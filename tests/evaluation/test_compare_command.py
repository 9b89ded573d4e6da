"""policies= as it is typed, the names that tell them apart, and the exit code."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from act_policy import UserError
from act_policy.cli import compare as command
from act_policy.cli.entry import configuration
from act_policy.evaluation import compare as comparison
from act_policy.sim import rendering
from tests.paths import ROOT

SOURCE = {"cameras": None, "image_size": None, "heads": None, "schema": None}


def names_of(policies: list[Any]) -> list[str]:
    return [one.name for one in command.read_contestants(policies, SOURCE)]


def test_names_are_as_long_as_it_takes() -> None:
    steps = {"checkpoint": "runs/a", "execute_steps": 4}
    ensembled = {"checkpoint": "runs/a", "ensemble_coefficient": 0.01}
    assert names_of(["runs/a", "runs/b"]) == ["a", "b"]
    assert names_of(["x/a", "y/a"]) == ["x/a", "y/a"]
    assert names_of(["runs/a/checkpoints/last.ckpt", "runs/a"]) == ["a/last.ckpt", "a"]
    assert names_of(["runs/a", steps, ensembled]) == [
        "a, default",
        "a, execute_steps=4",
        "a, ensemble_coefficient=0.01",
    ]
    assert names_of([{**steps, "name": "eager"}, "runs/a"]) == ["eager", "a, default"]


def test_a_checkpoint_of_other_software_may_say_its_own_source() -> None:
    theirs = {"checkpoint": "theirs", "source": {"cameras": ["top"], "image_size": [8, 12]}}
    ours, other = command.read_contestants(["ours", theirs], SOURCE)
    assert ours.source.cameras is None
    assert (other.source.cameras, other.source.image_size) == (("top",), (8, 12))
    with pytest.raises(UserError, match="source of number 1: unknown fields camera"):
        command.read_contestants([{**theirs, "source": {"camera": "top"}}], SOURCE)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ("runs/a", "expected a list"),
        (["runs/a", 3], "number 2 is 3"),
        (["runs/a", {"execute_steps": 4}], "number 2 is .*expected a checkpoint"),
        ([{"checkpoint": "a", "steps": 4}], "number 1 has steps; known are"),
        ([{"checkpoint": "a", "execute_steps": "4"}], "number 1 has execute_steps=4"),
    ],
)
def test_what_is_no_policy_is_named(policies: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        command.read_contestants(policies, SOURCE)


@pytest.mark.parametrize("decided", [True, False])
def test_the_exit_code_says_whether_it_is_decided(
    decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    verdict = {
        "a": "a",
        "b": "b",
        "verdict": "a_better" if decided else "undecided",
        "difference": -0.25,
        "interval": [-0.5, 0.0],
        "pairs": 40,
        "further_pairs": 12,
    }
    episodes = [{"seed": 1000, "success": True, "steps": 9}]
    summary = {"letters": "a", "success_rate": 1.0, "interval": [0.2, 1.0], "episodes": episodes}
    report = {
        "environment": "fake/Reach-v0",
        "decided": decided,
        "settings": {"instruction": None},
        "verdicts": [verdict],
        "policies": [{"name": name, **summary} for name in "ab"],
    }
    given: list[Any] = []
    monkeypatch.setattr(comparison, "compare", lambda *a, **k: given.append(a) or report)
    monkeypatch.setattr(command, "find_all_demonstrations", lambda *_: [])
    monkeypatch.setattr(rendering, "choose_gl_backend", lambda: None)
    arguments = ["policies=[a,b]", f"out={tmp_path}", "margin=0.1"]
    config = configuration("compare_policies", arguments)
    if decided:
        command.main(config)
    else:
        with pytest.raises(SystemExit) as ended:
            command.main(config)
        assert ended.value.code == 3
    [(contestants, out, settings, _)] = given
    assert [one.checkpoint for one in contestants] == [Path("a"), Path("b")]
    assert (out, settings.margin, settings.seed) == (tmp_path, 0.1, 1000)
    says = "a is better than b: after 40" if decided else "about 12 more would probably do"
    assert says in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("verdict", "passes"),
    [("a_better", False), ("b_better", True), ("no_difference", True), ("undecided", False)],
)
def test_the_documented_gate_refuses_what_is_worse_and_what_may_be(
    verdict: str, passes: bool, tmp_path: Path
) -> None:
    documented = (ROOT / "docs" / "evaluation.md").read_text().splitlines()
    [gate] = [line for line in documented if line.startswith("act-policy compare")]
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "comparison.json").write_text(f'{{"verdict": "{verdict}"}}')
    program = tmp_path / "act-policy"
    program.write_text(f"#!/bin/sh\nexit {command.UNDECIDED if verdict == 'undecided' else 0}\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", "-ec", gate], cwd=tmp_path, env=environment, check=False)
    assert (ended.returncode == 0) is passes
