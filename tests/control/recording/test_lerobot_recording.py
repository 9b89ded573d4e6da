"""Runs that become a LeRobotDataset, whatever interrupts it, and what they keep."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.commands.command_line import main
from act_policy.control.recording import lerobot
from act_policy.control.recording.journal import JournalWriter
from act_policy.control.recording.recording import EpisodeRecorder
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.types import Camera, Schema
from tests.control.loop_for_tests import SCHEMA, Bench
from tests.control.recording.test_recording import a_step

ODD = replace(SCHEMA, cameras=tuple(Camera(c.name, 5, 7) for c in SCHEMA.cameras))
"""Images of which no video can be made."""


def record(folder: Path, schema: Schema = ODD, steps: int = 12) -> JournalWriter:
    """A stretch whose images tell the step."""
    writer = JournalWriter(folder, schema, {}, "close the drawer")
    for number in range(steps):
        observation, *rest = a_step(number)
        images = {
            c.name: np.full((c.height, c.width, 3), 10 * number, np.uint8) for c in schema.cameras
        }
        moment = 5 + number / 10
        writer.add(observation._replace(images=images), *rest, [moment - 0.02, moment - 0.07])
    writer.end_episode("camera")
    return writer


def assert_kept(folder: Path) -> None:
    dataset = open_dataset(folder)
    assert dataset.schema.camera_names == SCHEMA.camera_names
    (about,) = dataset.episodes
    assert (about.length, about.instruction, about.ended) == (12, "close the drawer", "camera")
    times = dataset.timestamps(0)
    assert times is not None
    np.testing.assert_allclose(times, np.arange(12) / 10, atol=1e-9)
    for camera, late in (("front", 0.02), ("wrist", 0.07)):
        np.testing.assert_allclose(dataset.image_times(0)[camera], times - late, atol=1e-9)
    np.testing.assert_array_equal(dataset.vector(0, "operator")[:, 0], np.arange(12) % 3 == 0)
    assert (dataset.frame(0, 7, "wrist") == 70).all()
    corrections = open_demonstrations(folder, {"operator": "policy"})
    assert corrections.lengths.tolist() == [2, 2, 2, 2]


def test_a_run_becomes_a_dataset_in_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    with lerobot.begin(folder) as raw:
        record(raw).close()
    assert lerobot.is_unfinished(folder)
    recovered, said = lerobot.finish(folder)
    assert [(episode.path.name, episode.steps) for episode in recovered] == [
        ("episode_000000.hdf5", 12)
    ]
    assert said == f"{folder}: 1 episodes, 12 steps, all checked"
    assert_kept(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["conversion.json", "data", "meta"]
    assert not lerobot.is_unfinished(folder)


@pytest.mark.parametrize("where", ["convert", "rename", "rmtree"])
def test_a_killed_end_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    with lerobot.begin(tmp_path) as raw:
        record(raw).close()

    remove = shutil.rmtree

    def kill(*arguments: Any, **options: Any) -> None:
        if where != "rmtree" or Path(arguments[0]).name == ".removed":
            raise KeyboardInterrupt
        remove(*arguments, **options)

    with monkeypatch.context() as patch:
        if where == "convert":
            patch.setattr("act_policy.data.conversion.convert._assemble", kill)
        elif where == "rename":
            patch.setattr(Path, "rename", kill)
        else:
            patch.setattr(shutil, "rmtree", kill)
        with pytest.raises(KeyboardInterrupt):
            lerobot.finish(tmp_path)
    again = lerobot.begin(tmp_path)
    with pytest.raises(UserError, match=r"recover|holds something already"), again:
        pass
    assert main(["recover", str(tmp_path)]) == 0
    assert ("is finished" if where == "rmtree" else "12 steps") in capsys.readouterr().out
    assert_kept(tmp_path)
    assert not lerobot.is_unfinished(tmp_path)


def test_a_run_is_not_finished_while_it_goes_on(tmp_path: Path) -> None:
    other = lerobot.begin(tmp_path)
    with lerobot.begin(tmp_path):  # and waits for the operator
        with pytest.raises(UserError, match="another process records into it"):
            lerobot.finish(tmp_path)
        with pytest.raises(UserError, match="another process records into it"), other:
            pass


def test_a_run_without_a_step_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with lerobot.begin(tmp_path):  # the one before ended before its beginning
            pass
    assert main(["recover", str(tmp_path)]) == 0
    assert "not one step was recorded" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "episode_000000.hdf5").touch()
    refused = lerobot.begin(tmp_path)
    with (
        pytest.raises(UserError, match=r"holds something already \(episode_000000\.hdf5\)"),
        refused,
    ):
        pass


def test_missing_packages_are_named_before_anything_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "act_policy.data.conversion.convert", raising=False)
    monkeypatch.setitem(sys.modules, "act_policy.data.lerobot.writer", None)
    refused = lerobot.begin(tmp_path / "run")
    with pytest.raises(UserError, match="pip install h5py pillow pyarrow av tqdm"), refused:
        pass
    assert not (tmp_path / "run").exists()


def test_a_robot_that_knows_when_images_were_taken_has_it_recorded(tmp_path: Path) -> None:
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {})
    bench = Bench(recorder=recorder)
    observe = bench.arm.get_observation
    bench.arm.get_observation = lambda: observe()._replace(  # type: ignore[method-assign]
        image_times={"wrist": bench.clock.now - 0.05}
    )
    bench.start(8)
    recorder.write()
    dataset = open_dataset(tmp_path)
    times = dataset.timestamps(0)
    assert times is not None
    np.testing.assert_allclose(dataset.image_times(0)["front"], times, atol=1e-9)
    np.testing.assert_allclose(dataset.image_times(0)["wrist"], times - 0.05, atol=1e-9)


@pytest.mark.slow
def test_recordings_become_a_lerobot_dataset_of_videos_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "recorded", tmp_path / "lerobot"
    folder.mkdir()
    schema = replace(SCHEMA, cameras=tuple(Camera(c.name, 32, 48) for c in SCHEMA.cameras))
    record(folder, schema).close()
    assert main(["recover", str(folder), "--lerobot", str(out)]) == 0
    assert f"{out}: 1 episodes, 12 steps, all checked" in capsys.readouterr().out
    recorded, written = open_dataset(folder), open_dataset(out)
    np.testing.assert_array_equal(written.action(0), recorded.action(0))
    np.testing.assert_array_equal(written.vector(0, "operator"), recorded.vector(0, "operator"))
    assert (out / "videos").is_dir()
    assert written.episodes[0].instruction == "close the drawer"
    corrections = open_demonstrations(out, {"operator": "policy"})
    assert corrections.lengths.tolist() == [2, 2, 2, 2]
