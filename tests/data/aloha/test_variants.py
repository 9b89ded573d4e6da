"""Every variant of ALOHA files in use."""

import h5py
import numpy as np
import pytest

from act_policy.data.aloha.channel_order import doubt_channel_order
from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import DEPTH, DatasetWarning
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.schemas import shift_actions
from act_policy.errors import UserError
from tests.data.episodes_for_tests import jpeg_rows, make_arrays, make_schema, smooth_frames

CAMERAS = ("cam_high", "cam_left_wrist", "cam_low", "cam_right_wrist")


def write_real(path, steps, compressed=False, **attributes):
    """Write like aloha/record_episodes.py, or like mobile ALOHA compressed by act-plus-plus."""
    rng = np.random.default_rng(steps)
    lengths = []
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        for field in ("qpos", "qvel", "effort"):
            file[f"observations/{field}"] = rng.normal(size=(steps, 14)).astype(np.float32)
        file["action"] = rng.normal(size=(steps, 14)).astype(np.float32)
        file["base_action"] = rng.normal(size=(steps, 2)).astype(np.float32)
        for camera in CAMERAS:
            frames = smooth_frames(steps)
            stored = jpeg_rows(frames) if compressed else frames
            file[f"observations/images/{camera}"] = stored
            file[f"observations/images/{camera}_depth"] = np.zeros((steps, 32, 48), np.uint16)
            lengths.append([(row != 0).sum() for row in stored])
        if compressed:
            file["compress_len"] = np.array(lengths, np.float32)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_real_robot_has_four_cameras_effort_base_and_depth(tmp_path, compressed):
    write_real(tmp_path / "episode_0.hdf5", 3, compressed, sim=False, compress=compressed)
    write_real(tmp_path / "episode_1.hdf5", 5, compressed, sim=False, compress=compressed)
    dataset = open_dataset(tmp_path)
    assert dataset.lengths.tolist() == [3, 5]
    assert dataset.schema.camera_names == CAMERAS
    assert (dataset.schema.state_size, dataset.schema.action_size) == (14, 16)
    depth = {f"observations/images/{camera}_depth": DEPTH for camera in CAMERAS}
    assert dataset.left_out == depth
    assert set(dataset.vector_names) == {"velocity", "effort"}
    with h5py.File(tmp_path / "episode_1.hdf5") as file:
        np.testing.assert_array_equal(dataset.vector(1, "velocity"), file["observations/qvel"])
        np.testing.assert_array_equal(dataset.vector(1, "effort"), file["observations/effort"])
    names, units = dataset.vector_dimensions("velocity")
    assert (names[0], units[0], units[6]) == ("left_waist", "rad/s", "1/s")
    assert dataset.vector_dimensions("effort").units == ("",) * 14
    for camera in CAMERAS:
        off = np.abs(dataset.frame(1, 4, camera).astype(int) - smooth_frames(5)[4])
        assert off.mean() < 4
    with pytest.raises(UserError, match=r"no vector force .*found velocity, effort|effort, velo"):
        dataset.vector(0, "force")


def test_a_vector_missing_in_some_episodes_is_not_offered(tmp_path):
    for steps in (2, 3):
        write_real(tmp_path / f"episode_{steps}.hdf5", steps)
    with h5py.File(tmp_path / "episode_3.hdf5", "a") as file:
        del file["observations/effort"]
        del file["observations/qvel"]
        file["observations/qvel"] = np.zeros((2, 14), np.float32)  # of another length
    assert open_dataset(tmp_path).vector_names == ()


def test_the_action_of_a_real_robot_belongs_to_the_step_before(tmp_path):
    """In act/utils.py the actions for step t begin at max(0, t - 1)."""
    write_real(tmp_path / "episode_0.hdf5", 6)
    stored = open_dataset(tmp_path).action(0)
    moved = open_dataset(tmp_path, ReaderConfig(action_shift=1)).action(0)
    for step in range(6):
        np.testing.assert_array_equal(moved[step], stored[max(0, step - 1)])
    np.testing.assert_array_equal(shift_actions(stored, 0), stored)
    np.testing.assert_array_equal(shift_actions(stored, 9), np.repeat(stored[:1], 6, 0))
    with pytest.raises(UserError, match="action_shift=-1: expected a whole number"):
        open_dataset(tmp_path, ReaderConfig(action_shift=-1))


def orange(height=40, width=60):
    image = np.full((height, width, 3), (90, 85, 80), np.uint8)
    image[:20] = (200, 120, 60)  # a wooden table
    return image


def test_a_channel_order_that_looks_wrong_gives_a_warning(tmp_path):
    frames = np.stack([orange()] * 3)
    write_real(tmp_path / "a" / "episode_0.hdf5", 3, compressed=True)
    with h5py.File(tmp_path / "a" / "episode_0.hdf5", "a") as file:
        del file["compress_len"]
        for camera in CAMERAS:
            del file[f"observations/images/{camera}"]
            file[f"observations/images/{camera}"] = jpeg_rows(frames)
    assert open_dataset(tmp_path / "a", ReaderConfig(jpeg_order="bgr")).notes == []
    with pytest.warns(DatasetWarning, match=r"5\d% of the pixels are blue .*=bgr"):
        open_dataset(tmp_path / "a", ReaderConfig(jpeg_order="rgb"))


def test_files_of_act_plus_plus_suggest_its_channel_order():
    grey = [np.full((8, 8, 3), 90, np.uint8)]
    assert doubt_channel_order(grey, "bgr", is_act_plus_plus=True) == ""
    assert doubt_channel_order(grey, "rgb", is_act_plus_plus=False) == ""
    assert "Expected jpeg_order=bgr" in doubt_channel_order(grey, "rgb", is_act_plus_plus=True)
    swapped = [orange()[..., ::-1]]
    assert "jpeg_order=rgb" in doubt_channel_order(swapped, "bgr", is_act_plus_plus=False)


def test_the_samples_give_no_warning_in_the_right_order(samples):
    assert open_dataset(samples / "aloha_hdf5_compressed").notes == []
    with pytest.warns(DatasetWarning, match="compressed by act-plus-plus"):
        open_dataset(samples / "aloha_hdf5_compressed", ReaderConfig(jpeg_order="rgb"))


@pytest.mark.parametrize("name", ["qpos", "images", "velocity"])
def test_a_vector_may_not_have_the_name_of_a_field(tmp_path, name):
    schema = make_schema()
    with pytest.raises(UserError, match=f"cannot be called {name}"):
        write_episode(
            tmp_path / "e.hdf5",
            schema,
            **make_arrays(schema, 2, 0),
            vectors={name: np.zeros((2, 3))},
        )
