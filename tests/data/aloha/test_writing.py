"""An episode is whole or absent: wrong arrays, full disks, killed writers."""

import errno
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.system.atomic import atomic_file, remove_partial_files
from tests.data.episodes_for_tests import make_arrays, make_schema

WRITER = """
import sys
import numpy as np
from act_policy.data.aloha.episode import write_episode
from act_policy.types import Camera, Schema

schema = Schema((Camera("top", 64, 64),), ("x",), ("m",), ("x",), ("m",), 10.0)
for number in range(10_000):
    images = {"top": np.full((60, 64, 64, 3), number % 256, np.uint8)}
    vector = np.full((60, 1), number, np.float32)
    write_episode(f"{sys.argv[1]}/episode_{number:06d}.hdf5", schema, images, vector, vector)
    print(number, flush=True)
"""


def partial_files(folder):
    return list(folder.glob(".*.partial"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": np.zeros((4, 2))}, r"state has shape \(4, 2\), expected \(4, 3\)"),
        ({"action": np.zeros((3, 3))}, r"action has shape \(3, 3\), expected \(4, 3\)"),
        ({"action": np.full((4, 3), np.nan)}, "action j0 at step 0 is not a finite number"),
        ({"velocity": np.zeros((4, 1))}, "velocity has shape"),
        ({"images": {}}, r"has cameras \['top'\], found images of \[\]"),
        ({"images": {"top": np.zeros((4, 6, 8, 3))}}, "camera top has float64"),
        ({"images": {"top": np.zeros((4, 8, 6, 3), np.uint8)}}, r"expected uint8 \(4, 6, 8, 3\)"),
        ({"state": np.zeros((0, 3))}, "no step"),
    ],
)
def test_arrays_that_do_not_fit_the_schema_are_refused(tmp_path, change, message):
    schema = make_schema()
    with pytest.raises(UserError, match=message):
        write_episode(tmp_path / "e.hdf5", schema, **make_arrays(schema, 4, 0) | change)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_gives_one_message_and_keeps_earlier_episodes(make_folder, monkeypatch):
    folder = make_folder([3, 4])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    schema = make_schema()
    for name in ("episode_000001.hdf5", "episode_000002.hdf5"):
        with pytest.raises(UserError, match=rf"{name}: .*No space left on device"):
            write_episode(folder / name, schema, **make_arrays(schema, 9, 5))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_that_exceeds_the_size_limit_leaves_nothing(tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    result = subprocess.run(
        [sys.executable, "-c", limit + WRITER, str(tmp_path)], capture_output=True, text=True
    )
    assert "UserError" in result.stderr
    assert "episode_000000.hdf5: the episode could not be written" in result.stderr
    assert "Segmentation" not in result.stderr
    assert result.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_kill_at_any_moment_loses_no_finished_episode(tmp_path):
    rng = np.random.default_rng(0)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            try:
                writer.stdout.readline()
                time.sleep(rng.uniform(0, 0.05))
            finally:
                writer.kill()
            finished = 1 + len(writer.stdout.read().splitlines())
        dataset = open_dataset(folder)
        assert len(dataset.episodes) in (finished, finished + 1)
        for episode in range(len(dataset.episodes)):
            assert (dataset.state(episode) == episode).all()
            assert (dataset.frame(episode, 59, "top") == episode % 256).all()


def test_files_of_a_killed_writer_are_removed_by_the_next_and_never_read(tmp_path):
    stuck = "import os, time; os.fsync = lambda _: (print('writing', flush=True), time.sleep(60))\n"
    with subprocess.Popen(
        [sys.executable, "-c", stuck + WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        try:
            writer.stdout.readline()
            assert len(partial_files(tmp_path)) == 1
            remove_partial_files(tmp_path)
            assert len(partial_files(tmp_path)) == 1, "a living writer's file must stay"
        finally:
            writer.kill()
    with pytest.raises(UserError, match="holds no episode"):
        open_dataset(tmp_path)
    schema = make_schema()
    write_episode(tmp_path / "episode_000000.hdf5", schema, **make_arrays(schema, 2, 0))
    assert [path.name for path in tmp_path.iterdir()] == ["episode_000000.hdf5"]


def test_an_error_in_the_body_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with atomic_file(path) as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert partial_files(tmp_path) == []


def test_a_slash_in_the_name_of_a_camera_is_part_of_the_name(tmp_path):
    schema = make_schema({"wrist/left": (6, 8), "wrist/right": (6, 8), "top": (6, 8)})
    arrays = make_arrays(schema, 4, 0)
    write_episode(tmp_path / "episode_0.hdf5", schema, **arrays)
    dataset = open_dataset(tmp_path)
    assert dataset.schema == schema
    for camera in schema.camera_names:
        np.testing.assert_array_equal(dataset.frame(0, 3, camera), arrays["images"][camera][3])
