"""Runs as demonstrations, with the steps in which a person acted."""

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.control.commands.command_line import main
from act_policy.control.recording.journal import JournalWriter
from act_policy.control.recording.recording import EpisodeRecorder, Recorded, recover, steps_at_rate
from act_policy.control.safety.supervisor import Mode
from act_policy.data.open import open_dataset
from act_policy.types import Camera
from tests.control.loop_for_tests import SCHEMA, Bench


class LeaderArm:
    def __init__(self) -> None:
        self.shoulder = 0.4

    def get_action(self) -> Mapping[str, float]:
        return {"shoulder": self.shoulder, "gripper": 0.5, "base": 0.0}


def test_the_operator_takes_over_and_hands_back_and_it_is_recorded(tmp_path: Path) -> None:
    leader = LeaderArm()
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {"policy": "p.onnx"})
    bench = Bench(device=leader, recorder=recorder)
    bench.start(5)
    bench.operator.key("t")
    sent = [command["shoulder"] for command in bench.run(20)]
    assert sent[0] == pytest.approx(0.22)  # slowly, as at the start
    assert sent[-1] == pytest.approx(0.4)
    leader.shoulder = 0.41
    assert bench.run(2)[-1]["shoulder"] == pytest.approx(0.41)
    bench.operator.key("t")
    bench.run(5)
    bench.operator.key(" ")
    bench.run(3)
    bench.start(6)
    first, second = (episode.path for episode in recorder.write())
    dataset = open_dataset(tmp_path)
    assert dataset.schema == SCHEMA
    assert list(dataset.lengths) == [5 + 20 + 2 + 5, 6]
    with h5py.File(first) as file:
        assert list(file["operator"][()]) == [False] * 5 + [True] * 22 + [False] * 5
    sent = [[c[name] for name in SCHEMA.action_names] for c in bench.arm.sent[:32]]
    np.testing.assert_allclose(dataset.action(0), np.array(sent, np.float32))
    assert second.name == "episode_000001.hdf5"
    assert EpisodeRecorder(tmp_path, SCHEMA, {}).write() == []


def test_a_recording_says_why_it_ended_and_what_it_was_for(tmp_path: Path) -> None:
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {}, instruction="close the drawer")
    bench = Bench(recorder=recorder)
    bench.start(8)
    bench.operator.key(" ")
    bench.run(3)
    bench.start(8)
    bench.arm.cameras = ["front"]
    bench.run(3)
    bench.arm.cameras = ["front", "wrist"]
    bench.run(3)
    bench.start(8)
    bench.loop.hold(bench.clock.now)
    recorder.write()
    episodes = open_dataset(tmp_path).episodes
    assert [episode.ended for episode in episodes] == ["operator stop", "observation", "end"]
    assert {episode.instruction for episode in episodes} == {"close the drawer"}


def test_a_recording_has_true_times_and_the_rate_that_it_says(tmp_path: Path) -> None:
    """A loop at 7 turns a second of 10 asked: the motion takes as long in the file as it took."""
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {})
    bench = Bench(
        lambda observation: np.tile([observation.state[0], 0.5, 0.3], (10, 1)),
        recorder=recorder,
        config={"safety": {"slowest_rate": 0}},
    )
    bench.start(1)
    begun = bench.clock.now
    for turn in range(70):
        bench.clock.now = begun + turn / 7
        bench.loop.tick(bench.clock.now, bench.operator)
    (episode,) = recorder.write()
    dataset = open_dataset(tmp_path)
    assert episode.steps == dataset.lengths[0] == pytest.approx(100, abs=3)
    assert episode.moved == pytest.approx(30, abs=3)
    times = dataset.timestamps(0)
    assert times is not None
    np.testing.assert_allclose(times, np.arange(len(times)) / 10, atol=0.5 / 7 + 1e-6)
    assert set(np.round(np.diff(times), 3)) <= {0.0, 0.143, 0.1}


@pytest.mark.parametrize("scale", [1.0, 1.01, 0.5, 1.5, 3.0])
def test_steps_are_put_on_an_even_rate(scale: float) -> None:
    random = np.random.default_rng(0)
    captured = 50 + np.arange(60) * scale / 30 + random.uniform(-0.3, 0.3, 60) / 30 * min(1, scale)
    rows = steps_at_rate(captured, 30.0)
    if scale == 1.0:
        np.testing.assert_array_equal(rows, np.arange(60))
    moments = np.arange(len(rows)) / 30
    nearest = np.abs((captured - captured[0])[:, None] - moments).min(axis=0)
    np.testing.assert_allclose(np.abs(captured[rows] - captured[0] - moments), nearest)
    assert (len(rows) - 1) / 30 == pytest.approx(captured[-1] - captured[0], abs=0.5 / 30 + 1e-9)
    np.testing.assert_array_equal(steps_at_rate(captured[:1], 30.0), [0])


