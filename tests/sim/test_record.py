"""Recording: what an episode holds, any number of processes, interruption, foreign folders."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.sim import environment_id, record, recording_folder
from act_policy.sim.record import RecordingConfig, record_demonstrations, record_episode
from act_policy.sim.recording_folder import NEWER_SETTINGS, RecordingFolder
from tests.paths import ROOT
from tests.scripts_for_tests import call_script

SCRIPT = ROOT / "scripts" / "record_demos.py"
SETTINGS = RecordingConfig(
    environment=environment_id("button-press-topdown"),
    cameras={"topview": (12, 16)},
    max_steps=100,
    tail=3,
)


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def scripted_outcomes(monkeypatch):
    """Recording without a simulator, in this process; some seeds fail, some interrupt."""

    def outcomes(failing, stop_after=10**9):
        calls = []

        def run_jobs(make_handler, jobs, workers, stuck_seconds, on_result):
            waiting = list(jobs)
            while waiting:
                # as if the processes finished out of order
                seed = waiting.pop() if len(calls) % 3 else waiting.pop(0)
                if len(calls) >= stop_after:
                    raise KeyboardInterrupt
                calls.append(seed)
                if seed not in failing:
                    path = make_handler.args[1] / f"{seed}.hdf5"
                    with h5py.File(path, "w") as file:
                        file.attrs["seed"] = seed
                waiting += on_result(seed, seed not in failing)

        monkeypatch.setattr(record, "run_jobs", run_jobs)
        return calls

    monkeypatch.setattr(record, "choose_gl_backend", lambda: "none")
    return outcomes


def seeds(folder):
    found = []
    for path in sorted(folder.glob("episode_*.hdf5")):
        with h5py.File(path) as file:
            found.append(int(file.attrs["seed"]))
    return found


def test_an_episode_holds_what_was_seen_and_what_the_expert_did(make, tmp_path):
    environment = make(cameras=SETTINGS.cameras)
    path = tmp_path / "episode_000000.hdf5"
    assert record_episode(environment, SETTINGS, 3, path)
    dataset = open_dataset(tmp_path)
    assert dataset.schema == environment.schema
    assert [(e.seed, e.outcome) for e in dataset.episodes] == [(3, True)]
    with h5py.File(path) as file:
        assert json.loads(file.attrs["settings"]) == SETTINGS.to_dict()
    states, actions = dataset.state(0), dataset.action(0)
    assert np.abs(actions).max() <= 1
    observation, _ = environment.reset(seed=3)
    successes = []
    for step, action in enumerate(actions):
        np.testing.assert_array_equal(states[step], observation["agent_pos"])
        np.testing.assert_array_equal(
            dataset.frame(0, step, "topview"), observation["pixels"]["topview"]
        )
        observation, *_, info = environment.step(action)
        successes.append(info["success"])
    assert successes == [False] * (len(actions) - 4) + [True] * 4  # the success and its tail


def test_noise_disturbs_the_movement_but_not_the_stored_action(make, tmp_path):
    environment = make(cameras=SETTINGS.cameras)
    noisy = RecordingConfig(SETTINGS.environment, SETTINGS.cameras, noise=0.5, tail=0)
    for name in ("first", "again"):
        assert record_episode(environment, noisy, 3, tmp_path / name / "episode_000000.hdf5")
    assert len(set(digests(tmp_path).values())) == 1  # the noise too follows from the seed
    states = open_dataset(tmp_path / "first").state(0)
    actions = open_dataset(tmp_path / "first").action(0)
    environment.reset(seed=3)
    replayed = [environment.step(action)[0]["agent_pos"] for action in actions[:-1]]
    assert np.abs(replayed - states[1:])[:, :3].max() > 2e-3
    # all actions are the expert's own: at the start its gripper closes and it goes forward in full
    np.testing.assert_array_equal(actions[:10, 1], np.ones(10))


def test_a_failure_is_neither_written_nor_drawn(make, tmp_path):
    environment = make(cameras=SETTINGS.cameras)
    short = RecordingConfig(SETTINGS.environment, SETTINGS.cameras, max_steps=20)
    assert not record_episode(environment, short, 0, tmp_path / "episode.hdf5")
    assert list(tmp_path.iterdir()) == []
    assert environment.frame_count == 0


def test_failed_episodes_are_skipped_and_numbers_have_no_gap(scripted_outcomes, tmp_path):
    calls = scripted_outcomes(failing={1, 2, 6})
    record_demonstrations(SETTINGS, 5, tmp_path, 2)
    assert seeds(tmp_path) == [0, 3, 4, 5, 7]
    assert sorted(calls) == list(range(8))
    assert json.loads((tmp_path / "recording.json").read_text())["failed_seeds"] == [1, 2, 6]
    names = [f"episode_{number:06d}.hdf5" for number in range(5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "recording.json"]


@pytest.mark.parametrize("stop", range(1, 8))
def test_an_interrupted_recording_goes_on_where_it_was(scripted_outcomes, tmp_path, stop, capsys):
    before = scripted_outcomes({1, 2, 6}, stop)
    with pytest.raises(KeyboardInterrupt):
        record_demonstrations(SETTINGS, 5, tmp_path, 2)
    kept = len(set(before) - {1, 2, 6})
    assert f"{kept} of 5 episodes are kept; the same command goes on" in capsys.readouterr().out
    after = scripted_outcomes({1, 2, 6})
    record_demonstrations(SETTINGS, 5, tmp_path, 2)
    assert seeds(tmp_path) == [0, 3, 4, 5, 7]
    assert sorted(before + after) == list(range(8))  # none twice
    assert not (tmp_path / ".unfinished").exists()


def test_more_episodes_can_be_added_and_a_removed_one_is_recorded_again(
    scripted_outcomes, tmp_path
):
    scripted_outcomes({1})
    record_demonstrations(SETTINGS, 3, tmp_path, 1)
    (tmp_path / "episode_000001.hdf5").unlink()
    calls = scripted_outcomes({1})
    record_demonstrations(SETTINGS, 4, tmp_path, 1)
    assert sorted(calls) == [2, 4]
    assert seeds(tmp_path) == [0, 2, 3, 4]
    calls.clear()
    record_demonstrations(SETTINGS, 4, tmp_path, 1)
    assert calls == []


def test_a_folder_of_other_settings_is_refused_and_untouched(scripted_outcomes, tmp_path):
    scripted_outcomes(set())
    record_demonstrations(SETTINGS, 2, tmp_path, 1)
    before = digests(tmp_path)
    other = RecordingConfig(
        SETTINGS.environment, {"corner2": (12, 16)}, max_steps=100, noise=0.1, tail=3
    )
    with pytest.raises(UserError, match=r"cameras \{'topview'.*noise 0.0 there, 0.1 here"):
        record_demonstrations(other, 2, tmp_path, 1)
    with pytest.raises(UserError, match="2 episodes, more than episodes=1"):
        record_demonstrations(SETTINGS, 1, tmp_path, 1)
    assert digests(tmp_path) == before
    (tmp_path / "recording.json").unlink()
    with pytest.raises(UserError, match="2 episodes of another origin"):
        record_demonstrations(SETTINGS, 2, tmp_path, 1)


def test_a_folder_of_an_earlier_version_is_continued(scripted_outcomes, tmp_path):
    calls = scripted_outcomes(set())
    record_demonstrations(SETTINGS, 1, tmp_path, 1)
    file = tmp_path / "recording.json"
    saved = json.loads(file.read_text())
    for name in NEWER_SETTINGS:
        del saved["settings"][name]
    file.write_text(json.dumps(saved))
    record_demonstrations(SETTINGS, 2, tmp_path, 1)
    assert calls == [0, 1]


def test_a_recording_that_never_began_leaves_the_folder_free(
    scripted_outcomes, tmp_path, monkeypatch
):
    def refuse(*arguments):
        raise UserError("camera nose is unknown")

    monkeypatch.setattr(record, "run_jobs", refuse)
    wrong = RecordingConfig(SETTINGS.environment, {"nose": (12, 16)})
    with pytest.raises(UserError, match="nose"):
        record_demonstrations(wrong, 1, tmp_path, 1)
    assert list(tmp_path.iterdir()) == []
    wrong_file = {"settings": wrong.to_dict(), "failed_seeds": []}
    (tmp_path / "recording.json").write_text(json.dumps(wrong_file))  # of a killed recording
    scripted_outcomes(set())
    record_demonstrations(SETTINGS, 1, tmp_path, 1)
    assert seeds(tmp_path) == [0]


def test_a_broken_episode_in_the_folder_is_named(scripted_outcomes, tmp_path):
    scripted_outcomes(set())
    record_demonstrations(SETTINGS, 2, tmp_path, 1)
    (tmp_path / "episode_000001.hdf5").write_bytes(b"half")
    with pytest.raises(UserError, match=r"episode_000001\.hdf5: not an episode of this recording"):
        record_demonstrations(SETTINGS, 2, tmp_path, 1)


def test_a_step_holds_a_velocity_where_the_original_act_reads_it(make, tmp_path):
    path = tmp_path / "episode_000000.hdf5"
    assert record_episode(make(cameras=SETTINGS.cameras), SETTINGS, 3, path)
    with h5py.File(path) as file:
        state, velocity = file["observations/qpos"][()], file["observations/qvel"][()]
    assert velocity.shape == state.shape
    assert np.abs(velocity[1:, :3]).max() > 0.1  # metres a second


def test_two_recordings_do_not_share_a_folder(scripted_outcomes, tmp_path):
    scripted_outcomes(set())
    folder = RecordingFolder(tmp_path, SETTINGS.to_dict())
    with folder.locked(), pytest.raises(UserError, match="another recording is at work"):
        record_demonstrations(SETTINGS, 2, tmp_path, 1)


def test_an_expert_that_only_fails_is_given_up(scripted_outcomes, tmp_path):
    scripted_outcomes(set(range(1000)))
    with pytest.raises(UserError, match="the teacher failed 21 of 21 initial states; is max_steps"):
        record_demonstrations(SETTINGS, 2, tmp_path, 1)


def test_a_full_disk_is_said_and_harms_no_episode(scripted_outcomes, tmp_path, monkeypatch):
    scripted_outcomes(set())
    record_demonstrations(SETTINGS, 2, tmp_path, 1)
    before = digests(tmp_path)

    def full(path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(recording_folder, "atomic_file", full)
        with pytest.raises(UserError, match=r"recording\.json: could not be written \(No space"):
            record_demonstrations(SETTINGS, 3, tmp_path, 1)
    assert digests(tmp_path) == before
    record_demonstrations(SETTINGS, 3, tmp_path, 1)
    assert seeds(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes=0"),
        ({"workers": 0}, "workers=0"),
        ({"workers": "many"}, "workers=many"),
    ],
)
def test_impossible_numbers_are_refused(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        record_demonstrations(
            SETTINGS, **{"episodes": 1, "out": tmp_path / "out", "workers": 1, **options}
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("noise", -0.1),
        ("timing_noise", -0.1),
        ("pose_noise", float("inf")),
        ("tail", -1),
        ("max_steps", 0),
        ("environment", "x"),
        ("quality", "finest"),
        ("cameras", {}),
        ("camera topview", {"topview": [84]}),
        ("camera topview", {"topview": [84, 0]}),
    ],
)
def test_impossible_settings_are_refused(field, value):
    keyword = "cameras" if field.startswith("camera") else field
    with pytest.raises(UserError, match=f"{field}[=: ]"):
        RecordingConfig(**{**SETTINGS.to_dict(), keyword: value})


def command(out: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        str(SCRIPT),
        "task=metaworld/button-press-topdown",
        "cameras={topview:[12,16]}",
        "tail=3",
        f"out={out}",
        *more,
    ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("cameras=[84,84]", "cameras=[84, 84]: expected {name: [height, width]}"),
        ("cameras={topview:84}", "camera topview: size 84; expected [height, width]"),
        ("episodes=null", "episodes=null: expected"),
    ],
)
def test_the_script_says_what_it_expected(tmp_path, argument, message):
    given = [word for word in command(tmp_path / "out")[2:] if not word.startswith("cameras")]
    done = call_script(SCRIPT, *given, argument)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_files_are_the_same_for_any_number_of_processes_and_after_a_kill(tmp_path):
    """SIGKILL at a random moment loses no finished episode; the same command finishes the work."""
    one, killed = tmp_path / "one", tmp_path / "killed"
    subprocess.run(command(one, "episodes=4", "workers=1"), check=True, capture_output=True)

    victim = subprocess.Popen(
        command(killed, "episodes=4", "workers=2"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(killed.rglob("*.hdf5")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    finished = {path: path.stat() for path in killed.rglob("*.hdf5")}
    assert 1 <= len(finished) < 4
    subprocess.run(command(killed, "episodes=4", "workers=2"), check=True, capture_output=True)
    assert digests(killed) == digests(one)
    kept = {stat.st_ino for stat in finished.values()}
    assert kept <= {path.stat().st_ino for path in killed.glob("*.hdf5")}  # not recorded again

    refused = subprocess.run(
        command(killed, "episodes=4", "tail=5"), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "tail 3 there, 5 here" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert digests(killed) == digests(one)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 3, 6, 12])
def test_ctrl_c_at_any_moment_ends_quietly(tmp_path, seconds):
    recording = subprocess.Popen(
        command(tmp_path / "out", "episodes=40", "workers=2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(seconds)
    os.killpg(recording.pid, signal.SIGINT)  # a terminal sends it to the whole group
    _, errors = recording.communicate(timeout=60)
    assert recording.returncode in (130, -signal.SIGINT)
    if recording.returncode == 130:
        assert "Traceback" not in errors
