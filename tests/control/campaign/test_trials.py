"""`trials` as a person uses it: judged by keys, interrupted, and continued by the same command."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.control.campaign.drive import LIMITS, Life, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy
from tests.paths import ROOT

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


def judge_by_the_log(words: list[str], log: Path) -> tuple[int, str]:
    """Run trials with an operator who presses enter, looks at the arm, and judges by its reach."""
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd=ROOT, env={**os.environ, "ROBOT_LOG": str(log), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    output, seen = [], 0
    for line in process.stdout:
        output.append(line)
        calls = [json.loads(call) for call in log.read_text().splitlines()] if log.exists() else []
        if "press enter" in line:
            seen = len(calls)
            process.stdin.write("\n")
        elif ": judge: " in line:
            sent = [call["action"]["elbow_flex.pos"] for call in calls[seen:] if "action" in call]
            process.stdin.write("y" if max(map(abs, sent)) > 5 else "n")
        process.stdin.flush()
    process.stdin.close()
    return process.wait(timeout=60), "".join(output)


@pytest.mark.slow
def test_two_policies_are_compared_blindly_until_it_is_decided(tmp_path: Path) -> None:
    policies = [
        write_sine_policy(tmp_path / name, SO101, amplitude)
        for name, amplitude in (("timid.onnx", 1.0), ("brave.onnx", 20.0))
    ]
    config = CONFIG.replace("[safety]\n", "[safety]\nslowest_rate = 0\n")
    (tmp_path / "robot.toml").write_text(config)
    words = [sys.executable, "-m", "act_policy.control", "trials"]
    words += [word for policy in policies for word in ("--policy", str(policy))]
    words += ["--robot", "tests.control.campaign.fake_robots:make"]
    words += ["--config", str(tmp_path / "robot.toml"), "--out", str(tmp_path / "out")]
    words += ["--episodes", "12", "--seconds", "0.5", "--confidence", "0.5"]
    code, output = judge_by_the_log(words, tmp_path / "robot.jsonl")
    assert code == 0, output
    before, _, after = output.partition("ended by ")
    assert not {"timid", "brave"} & set(re.findall(r"\w+", before.replace(str(tmp_path), "")))
    assert "brave is better than timid" in after
    results = json.loads((tmp_path / "out" / "trials.json").read_text())
    assert results["decided"]
    assert all((one["policy"] == "brave") == one["success"] for one in results["episodes"])
    states = [one["state"] for one in results["episodes"]]
    assert states == sorted([*range(1, states[-1] + 1)] * 2)
    assert len(states) < 24
    assert "brave is better than timid" in (tmp_path / "out" / "report.html").read_text()

    code, again = judge_by_the_log(words, tmp_path / "robot.jsonl")  # nothing is left to do
    assert code == 0
    assert "brave is better than timid" in again
    assert "press enter" not in again
