"""Conversions of odd cameras and names: what is used is kept, and the rest is named."""

import numpy as np
import pytest

from act_policy.data.conversion.convert import convert
from act_policy.data.dataset import DatasetWarning
from act_policy.data.episode_files import episode_files
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from tests.data.oddities_for_tests import (
    LENGTHS,
    deep,
    gray,
    numbers,
    rgb,
    rgba,
    write,
    write_aloha,
    write_lerobot,
)
from tests.data.test_odd_layouts import FOREIGN, HDF5, OPENPI, write_openpi

PNG = LeRobotWriterConfig(images="png")


@pytest.mark.parametrize(("form", "images"), [("v2.0", "png"), ("aloha", "video")])
def test_cameras_become_rgb_and_the_rest_is_named(tmp_path, form, images):
    folder = write(tmp_path / "a", form, {"top": rgba, "wrist": gray, "far": deep})
    with pytest.warns(DatasetWarning, match="far is left out"):
        source = open_dataset(folder)
    said = convert(
        source, tmp_path / "b", "lerobot_v3", LeRobotWriterConfig(images=images), workers=1
    )
    assert "not converted: " in said
    assert "far" in said
    written = open_dataset(tmp_path / "b")
    assert written.schema.camera_names == ("top", "wrist")
    off = np.abs(written.frame(2, 4, "top").astype(int) - rgb(2, 4))
    assert off.mean() < (10 if images == "video" else 1)


@pytest.mark.parametrize(("form", "target"), [("v2.1", "lerobot_v3"), ("aloha", "aloha_hdf5")])
def test_names_become_those_of_the_format(tmp_path, form, target):
    features = HDF5 if form == "aloha" else OPENPI
    source = open_dataset(write_openpi(tmp_path / "a", form), ReaderConfig(features=features))
    out = tmp_path / "b"
    out.mkdir()
    for name in FOREIGN:
        (out / name).write_bytes(bytes(100))
    convert(source, out, target, PNG, workers=1)
    written = open_dataset(out)
    assert written.schema == source.schema
    np.testing.assert_array_equal(written.state(2), source.state(2))
    np.testing.assert_array_equal(written.frame(1, 1, written.schema.camera_names[0]), rgb(1, 1))
    if target == "aloha_hdf5":
        assert len(episode_files(out)) == len(LENGTHS)


def test_a_column_that_has_the_wanted_name_already_is_kept_under_another(tmp_path):
    vectors = ("observation.state", "action", "joints")
    folder = write_lerobot(tmp_path / "a", "v2.1", {"observation.images.top": rgb}, vectors)
    source = open_dataset(folder, ReaderConfig(features={"state": "joints"}))
    np.testing.assert_array_equal(source.state(0), numbers(0, LENGTHS[0]) + np.float32(0.2))
    convert(source, tmp_path / "b", "lerobot_v3", PNG, workers=1)
    written = open_dataset(tmp_path / "b")
    np.testing.assert_array_equal(written.state(0), source.state(0))
    assert "original.observation.state" in written.left_out


@pytest.mark.parametrize("target", ["lerobot_v3", "aloha_hdf5"])
def test_a_dataset_without_a_state_stays_one(tmp_path, target):
    reader = ReaderConfig(features={"state": None})
    source = open_dataset(write_aloha(tmp_path / "a", {"top": rgb}, ("action",)), reader)
    convert(source, tmp_path / "b", target, PNG, workers=1)
    written = open_dataset(tmp_path / "b", reader)
    assert written.schema == source.schema
    np.testing.assert_array_equal(written.action(1), source.action(1))
