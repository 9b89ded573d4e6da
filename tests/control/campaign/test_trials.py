"""`trials` as a person uses it: judged by keys, interrupted, and continued by the same command."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

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


class Operator:
    """Whoever sits before the arm: presses enter, looks at the page, and judges by the elbow.

    instead: what is done instead of a judgement, by the number of times one was asked for.
    """

    def __init__(self, words: list[str], instead: dict[int, str]):
        self.words, self.instead, self.asked = words, instead, 0

    def run(self) -> tuple[int, str]:
        """Run the command to its end; return its exit code and what it printed."""
        process = subprocess.Popen(
            self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        output, address = [], ""
        for line in process.stdout:
            output.append(line)
            if line.startswith("page: "):
                address = line.split()[1]
            elif "press enter" in line:
                process.stdin.write("\n")
            elif ": judge: " in line:
                self.asked += 1
                key = self.instead.get(self.asked) or ("y" if self.sees_reach(address) else "n")
                if key == "Ctrl-C":
                    process.send_signal(signal.SIGINT)
                else:
                    process.stdin.write(key)
            process.stdin.flush()
        process.stdin.close()
        process.stdout.close()
        return process.wait(timeout=60), "".join(output)

    def sees_reach(self, address: str) -> bool:
        with urlopen(address, timeout=60) as answer:
            page = answer.read().decode()
        assert not {"timid", "brave"} & words_of(page)
        [elbow] = re.findall(r"<td>elbow_flex.pos</td>\s*<td class=.number.*?>(.*?)</td>", page)
        return abs(float(elbow)) > 5


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text))


@pytest.mark.slow
def test_two_policies_are_compared_blindly_until_it_is_decided(tmp_path: Path) -> None:
    policies = [
        write_sine_policy(tmp_path / name, SO101, amplitude)
        for name, amplitude in (("timid.onnx", 1.0), ("brave.onnx", 20.0))
    ]
    (tmp_path / "robot.toml").write_text(
        CONFIG.replace("[safety]\n", "[safety]\nslowest_rate = 0\n")
    )
    words = [sys.executable, "-m", "act_policy.control", "trials"]
    words += [word for policy in policies for word in ("--policy", str(policy))]
    words += ["--robot", "simulated", "--config", str(tmp_path / "robot.toml"), "--page", "0"]
    words += ["--episodes", "12", "--seconds", "0.5", "--confidence", "0.5"]
    words += ["--out", str(tmp_path / "out")]
    operator = Operator(words, {2: "r", 5: "b", 7: "Ctrl-C"})
    code, first = operator.run()
    assert code == 0, first
    assert "the same command goes on" in first
    begun = json.loads((tmp_path / "out" / "trials.json").read_text())
    assert begun["discarded"] == 3
    assert [one["state"] for one in begun["episodes"]] == [1, 1, 2]  # in the middle of a pair
    page = (tmp_path / "out" / "report.html").read_text()
    assert not {"timid", "brave"} & words_of(page.partition("Made with")[0])

    code, second = operator.run()
    assert code == 0, second
    before, _, after = second.partition("ended by ")
    assert not {"timid", "brave"} & words_of((first + before).replace(str(tmp_path), ""))
    assert "brave is better than timid" in after
    results = json.loads((tmp_path / "out" / "trials.json").read_text())
    assert results["decided"]
    assert all((one["policy"] == "brave") == one["success"] for one in results["episodes"])
    states = [one["state"] for one in results["episodes"]]
    assert states == sorted([*range(1, states[-1] + 1)] * 2)
    assert len(states) < 24
    assert "brave is better than timid" in (tmp_path / "out" / "report.html").read_text()

    code, again = operator.run()  # nothing is left to do
    assert code == 0
    assert "brave is better than timid" in again
    assert "press enter" not in again
