"""Every conversion of sixty episodes with three cameras, spread over several files."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from act_policy.types import Camera, Schema
from tests.data.lerobot_for_tests import number_of, numbered_frame, write_lerobot
from tests.paths import ROOT

pytestmark = pytest.mark.slow
SCRIPT = ROOT / "scripts" / "convert_dataset.py"
CAMERAS = ("top", "left", "right")
LENGTHS = tuple(5 + int(n) for n in np.random.default_rng(0).integers(0, 12, 60))
SMALL = ("data_file_mb=0.02", "video_file_mb=0.015", "files_per_chunk=3", "codec=h264", "group=6")


def shown(camera: str, index: int) -> int:
    return index + 4096 * CAMERAS.index(camera)


def write_hdf5(folder: Path) -> None:
    joints = tuple(f"joint_{i}" for i in range(14))
    schema = Schema(
        tuple(Camera(name, 48, 64) for name in CAMERAS),
        *(joints, ("rad",) * 14) * 2,  # type: ignore[arg-type]
        rate=50.0,
    )
    index = 0
    for episode, steps in enumerate(LENGTHS):
        rng = np.random.default_rng(episode)
        images = {
            camera: np.stack([numbered_frame(shown(camera, index + step)) for step in range(steps)])
            for camera in CAMERAS
        }
        state, action, velocity, effort = rng.normal(size=(4, steps, 14))
        write_episode(
            folder / f"episode_{episode}.hdf5",
            schema,
            images,
            state,
            action,
            velocity,
            seed=episode,
            success=True,
            vectors={"effort": effort},
        )
        index += steps


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def call(*arguments: str) -> str:
    with start(*arguments) as process:
        try:
            out, error = process.communicate(timeout=3600)
        finally:
            process.kill()
    assert process.returncode == 0, error
    return out


def assert_equal(source, written, exact):
    assert written.schema == source.schema
    assert written.lengths.tolist() == list(LENGTHS)
    for one, other in zip(written.episodes, source.episodes, strict=True):
        assert (one.seed, one.outcome) == (other.seed, other.outcome)
    index = 0
    for episode, steps in enumerate(LENGTHS):
        np.testing.assert_array_equal(written.state(episode), source.state(episode))
        np.testing.assert_array_equal(written.action(episode), source.action(episode))
        for name in source.vector_names:
            np.testing.assert_array_equal(
                written.vector(episode, name), source.vector(episode, name)
            )
        for camera in source.schema.camera_names:
            for step in range(steps):
                one, other = (d.frame(episode, step, camera) for d in (written, source))
                if exact:
                    np.testing.assert_array_equal(one, other)
                else:
                    assert number_of(one) == shown(camera, index + step)
                    assert np.abs(one.astype(int) - other).mean() < 8
        index += steps


def test_hdf5_to_lerobot_and_back_survives_a_kill(tmp_path):
    write_hdf5(tmp_path / "hdf5")
    arguments = (f"source={tmp_path / 'hdf5'}", f"out={tmp_path / 'v3'}", "format=lerobot_v3")
    process = start(*arguments, *SMALL, "workers=2")
    staged = tmp_path / "v3" / ".unfinished"
    deadline = time.monotonic() + 600
    try:
        while len(list(staged.glob("*.json"))) < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
    process.communicate(timeout=60)
    done = {path: path.stat().st_mtime_ns for path in staged.glob("episode_*.json")}
    assert 5 <= len(done) < 60
    assert "60 episodes" in call(*arguments, *SMALL, "workers=2")
    source, between = open_dataset(tmp_path / "hdf5"), open_dataset(tmp_path / "v3")
    assert_equal(source, between, exact=False)
    for camera in CAMERAS:
        folder = tmp_path / "v3" / "videos" / f"observation.images.{camera}"
        assert len(list(folder.rglob("*.mp4"))) > 3
        assert len(list(folder.iterdir())) > 1
    assert len({episode.file for episode in between.episodes}) > 3
    call(f"source={tmp_path / 'v3'}", f"out={tmp_path / 'back'}", "format=aloha_hdf5", "workers=2")
    back = open_dataset(tmp_path / "back")
    assert_equal(source, back, exact=False)
    for episode in (0, 31, 59):
        for camera in CAMERAS:
            np.testing.assert_array_equal(
                back.frame(episode, 2, camera), between.frame(episode, 2, camera)
            )


def test_v21_to_v30_copies_every_frame(tmp_path):
    keys = [f"observation.images.{camera}" for camera in CAMERAS]
    write_lerobot(tmp_path / "v21", LENGTHS, "v2.1", keys, group=4, files_per_chunk=25)
    arguments = (f"source={tmp_path / 'v21'}", f"out={tmp_path / 'v3'}", "format=lerobot_v3")
    call(*arguments, *SMALL, "workers=2")
    source, written = open_dataset(tmp_path / "v21"), open_dataset(tmp_path / "v3")
    assert len({episode.file for episode in written.episodes}) > 3
    assert_equal(source, written, exact=True)
