"""Where the arm is not started: a robot, a place, a light or a pace that does not fit."""

from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import LIMITS, Person, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy

JOINT = "shoulder_lift.pos"
CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n{}"
CONFIG += "".join(LIMITS.format(name=name) for name in SO101_NAMES)


def test_a_run_is_refused_for_its_pose_its_light_and_its_pace(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101, levels=True)
    config = CONFIG.format("slowest_rate = 0.9\n")
    life = drive(tmp_path, policy, [], fault="outside,dim,slow", config=config)
    assert life.code == 2
    assert life.sent == []
    assert life.calls == ["connect", "disconnect"]
    assert life.error.startswith("error: not started: camera front: brightness")
    for problem in (
        "camera front: brightness 0.0",
        "shoulder_lift.pos is at 70 deg, demonstrated was -20 to 20",
        "rate: the robot gives 1",
    ):
        assert f"problem   {problem}" in life.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "robot", "problem"),
    [
        ("swapped", "make", "the two seem exchanged"),
        ("bgr", "make", "red and blue seem exchanged"),
        ("flickering", "make", "camera front: brightness"),
        ("dim,hang_observation", "make", "camera front: brightness"),  # by a slow first answer
        ("black", "make", "camera front is black"),
        ("frozen", "make", "camera front has sent the same image"),
        ("old_wrist", "make_own", "camera wrist's image was taken 0.4"),
        ("renamed", "make", "camera names differ"),
        ("other_size", "make", "camera front: uint8 (120, 160, 3)"),
        ("raise_observation", "make", "the robot's observation failed: ConnectionError"),
        ("raise_observation_twice", "make", "the robot's observation failed: ConnectionError"),
    ],
)
def test_a_run_is_refused(tmp_path: Path, fault: str, robot: str, problem: str) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101, levels=True)
    life = drive(tmp_path, policy, [], fault=fault, robot=robot, config=CONFIG.format(""))
    assert life.code == 2
    assert problem in life.error
    assert life.sent == []


@pytest.mark.slow
def test_an_arm_that_somebody_moves_is_not_started(tmp_path: Path) -> None:
    def live(person: Person) -> None:
        person.faults("waved")
        person.look_on(0.3)
        for _ in range(5):  # two readings alike may come by chance
            person.press("\n")
            person.look_on(0.2)
        person.wait("start refused")
        person.faults()
        person.look_on(0.2)
        person.press("\n")
        person.wait("running")
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(tmp_path, policy, live, config=CONFIG.format("tracking_time = 0\n"))
    assert "start again once the arm is at rest" in life.output


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "shadow", "run"])
@pytest.mark.parametrize(("reads", "times"), [(1, "once"), (2, "twice"), (0, "once"), (1, "twice")])
def test_failed_reads_are_as_many_in_every_command(
    tmp_path: Path, command: str, reads: int, times: str
) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(
        tmp_path, policy, [], command=command, fault=f"raise_observation_{times}",
        config=CONFIG.format(f"failed_reads = {reads}\n"), options=["--seconds", "1"],
    )  # fmt: skip
    failed = "the robot's observation failed: ConnectionError('no status packet')"
    if reads < {"once": 1, "twice": 2}[times]:
        assert (life.code, life.error) == (2, f"error: {failed}\n")
    else:
        assert (life.code, life.error) == (0, "")
        assert failed in life.output
    assert life.sent == []
    assert life.calls[-1] == "disconnect"
    assert np.size(life.events) == 0 or command == "run"


@pytest.mark.slow
@pytest.mark.parametrize("options", [["check", "--watch"], ["run", "--own-size"]])
def test_a_bus_that_fails_every_second_time_is_tolerated_wherever_it_is_read(
    tmp_path: Path, options: list[str]
) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    command, *words = options
    words += ["--record", str(tmp_path / "recorded")] if command == "run" else []
    life = drive(
        tmp_path, policy, [], command=command, fault="raise_observation_by_turns",
        config=CONFIG.format(""), options=[*words, "--seconds", "1"],
    )  # fmt: skip
    assert (life.code, life.error) == (0, "")
    assert "times the robot's observation failed: ConnectionError" in life.output
    if "--watch" in options:
        assert len([line for line in life.output.splitlines() if JOINT in line]) > 4