def test_a_folder_of_another_schema_is_refused(tmp_path: Path) -> None:
    left_behind(tmp_path)
    recover(tmp_path)
    EpisodeRecorder(tmp_path, SCHEMA, {}).close()
    for other in (replace(SCHEMA, rate=20.0), replace(SCHEMA, state_names=("elbow", "gripper"))):
        with pytest.raises(UserError, match=r"episode_000000\.hdf5 has another schema"):
            EpisodeRecorder(tmp_path, other, {})
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").touch()
    with pytest.raises(UserError, match="is a LeRobotDataset"):
        EpisodeRecorder(tmp_path, SCHEMA, {})


def test_images_of_the_cameras_own_size_are_kept_on_request(tmp_path: Path) -> None:
    own = replace(SCHEMA, cameras=tuple(Camera(c.name, 8, 12) for c in SCHEMA.cameras))
    recorder = EpisodeRecorder(tmp_path, own, {}, own_size=True)
    bench = Bench(recorder=recorder)
    scaled = tuple(replace(c, source_size=(8, 12)) for c in SCHEMA.cameras)
    bench.loop._contract.schema = replace(SCHEMA, cameras=scaled)
    taken: list[np.ndarray] = []

    def large(image: np.ndarray) -> np.ndarray:
        taken.append(np.repeat(np.repeat(image, 2, 0), 2, 1))
        return taken[-1]

    bench.arm.change = large
    bench.start(6)
    assert bench.supervisor.mode is Mode.RUNNING
    bench.arm.change = lambda image: image  # of another size now
    bench.run(3)
    assert bench.supervisor.mode is Mode.RUNNING
    assert "camera front sends (4, 6, 3)" in recorder.problem
    recorder.write()
    dataset = open_dataset(tmp_path)
    assert dataset.schema == own
    np.testing.assert_array_equal(dataset.frame(0, 2, "wrist"), taken[5])


def test_a_journal_of_another_version_is_kept_and_named(tmp_path: Path) -> None:
    journal = left_behind(tmp_path)
    content = journal.read_bytes().replace(b'"version": 3', b'"version": 2')
    journal.write_bytes(content)
    with pytest.raises(UserError, match="another version of act_policy"):
        recover(tmp_path)
    assert journal.read_bytes() == content


def test_a_device_that_fails_is_held_with_its_reason() -> None:
    class Unplugged:
        def get_action(self) -> Mapping[str, float]:
            raise TimeoutError

    bench = Bench(device=Unplugged())
    bench.start(5)
    bench.operator.key("t")
    bench.run(2)
    assert bench.supervisor.mode is Mode.HOLDING
    assert bench.supervisor.reason == "TimeoutError()"


def test_an_arm_that_lags_behind_is_handed_over_without_a_jerk() -> None:
    bench = Bench(device=LeaderArm())
    bench.start(5)
    bench.arm.send_action = lambda action: bench.arm.sent.append(dict(action))  # type: ignore[method-assign]
    bench.arm.joints["shoulder"] = 0.1  # its last command was 0.2
    bench.operator.key("t")
    assert bench.run(1)[0]["shoulder"] == pytest.approx(0.22)


def test_a_long_stretch_goes_on_as_another_episode(tmp_path: Path) -> None:
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {}, most_bytes=800)  # 193 a step
    bench = Bench(recorder=recorder)
    bench.start(10)
    assert [episode.path.name for episode in recorder.write()] == [
        f"episode_00000{i}.hdf5" for i in range(3)
    ]
    assert list(open_dataset(tmp_path).lengths) == [4, 4, 2]


def test_a_full_disk_stops_the_recording_and_not_the_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, written = JournalWriter._put, []

    def nearly_full(writer: JournalWriter, content: memoryview) -> None:
        if len(written) == 3:  # the head and two steps
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(len(content))
        put(writer, content)

    monkeypatch.setattr(JournalWriter, "_put", nearly_full)
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {})
    bench = Bench(recorder=recorder)
    bench.start(4)
    for _ in range(200):
        bench.run(1)
        if recorder.problem:
            break
        time.sleep(0.01)
    bench.run(3)
    assert recorder.problem == "No space left on device: the rest is not recorded"
    assert bench.events.counts["recording"] == 1
    assert bench.supervisor.mode is Mode.RUNNING
    assert len(recorder.write()) == 1
    assert list(open_dataset(tmp_path).lengths) == [2]


def test_a_disk_that_stands_still_never_holds_up_the_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    put = JournalWriter._put

    def slow(writer: JournalWriter, content: memoryview) -> None:
        goes_on.wait(30)
        put(writer, content)

    monkeypatch.setattr(JournalWriter, "_put", slow)
    writer = JournalWriter(tmp_path, SCHEMA, {}, most_waiting=5 * 193)
    for step in range(20):
        writer.add(*a_step(step))
    assert writer.problem == "the disk is too slow: the rest is not recorded"
    goes_on.set()
    writer.close()
    (episode,) = recover(tmp_path)
    assert episode.steps in (5, 6)


