"""Wrong encoders, stalled arms and stops on the fake SO-101, through the real command."""

from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import LIMITS, Life, drive
from tests.control.campaign.fake_policy import SO101, write_sine_policy

JOINT = "shoulder_lift.pos"
CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_answer_time = 5\nmax_tick_time = 5\n"
CONFIG += LIMITS.format(name=JOINT)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write_sine_policy(tmp_path / "policy.onnx", SO101)


def after(life: Life, kind: str) -> np.ndarray:
    """What the joint was sent from 50 ms after the first event of this kind on."""
    at = next(time for time, found, _ in life.events if found == kind)
    values: np.ndarray = life.values(JOINT)[life.times() > at + 0.05]
    return values


def test_an_encoder_that_leaps_by_57_degrees_holds_the_arm(tmp_path: Path, policy: Path) -> None:
    life = drive(tmp_path, policy, [(0.0, "\n"), (3.0, "q")], fault="leap:1.5", config=CONFIG)
    assert life.code == 1
    assert life.error.startswith("ended while holding: shoulder_lift.pos went from")
    held = after(life, "measurement leap")
    assert len(held) > 10
    assert np.ptp(held) == 0
    assert np.abs(life.values(JOINT)).max() < 21


@pytest.mark.slow
def test_an_encoder_that_leaps_in_the_soft_start(tmp_path: Path, policy: Path) -> None:
    far = CONFIG + "park = 17\n"
    keys = [(0.0, "\n"), (1.2, "p"), (4.0, "\n"), (7.0, "q")]
    life = drive(tmp_path, policy, keys, fault="leap:5.0", config=far)
    assert "measurement leap" in life.kinds()
    at = next(time for time, kind, _ in life.events if kind == "resume")
    approach = life.values(JOINT)[life.times() > at]
    assert np.abs(np.diff(approach)).max() <= 10 / 30 + 1e-3
    assert np.ptp(after(life, "measurement leap")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stalled:1.5", "frozen_joints:1.5"])
def test_an_arm_that_does_not_follow(tmp_path: Path, policy: Path, fault: str) -> None:
    life = drive(tmp_path, policy, [(0.0, "\n"), (6.0, "q")], fault=fault, config=CONFIG)
    assert life.code == 1
    at = next(time for time, kind, _ in life.events if kind == "not following")
    assert 1.5 < at < 4.5
    assert np.ptp(after(life, "not following")) == 0


@pytest.mark.parametrize(("key", "kind"), [(" ", "operator stop"), ("p", "park")])
def test_a_stop_rests_and_the_key_to_park_parks(
    tmp_path: Path, policy: Path, key: str, kind: str
) -> None:
    config = CONFIG + "park = 60\n"
    life = drive(tmp_path, policy, [(0.0, "\n"), (1.7, key), (3.2, "q")], config=config)
    held = after(life, kind)
    assert len(held) > 10
    assert np.abs(np.diff(held)).max() <= (10 / 30 + 1e-3 if key == "p" else 0)
    assert (np.ptp(held) > 5) == (key == "p")


def test_a_key_before_the_fault_does_not_resume(tmp_path: Path, policy: Path) -> None:
    config = CONFIG.replace("max_tick_time = 5", "max_tick_time = 1")
    keys = [(0.0, "\n"), (2.0, "\n"), (4.5, "q")]
    life = drive(tmp_path, policy, keys, fault="hang_send:1", config=config)
    assert life.code == 1
    assert "late tick" in life.kinds()
    assert "resume" not in life.kinds()
    assert np.ptp(after(life, "late tick")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("reads", [1, 0])
def test_one_failed_read(tmp_path: Path, policy: Path, reads: int) -> None:
    config = CONFIG.replace("max_tick_time = 5", f"max_tick_time = 5\nfailed_reads = {reads}")
    fault = "raise_observation_once:1"
    life = drive(tmp_path, policy, [(0.0, "\n"), (2.5, "q")], fault=fault, config=config)
    failed = "the robot's observation failed: ConnectionError('no status packet')"
    assert life.error == ("" if reads else f"ended while holding: {failed}\n")
    assert ("failed read" in life.kinds()) == bool(reads)


def test_a_release_that_would_never_be_called_is_refused(tmp_path: Path, policy: Path) -> None:
    life = drive(tmp_path, policy, [], config=CONFIG, options=["--release", "os:getpid"])
    assert life.code == 2
    assert life.error.startswith("error: --release os:getpid is called after safety.hold_time")
    assert life.sent == []
