"""What a robot does in mid-run, one fault after the other: held at once, and resumed each time."""

import signal
from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import LIMITS, Life, Person, drive
from tests.control.campaign.fake_policy import SO101, write_sine_policy

JOINT = "shoulder_lift.pos"
FAKES = "tests.control.campaign.fake_robots"
CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_answer_time = 5\nmax_tick_time = 5\n{}"
CONFIG += LIMITS.format(name=JOINT) + "park = 30\n"
A_WHILE = 0.35
"""Seconds that show a hold, and a motion before it."""


def check_hold(
    life: Life, kind: str, which: int = 0, parks: bool = True, taken: bool = True
) -> None:
    """Nothing moves from the tick of the fault on, except slowly to the parking place."""
    for name, sent in life.hold(kind, which).items():
        assert len(sent) > 5
        rest = sent if taken else np.delete(sent, 1)  # what the driver refused was not done
        if parks and name == JOINT:
            assert np.abs(np.diff(rest)).max() <= 10 / 30 + 1e-3
            assert np.diff(rest).min() >= 0
            assert np.ptp(rest) > 1
        else:
            assert np.ptp(rest) == 0, name


def go(person: Person) -> None:
    person.press("\n")
    person.wait("running")
    person.look_on(A_WHILE)


def run_into(person: Person, faults: list[tuple[str, str]]) -> None:
    """Run into one fault after another, each of which is gone before the next run."""
    for fault, kind in faults:
        go(person)
        person.faults(fault)
        person.wait(kind)
        person.look_on(A_WHILE)
        person.faults()
        person.look_on(0.2)


@pytest.mark.slow
def test_a_camera_the_driver_and_the_operator(tmp_path: Path) -> None:
    faults = [("black", "camera"), ("raise_observation", "robot"), ("raise_send", "robot")]

    def live(person: Person) -> None:
        run_into(person, faults)
        go(person)
        person.press(signal.SIGUSR1)
        person.wait("operator stop")
        person.look_on(A_WHILE)
        go(person)
        person.faults("pedal")
        person.wait("operator stop")
        person.look_on(A_WHILE)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    options = ["--stop", f"{FAKES}:pedal"]
    life = drive(tmp_path, policy, live, config=CONFIG.format(""), options=options)
    assert life.code == 1
    check_hold(life, "camera")
    check_hold(life, "robot", 0)
    check_hold(life, "robot", 1, parks=False, taken=False)
    assert life.events[life.kinds().index("robot")][2].startswith("the robot's observation failed")
    assert "command failed" in life.kinds()  # and tried again at every tick
    for which in range(2):
        check_hold(life, "operator stop", which, parks=False)
    stops = [detail for _, kind, detail in life.events if kind == "operator stop"]
    assert stops[0].endswith("(SIGUSR1)")
    assert stops[1].endswith("(stop hook)")
    assert life.kinds().count("resume") == 4


@pytest.mark.slow
@pytest.mark.parametrize("after", ["a fault", "a start"])
def test_cameras_that_stop_or_change(tmp_path: Path, after: str) -> None:
    """At once, or after the time that the config says; and no start while it lasts."""
    faults = [
        *(("frozen", "camera"), ("lost_camera", "robot"), ("other_size", "observation")),
        *(("other_type", "observation"), ("nan_state", "observation")),
    ]

    def live(person: Person) -> None:
        for fault, kind in faults:
            go(person)
            person.faults(fault)
            person.wait(kind)
            person.look_on(A_WHILE)
            if after == "a start":
                person.press("\n")
                person.wait("start refused")
            person.faults()
            person.look_on(0.2)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    config = CONFIG.format("frozen_camera_time = 0.4\n")
    life = drive(tmp_path, policy, live, config=config)
    which = {"camera": 0, "robot": 0, "observation": 0}
    for _, kind in faults:
        check_hold(life, kind, which[kind])
        which[kind] += 1
    assert life.kinds().count("resume") == len(faults) - 1
    assert life.kinds().count("start refused") == (len(faults) if after == "a start" else 0)


@pytest.mark.slow
def test_light_and_exchanged_cameras(tmp_path: Path) -> None:
    said = {
        "dim": "camera front: brightness",
        "swapped": "the two seem exchanged",
        "bgr": "red and blue seem exchanged",
    }

    def live(person: Person) -> None:
        for fault in said:
            go(person)
            person.faults(fault)
            person.look_on(0.25)
            person.faults()  # for a moment only, which is nothing
            person.look_on(0.3)
            person.faults(fault)
            person.wait("camera")
            person.look_on(A_WHILE)
            person.faults()
            person.look_on(0.1)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101, levels=True)
    life = drive(tmp_path, policy, live, config=CONFIG.format("odd_image_time = 0.5\n"))
    found = [detail for _, kind, detail in life.events if kind == "camera"]
    assert len(found) == len(said)
    for which, words in enumerate(said.values()):
        assert words in found[which]
        check_hold(life, "camera", which)


@pytest.mark.slow
def test_one_camera_that_is_older_than_the_other(tmp_path: Path) -> None:
    def live(person: Person) -> None:
        go(person)
        person.faults("old_wrist")
        person.wait("observation")
        person.look_on(A_WHILE)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(tmp_path, policy, live, config=CONFIG.format(""), robot="make_own")
    assert "camera wrist's image was taken 0.4" in life.error
    check_hold(life, "observation")


@pytest.mark.slow
def test_a_base_stops_whatever_the_fault(tmp_path: Path) -> None:
    """Velocities are 0 from the very tick on."""
    from tests.control.campaign.fake_policy import LEKIWI

    faults = [("black", "camera"), ("raise_observation", "robot"), ("glare", "policy")]

    def live(person: Person) -> None:
        run_into(person, faults)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", LEKIWI)
    config = CONFIG.format("").partition("[joints")[0].replace("30", "15")
    life = drive(tmp_path, policy, live, config=config)
    for _, kind in faults:
        for name in ("x.vel", "y.vel", "theta.vel"):
            before, *held = life.hold(kind)[name]
            assert before != 0
            assert set(held) == {0.0}
