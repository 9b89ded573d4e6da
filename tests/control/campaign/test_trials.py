"""`trials` as a person uses it: judged by keys, interrupted, and continued by the same command."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.control.campaign.drive import LIMITS, SO101, SO101_NAMES, Life, drive, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n" + "".join(
    LIMITS.format(name=name).replace("approach_speed = 10", "approach_speed = 60")
    for name in SO101_NAMES
)


def try_out(tmp_path: Path, keys: list[Any], *options: str) -> tuple[Life, dict[str, Any]]:
    policy = tmp_path / "policy.onnx"
    if not policy.exists():
        write_sine_policy(policy, SO101)
    words = ["--out", str(tmp_path / "out"), "--episodes", "2", "--seconds", "0.6", *options]
    life = drive(tmp_path, policy, keys, command="trials", config=CONFIG, options=words)
    results = tmp_path / "out" / "trials.json"
    return life, json.loads(results.read_text()) if results.exists() else {}


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_judged_and_the_same_command_goes_on(tmp_path: Path) -> None:
    life, results = try_out(tmp_path, [(0.2, "\n"), (2.0, "y"), (6.0, signal.SIGINT)])
    assert life.error == ""
    assert life.code == 0
    assert [episode["success"] for episode in results["episodes"]] == [True]
    assert (tmp_path / "out" / "report.html").exists()
    (_, before), (_, last) = life.sent[-2:]
    assert last == before
    assert life.calls[-1] == "disconnect"
    first = results["start_pose"]

    life, results = try_out(tmp_path, [(2.5, "\n"), (5.0, "n")], "--page", "0")
    assert life.error == ""
    assert [episode["success"] for episode in results["episodes"]] == [True, False]
    assert results["success_rate"] == 0.5
    assert results["start_pose"] == first
    assert "1 of 2 successful: 50.0% (95% interval 9.5% to 90.5%)" in life.output
    films = sorted(path.name for path in (tmp_path / "out" / "films").iterdir())
    assert films == ["episode_001.webp", "episode_002.webp"]

    life, again = try_out(tmp_path, [])  # nothing is left to do, and nothing moves
    assert life.sent == []
    assert again == results


def test_trials_of_another_length_are_refused_before_anything_moves(tmp_path: Path) -> None:
    life, _ = try_out(tmp_path, [(0.0, "q")])
    assert "no episode was judged" in life.output
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "trials.json").write_text("{}")
    life, _ = try_out(tmp_path, [])
    assert life.code == 2
    assert "cannot be read as trials" in life.error
    assert life.sent == []