def test_no_step_waits_in_memory_for_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill would lose it there."""
    syncing, goes_on = threading.Event(), threading.Event()

    def stand_still(descriptor: int) -> None:
        syncing.set()
        assert goes_on.wait(30)

    monkeypatch.setattr(os, "fsync", stand_still)
    monkeypatch.setattr("act_policy.control.recording.journal.SYNC_TIME", 0.01)
    writer = JournalWriter(tmp_path, SCHEMA, {})
    writer.add(*a_step(0))
    assert syncing.wait(30)
    before = writer.paths[0].stat().st_size
    for step in range(1, 20):
        writer.add(*a_step(step))
    for _ in range(1000):
        if (written := writer.paths[0].stat().st_size - before) >= 19 * 193:
            break
        time.sleep(0.01)
    goes_on.set()
    writer.close()
    assert written == 19 * 193
    assert recover(tmp_path) == [Recorded(tmp_path / "episode_000000.hdf5", 20)]


def test_a_sync_that_fails_stops_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr("act_policy.control.recording.journal.SYNC_TIME", 0.01)
    writer = JournalWriter(tmp_path, SCHEMA, {})
    for step in range(1000):
        writer.add(*a_step(step))
        if writer.problem:
            break
        time.sleep(0.01)
    writer.close()
    assert writer.problem == "Input/output error: the rest is not recorded"


def a_step(number: int) -> tuple[Observation[np.ndarray], np.ndarray, bool, float]:
    """Values that tell the number, at the schema's rate."""
    images = {name: np.full((4, 6, 3), number % 256, np.uint8) for name in SCHEMA.camera_names}
    state = np.full(SCHEMA.state_size, number, np.float32)
    return (
        Observation(images, state),
        np.full(SCHEMA.action_size, number + 0.5),
        number % 3 == 0,
        5 + number / 10,
    )


def record_until_killed(folder: str) -> None:
    recorder = EpisodeRecorder(folder, SCHEMA, {"policy": "p.onnx"})
    for number in range(100_000):
        recorder.add(*a_step(number))
        time.sleep(0.002)
        print(number, flush=True)


def test_a_killed_process_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = (
        "import sys, pathlib\n"
        "from tests.control.recording.test_recording import record_until_killed\n"
        "record_until_killed(pathlib.Path(sys.argv[1]))"
    )
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", run, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if int(line) == 50:
                    break
            assert recover(tmp_path) == []  # its writer lives
        finally:
            process.kill()
        last = int(([line, *process.stdout.read().split()])[-1])
    (journal,) = tmp_path.iterdir()
    size = journal.stat().st_size
    with journal.open("ab") as file:
        file.write(b"half a step")  # as a kill amid a write leaves
    assert main(["recover", str(tmp_path)]) == 0
    steps = open_dataset(tmp_path).lengths[0]
    assert steps >= last - 1  # at most what the thread was about to write
    assert f"recovered {tmp_path}/episode_000000.hdf5: {steps} steps" in capsys.readouterr().out
    assert size > steps * 193
    with h5py.File(tmp_path / "episode_000000.hdf5") as file:
        for camera in SCHEMA.camera_names:
            images = file[f"observations/images/{camera}"][()]
            assert (images == (np.arange(steps) % 256)[:, None, None, None]).all()
        np.testing.assert_array_equal(file["observations/qpos"][:, 0], np.arange(steps))
        np.testing.assert_array_equal(file["action"][:, 0], np.arange(steps) + 0.5)
        np.testing.assert_array_equal(file["operator"][()], np.arange(steps) % 3 == 0)
    assert [path.name for path in tmp_path.iterdir()] == ["episode_000000.hdf5"]


def left_behind(folder: Path, first: int = 0) -> Path:
    """A journal of five steps whose process is gone."""
    writer = JournalWriter(folder, SCHEMA, {})
    for step in range(5):
        writer.add(*a_step(first + step))
    writer.close()
    return writer.paths[0]


def test_the_next_run_recovers_up_to_a_damaged_step(tmp_path: Path) -> None:
    content = bytearray(left_behind(tmp_path).read_bytes())
    content[-193 - 80] ^= 1  # in the fourth of five
    (tmp_path / "episode_000000.journal").write_bytes(content)
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {})
    assert recorder.recovered == [Recorded(tmp_path / "episode_000000.hdf5", 3)]
    assert recorder.write() == []


def test_a_kill_between_episode_and_removal_makes_no_second_one(tmp_path: Path) -> None:
    journal = left_behind(tmp_path)
    content = journal.read_bytes()
    recover(tmp_path)
    journal.write_bytes(content)
    assert recover(tmp_path) == [Recorded(tmp_path / "episode_000000.hdf5", 5)]
    assert len(list(tmp_path.iterdir())) == 1
    left_behind(tmp_path, 7).rename(journal)  # another episode has taken the number
    assert recover(tmp_path) == [Recorded(tmp_path / "episode_000001.hdf5", 5)]


def test_an_empty_journal_goes_and_a_stranger_is_named(tmp_path: Path) -> None:
    (tmp_path / "episode_000000.journal").touch()
    assert recover(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "diary.journal").write_text("dear diary\n")
    with pytest.raises(UserError, match=r"diary\.journal: is not a journal of a recording"):
        recover(tmp_path)
