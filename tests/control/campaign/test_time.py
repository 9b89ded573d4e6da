"""Time on a fake robot: slow loops, cached frames, other clocks, and recordings of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from tests.control.campaign.drive import drive
from tests.control.campaign.fake_policy import SO101, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n"
PATIENT = CONFIG + "[safety]\nmax_tick_time = 5\n"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sine_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", SO101)


def test_a_loop_that_slows_down_is_held_and_recorded_as_long_as_it_was(
    tmp_path: Path, policy: Path
) -> None:
    folder = tmp_path / "recorded"
    options = ["--record", str(folder), "--task", "swing"]
    keys = [(0.0, "\n"), (4.0, "q")]
    config = CONFIG + "[safety]\nslowest_rate = 0.8\nmax_tick_time = 5\n"  # it falls to 12 of 30
    life = drive(tmp_path, policy, keys, fault="slow:1", config=config, options=options)
    assert life.code == 1
    assert "slow loop" in life.kinds()
    at = next(time for time, kind, _ in life.events if kind == "slow loop")
    held = life.values("shoulder_lift.pos")[life.times() > at]
    assert np.ptp(held) == 0
    dataset = open_dataset(folder)
    (episode,) = dataset.episodes
    assert (episode.ended, episode.instruction) == ("slow loop", "swing")
    times = dataset.timestamps(0)
    assert times is not None
    np.testing.assert_allclose(times, np.arange(len(times)) / SO101.rate, atol=0.15)


@pytest.mark.parametrize(
    ("fault", "robot", "problem"),
    [
        ("slow_camera:0", "make", "new images a second"),
        ("future:0", "make_own", "in the future"),
        pytest.param("wall_clock:0", "make_own", "the loop's clock", marks=pytest.mark.slow),
        pytest.param("old:0", "make_own", "expected at most 0.30 s", marks=pytest.mark.slow),
    ],
)
def test_check_refuses_old_images_and_other_clocks(
    tmp_path: Path, policy: Path, fault: str, robot: str, problem: str
) -> None:
    life = drive(
        tmp_path, policy, [], command="check", fault=fault, robot=robot, options=["--seconds", "1"]
    )
    assert life.code == 2
    assert problem in life.output
    assert life.sent == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "robot", "kind"),
    [
        ("slow_camera:2", "make", "camera"),
        ("wall_clock:2", "make_own", "observation"),
        ("future:2", "make_own", "observation"),
        ("old:2", "make_own", "observation"),
    ],
)
def test_run_holds_when_images_grow_old(
    tmp_path: Path, policy: Path, fault: str, robot: str, kind: str
) -> None:
    life = drive(
        tmp_path, policy, [(0.0, "\n"), (6.0, "q")], fault=fault, robot=robot, config=PATIENT
    )
    assert life.code == 1
    assert kind in life.kinds()
    at = next(time for time, found, _ in life.events if found == kind)
    assert at < 5.0
    assert np.ptp(life.values("shoulder_lift.pos")[life.times() > at]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "robot", "said"),
    [
        ("slow_camera:0", "make", "new images a second"),
        ("wall_clock:0", "make_own", "the loop's clock"),
    ],
)
def test_shadow_says_what_would_be_a_fault(
    tmp_path: Path, policy: Path, fault: str, robot: str, said: str
) -> None:
    life = drive(
        tmp_path,
        policy,
        [],
        command="shadow",
        fault=fault,
        robot=robot,
        options=["--seconds", "3"],
    )
    assert life.code == 0
    assert "would have been a fault" in life.output
    assert said in life.output
    assert life.sent == []


def test_recording_among_another_schema_is_refused_before_anything_moves(
    tmp_path: Path, policy: Path
) -> None:
    folder = tmp_path / "recorded"
    other = replace(SO101, rate=10.0)
    images = {c.name: np.zeros((2, c.height, c.width, 3), np.uint8) for c in other.cameras}
    state = np.zeros((2, other.state_size), np.float32)
    write_episode(folder / "episode_000000.hdf5", other, images, state, state)
    options = ["--record", str(folder)]
    life = drive(tmp_path, policy, [], config=CONFIG, options=options)
    assert life.code == 2
    assert "has another schema than this run: rate" in life.error
    assert life.sent == []
