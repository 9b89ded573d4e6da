"""A policy that breaks, stops answering, is late or dies in mid-run."""

from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import LIMITS, Life, Person, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy

JOINT = "shoulder_lift.pos"
EVERY = "".join(LIMITS.format(name=name) for name in SO101_NAMES)


def config(safety: str, execute_steps: int = 15) -> str:
    patient = f"max_tick_time = 5\n{safety}"
    return f"[timing]\nexecute_steps = {execute_steps}\n[safety]\n{patient}{EVERY}"


def check_rests(life: Life, kind: str, which: int = 0) -> None:
    for sent in life.hold(kind, which).values():
        assert len(sent) > 5
        assert np.ptp(sent) == 0


def go(person: Person) -> None:
    person.press("\n")
    person.wait("running")
    person.look_on(0.3)


@pytest.mark.slow
def test_it_predicts_no_number_does_not_answer_and_dies(tmp_path: Path) -> None:
    def live(person: Person) -> None:
        for fault in ("glare", "stop_policy", "kill_policy"):
            go(person)
            person.faults(fault)
            person.wait("policy")
            person.look_on(0.3)
            person.faults()
            person.look_on(0.1)
        person.press("\n")  # which a process that died does not hear
        person.wait("policy")
        person.look_on(0.3)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(tmp_path, policy, live, config=config("max_answer_time = 0.6\n"))
    assert life.code == 1
    found = [detail for _, kind, detail in life.events if kind == "policy"]
    assert "not a finite number in shoulder_pan.pos" in found[0]
    assert "the policy has not answered for 0.6" in found[1]
    assert found[2] == "the policy's process ended by signal 9"
    assert len(found) == 4
    for which in range(4):
        check_rests(life, "policy", which)
    assert np.isfinite(life.values(JOINT)).all()


@pytest.mark.slow
def test_it_has_no_action_for_too_long(tmp_path: Path) -> None:
    """Its answer is late, and not too late: the chunk of 2 s has ended, and the arm waits."""

    def live(person: Person) -> None:
        go(person)
        person.faults("stop_policy")
        person.wait("no action")
        person.wait("starved")
        person.look_on(0.3)
        person.faults()
        person.look_on(0.5)
        go(person)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    settings = config("max_answer_time = 10\nmax_starved_time = 0.6\n", 30)
    life = drive(tmp_path, policy, live, config=settings)
    rested, starved = (
        next(at for at, found, _ in life.events if found == kind)
        for kind in ("no action", "starved")
    )
    assert 0.55 < starved - rested < 1.2  # counted in ticks, which a busy machine stretches
    waits = life.values(JOINT)[(life.times() > rested) & (life.times() < starved)]
    assert np.ptp(waits) == 0
    check_rests(life, "starved")
    assert life.code == 0  # it was resumed


@pytest.mark.slow
def test_after_a_short_rest_it_goes_on_without_a_jump_and_many_add_up(tmp_path: Path) -> None:
    """Each time its answer comes a moment after the chunk of 2 s has ended."""

    def live(person: Person) -> None:
        go(person)
        for kind in ("no action", "no action", "starved"):
            person.faults("stop_policy")
            person.wait(kind)
            person.look_on(0.15)
            person.faults()
            person.look_on(0.5)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    settings = config("max_answer_time = 10\nmax_starved_time = 0.6\n", 30)
    fast = settings.replace("max_speed = 60", "max_speed = 900").replace(
        "max_step = 15", "max_step = 90"
    )
    fast = fast.replace("execute_steps", "blend_steps = 15\nexecute_steps")
    life = drive(tmp_path, policy, live, config=fast)
    begin = next(at for at, kind, _ in life.events if kind == "running")
    end = next(at for at, kind, _ in life.events if kind == "starved")
    runs = (life.times() > begin) & (life.times() < end)
    moved = np.diff(life.values(JOINT)[runs])
    assert life.kinds().count("no action") == 3
    assert life.kinds().count("starved") == 1
    # 2 a tick by the policy, more where a busy machine is late; its bare chunks would jump by 20
    assert np.abs(moved).max() < 12
    assert np.ptp(life.values(JOINT)[runs]) > 35
    check_rests(life, "starved")


@pytest.mark.slow
def test_nothing_older_than_the_age_allowed_moves_the_arm(tmp_path: Path) -> None:
    """A chunk lasts 2 s, and the next is asked for after 1 s of it."""

    def live(person: Person) -> None:
        person.press("\n")
        person.wait("stale action")
        person.look_on(0.3)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    settings = config("max_answer_time = 5\nmax_action_age = 0.4\n", 30)
    life = drive(tmp_path, policy, live, config=settings)
    running, stale = (
        next(at for at, found, _ in life.events if found == kind)
        for kind in ("running", "stale action")
    )
    assert stale - running < 0.5
    check_rests(life, "stale action")


@pytest.mark.slow
def test_it_asks_for_places_far_outside_the_demonstrations(tmp_path: Path) -> None:
    """It swings by 20 degrees, 5 were demonstrated; the owner's limits allow 90."""

    def live(person: Person) -> None:
        person.press("\n")
        person.wait("running")
        person.wait("odd action")
        person.look_on(0.3)
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101, demonstrated=5.0)
    settings = config("odd_action_time = 0.4\ntracking_time = 0\n", 30)
    life = drive(tmp_path, policy, live, config=settings)
    assert life.code == 1
    running, odd = (
        next(at for at, found, _ in life.events if found == kind)
        for kind in ("running", "odd action")
    )
    assert 0.4 < odd - running < 1.2  # beyond 10 degrees from 0.17 s to 0.83 s of each period
    check_rests(life, "odd action")
