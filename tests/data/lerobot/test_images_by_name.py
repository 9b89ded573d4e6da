"""Images that the columns only name, in files of their own, are read; absent ones are asked for."""

import numpy as np
import pytest

from act_policy.data.conversion.convert import convert
from act_policy.data.dataset import DatasetWarning
from act_policy.data.frames.on_demand import Frames
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.lerobot_for_tests import change_table
from tests.data.oddities_for_tests import LENGTHS, LEROBOT, png, rgb, write_lerobot

KEY = "observation.images.top"
NAMES = {
    "relative": "images/{key}/episode_{episode:06d}/frame_{step:06d}.png",
    "of the recorder": "/home/me/sets/push/images/{key}/episode_{episode:06d}/frame_{step:06d}.png",
    "of windows": r"C:\sets\images\{key}\episode_{episode:06d}\frame_{step:06d}.png",
}


def write_named(folder, version, form):
    """Write frames to images/..., and only their names to the columns."""
    write_lerobot(folder, version, {KEY: rgb})
    places = [(e, step) for e, steps in enumerate(LENGTHS) for step in range(steps)]
    for episode, step in places:
        name = NAMES["relative"].format(key=KEY, episode=episode, step=step)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(rgb(episode, step)))
    for path in folder.glob("data/*/*"):

        def change(columns):
            pairs = zip(columns["episode_index"], columns["frame_index"], strict=True)
            columns[KEY] = [
                {"bytes": None, "path": NAMES[form].format(key=KEY, episode=e, step=step)}
                for e, step in pairs
            ]

        change_table(path, change)
    return folder


@pytest.mark.parametrize("version", LEROBOT)
@pytest.mark.parametrize("form", NAMES)
def test_they_are_read(tmp_path, version, form):
    folder = write_named(tmp_path / "a", version, form)
    dataset = open_dataset(folder)
    assert dataset.schema.camera_names == ("top",)
    np.testing.assert_array_equal(dataset.frame(1, 4, "top"), rgb(1, 4))
    frames = Frames(dataset, "auto", "stop").read("top", np.array([8]))
    np.testing.assert_array_equal(frames[0], rgb(1, 3))


def test_they_are_converted(tmp_path):
    dataset = open_dataset(write_named(tmp_path / "a", "v2.1", "relative"))
    convert(dataset, tmp_path / "b", "lerobot_v3", LeRobotWriterConfig(images="png"), workers=1)
    np.testing.assert_array_equal(open_dataset(tmp_path / "b").frame(2, 5, "top"), rgb(2, 5))


def test_a_file_that_was_changed_is_decoded_again(tmp_path):
    folder = write_named(tmp_path / "a", "v2.1", "relative")
    Frames(open_dataset(folder), "auto", "stop")
    name = NAMES["relative"].format(key=KEY, episode=1, step=3)
    (folder / name).write_bytes(png(255 - rgb(1, 3)))
    frames = Frames(open_dataset(folder), "auto", "stop").read("top", np.array([8]))
    np.testing.assert_array_equal(frames[0], 255 - rgb(1, 3))


@pytest.mark.parametrize("version", LEROBOT)
def test_files_that_are_not_there_are_asked_for(tmp_path, version):
    folder = write_named(tmp_path / "a", version, "relative")
    (folder / "images").rename(tmp_path / "forgotten")
    text = rf"files of their own, such as images/{KEY}/.*, which are not in {folder}: copy them"
    with pytest.warns(DatasetWarning, match=text):
        assert open_dataset(folder).schema.cameras == ()
    with pytest.raises(UserError, match=text):
        open_dataset(folder, ReaderConfig(cameras=["top"]))
