"""An SO-101, whose motors are on once it is connected, in shadow: let go, or led."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import LIMITS, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy

FAKES = "tests.control.campaign.fake_robots"
CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n"
JOINT = "shoulder_lift.pos"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sine_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", SO101)


def states(folder: Path) -> np.ndarray:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["state"][JOINT] for line in lines])


def test_a_person_moves_an_arm_that_was_let_go(policy: Path, tmp_path: Path) -> None:
    options = ["--release", f"{FAKES}:release", "--seconds", "1.5"]
    life = drive(tmp_path, policy, [], command="shadow", options=options)
    assert life.code == 0, life.error
    assert "torque off" in life.calls
    assert life.sent == []
    assert np.ptp(states(tmp_path)) > 10  # by hand
    assert "compared with where the arm was a step later" in life.output


def test_without_letting_go_nobody_can_move_it(policy: Path, tmp_path: Path) -> None:
    drive(tmp_path, policy, [], command="shadow", options=["--seconds", "0.5"])
    assert np.ptp(states(tmp_path)) == 0


def test_the_leader_drives_within_the_limits(policy: Path, tmp_path: Path) -> None:
    limits = LIMITS.format(name=JOINT).replace("max_speed = 60", "max_speed = 20")
    life = drive(
        tmp_path, policy, [(0.0, "\n"), (3.0, "q")], command="shadow", config=CONFIG + limits,
        options=["--operator", f"{FAKES}:leader", "--drive"],
    )  # fmt: skip
    assert life.code == 0, life.error
    sent = life.values(JOINT)
    assert np.ptp(sent) > 4
    assert np.abs(np.diff(sent)).max() <= 20 / 30 + 1e-3  # the leader goes 31 a second
    assert set(life.sent[0][1]) == set(SO101_NAMES)
    assert np.ptp(states(tmp_path)) > 4
    assert "steps compared with the operator's device" in life.output
    (_, before), (_, last) = life.sent[-2:]
    assert last == before


def test_a_leader_that_fails_is_a_hold(policy: Path, tmp_path: Path) -> None:
    life = drive(
        tmp_path, policy, [(0.0, "\n"), (1.0, "q")], command="shadow", config=CONFIG,
        options=["--operator", f"{FAKES}:leader", "--drive"], fault="raise_leader",
    )  # fmt: skip
    assert life.code == 1
    assert "the operator's device failed" in life.error
    assert np.ptp(life.values(JOINT)) == 0 if life.sent else True


@pytest.mark.parametrize(
    "options", [["--drive"], ["--drive", "--operator", f"{FAKES}:leader", "--release", "a:b"]]
)
def test_what_drives_is_said_once(policy: Path, tmp_path: Path, options: list[str]) -> None:
    life = drive(tmp_path, policy, [], command="shadow", options=options)
    assert life.code == 2
    assert life.error.startswith("error: drive: ")


def test_a_check_shows_joints_that_a_person_moves(policy: Path, tmp_path: Path) -> None:
    options = ["--watch", "--release", f"{FAKES}:release", "--seconds", "1.5"]
    life = drive(tmp_path, policy, [], command="check", options=options)
    assert life.sent == []
    lines = [line for line in life.output.splitlines() if JOINT in line and " went " in line]
    assert len(lines) >= 4
    assert len(set(lines)) > 3
    assert any(line.startswith(("+", "-")) for line in lines)
    still = [line for line in life.output.splitlines() if "elbow_flex.pos" in line]
    assert not any(line.startswith(("+", "-")) for line in still)
