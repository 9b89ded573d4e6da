"""tune as it is typed: which candidates race, and what is printed."""

from pathlib import Path
from typing import Any

import pytest

from act_policy import UserError
from act_policy.cli import tune as command
from act_policy.cli.compare import main as compare_main
from act_policy.cli.entry import configuration
from act_policy.evaluation import tune as tuning
from act_policy.sim import rendering

SUMMARY = {
    "letters": "a",
    "success_rate": 1.0,
    "interval": [0.2, 1.0],
    "episodes": [{"seed": 50_000, "success": True, "steps": 9}],
}
REPORT = {
    "environment": "fake/Reach-v0",
    "policies": [{"name": "execute_steps=4", **SUMMARY}],
    "chosen": {"execute_steps": 4, "ensemble_coefficient": None, "reason": "tuned: 9 of 10"},
    "kept_in": "run/execution.json",
    "settings": {"instruction": None},
}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `tune` is called with."""
    calls: list[Any] = []
    monkeypatch.setattr(tuning, "tune", lambda *a, **k: calls.append(a) or REPORT)
    monkeypatch.setattr(command, "find_all_demonstrations", lambda *_: [])
    monkeypatch.setattr(rendering, "choose_gl_backend", lambda: None)
    return calls


@pytest.mark.parametrize(
    ("arguments", "steps", "coefficients"),
    [
        ([], None, [0.01]),
        (["execute_steps=[8,2]", "ensemble_coefficients=[]"], [8, 2], []),
        (["ensemble_coefficients=null"], None, []),
    ],
)
def test_the_candidates_are_those_that_were_typed(
    arguments: list[str], steps: Any, coefficients: Any, given: list[Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "best.ckpt").touch()
    command.main(configuration("tune_execution", [f"checkpoint={run}", *arguments]))
    [(contestant, out, settings, *candidates, _)] = given
    assert (contestant.checkpoint, out, settings.seed) == (run, run / "tuning", 50_000)
    assert candidates == [steps, coefficients]
    printed = capsys.readouterr().out
    assert "execute_steps=4 (tuned: 9 of 10)" in printed
    assert "it is now the default: run/execution.json" in printed


def test_what_is_no_list_is_named(given: list[Any], tmp_path: Path) -> None:
    words = ["checkpoint=run", f"out={tmp_path}", "execute_steps=8"]
    with pytest.raises(UserError, match=r"expected a list of candidates, \[8\]"):
        command.main(configuration("tune_execution", words))
    assert given == []
    words = ["policies=run", f"out={tmp_path}"]
    with pytest.raises(UserError, match="expected a list"):
        compare_main(configuration("compare_policies", words))
