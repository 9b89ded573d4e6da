"""Read ALOHA episodes of other software and our own; refuse those that do not fit."""

import gc
import json
import threading

import h5py
import numpy as np
import pytest

from act_policy.data.aloha.dataset import AlohaHDF5Dataset
from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import Episode, UndecodableFrameError
from act_policy.data.frames.store import FrameStore
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from act_policy.types import Camera
from tests.data.episodes_for_tests import (
    jpeg_rows,
    make_arrays,
    make_schema,
    smooth_frames,
    write_foreign_episode,
)
from tests.paths import ROOT


def test_written_episodes_are_read_back(tmp_path):
    schema = make_schema({"wrist": (5, 7), "top": (6, 8)})
    arrays = make_arrays(schema, 4, seed=0)
    write_episode(tmp_path / "episode_000000.hdf5", schema, **arrays, seed=17, success=False)

    dataset = open_dataset(tmp_path)

    assert dataset.schema == schema
    assert dataset.schema.camera_names == ("wrist", "top")
    file = tmp_path / "episode_000000.hdf5"
    assert dataset.episodes == [Episode(file.name, 0, 4, file, seed=17, outcome=False)]
    assert (dataset.lengths.tolist(), dataset.timestamps(0)) == ([4], None)
    np.testing.assert_array_equal(dataset.state(0), arrays["state"])
    np.testing.assert_array_equal(dataset.action(0), arrays["action"])
    for camera, frames in arrays["images"].items():
        for step in range(4):
            np.testing.assert_array_equal(dataset.frame(0, step, camera), frames[step])
        for beyond in (-1, 4):
            with pytest.raises(IndexError, match=f"step {beyond} of episode 0, which has 4"):
                dataset.frame(0, beyond, camera)


def test_written_episodes_have_the_layout_that_act_reads(tmp_path):
    schema = make_schema()
    arrays = make_arrays(schema, 3, seed=0)
    write_episode(tmp_path / "e.hdf5", schema, **arrays, velocity=np.ones((3, 3)))
    write_episode(tmp_path / "unmeasured.hdf5", schema, **arrays)
    with h5py.File(tmp_path / "unmeasured.hdf5") as file:
        velocity = file["observations/qvel"][()]
    np.testing.assert_array_equal(velocity[0], np.zeros(3))
    state = arrays["state"]
    np.testing.assert_allclose(velocity[1:], 10 * (state[1:] - state[:-1]), rtol=1e-6)
    with h5py.File(tmp_path / "e.hdf5") as file:
        assert file.attrs["sim"]
        assert file["observations/qpos"].dtype == file["action"].dtype == np.float32
        np.testing.assert_array_equal(file["observations/qvel"], np.ones((3, 3)))
        assert file["observations/images/top"].chunks == (1, 6, 8, 3)


def test_episodes_come_in_the_natural_order_of_their_names(tmp_path):
    schema = make_schema()
    for number in (10, 9, 100, 1):
        write_episode(tmp_path / f"episode_{number}.hdf5", schema, **make_arrays(schema, 2, number))
    (tmp_path / ".episode_5.hdf5.77.partial").write_bytes(b"half of an episode")
    names = [episode.name for episode in open_dataset(tmp_path).episodes]
    assert names == [f"episode_{n}.hdf5" for n in (1, 9, 10, 100)]


def test_both_samples_load_and_agree(samples):
    raw = open_dataset(samples / "aloha_hdf5")
    compressed = open_dataset(samples / "aloha_hdf5_compressed")

    assert raw.lengths.tolist() == compressed.lengths.tolist() == [60, 35]
    assert raw.schema == compressed.schema
    assert raw.schema.rate == 50
    assert raw.schema.state_names[0] == "left_waist"
    assert raw.schema.action_names[13] == "right_gripper"
    assert [raw.schema.state_units[i] for i in (5, 6, 7, 13)] == ["rad", "0..1", "rad", "0..1"]
    red = np.array([255, 0, 0])
    for episode in range(2):
        np.testing.assert_array_equal(raw.state(episode), compressed.state(episode))
        np.testing.assert_array_equal(raw.action(episode), compressed.action(episode))
        for step in range(raw.lengths[episode]):
            one, other = raw.frame(episode, step, "top"), compressed.frame(episode, step, "top")
            assert np.abs(one.astype(int) - other).mean() < 4
            assert np.abs(one[:4, :4] - red).max() == 0
            assert np.abs(other[:4, :4] - red).max() < 10


def test_a_sample_compressed_by_act_plus_plus_is_read():
    """The smallest sample is part of the tests: a simulated cube transfer with a red corner."""
    dataset = open_dataset(ROOT / "tests" / "data" / "aloha_hdf5_compressed")
    assert dataset.lengths.tolist() == [35]
    assert dataset.schema.cameras == (Camera("top", 60, 80),)
    assert (dataset.schema.state_size, dataset.schema.action_size) == (14, 14)
    assert dataset.schema.state_names[13] == "right_gripper"
    assert np.ptp(dataset.action(0), axis=0).max() > 0.1
    frames = np.stack([dataset.frame(0, step, "top") for step in range(35)]).astype(int)
    assert np.abs(frames[:, :4, :4] - [255, 0, 0]).max() < 10
    assert (frames[-1] != frames[0]).any()


def test_a_file_without_attributes_may_mix_raw_and_compressed_cameras(tmp_path):
    frames = smooth_frames(3)
    depth = np.zeros((3, 32, 48), np.uint16)
    write_foreign_episode(
        tmp_path / "episode_0.hdf5",
        3,
        {"cam_high": jpeg_rows(frames), "cam_low": frames, "cam_low_depth": depth},
    )
    dataset = open_dataset(tmp_path)
    assert dataset.schema.camera_names == ("cam_high", "cam_low")
    assert [(e.seed, e.outcome) for e in dataset.episodes] == [(None, None)]
    assert dataset.schema.environment == ""
    for step in range(3):
        one = dataset.frame(0, step, "cam_high").astype(int)
        other = dataset.frame(0, step, "cam_low").astype(int)
        assert np.abs(one - other).mean() < 4
        assert np.abs(one[:8, :8] - [255, 0, 0]).max() < 10


def test_the_channel_order_inside_jpegs_is_an_option(tmp_path):
    write_foreign_episode(tmp_path / "e.hdf5", 2, {"top": jpeg_rows(smooth_frames(2))})
    blue = AlohaHDF5Dataset(tmp_path, ReaderConfig(jpeg_order="rgb")).frame(0, 0, "top")[2, 2]
    assert blue[2] > 240
    assert blue[0] < 15
    with pytest.raises(UserError, match="jpeg_order"):
        AlohaHDF5Dataset(tmp_path, ReaderConfig(jpeg_order="gbr"))


def test_mobile_aloha_actions_have_the_base_after_the_arms(tmp_path):
    path = tmp_path / "e.hdf5"
    write_foreign_episode(path, 2, {"top": smooth_frames(2)})
    with h5py.File(path, "a") as file:
        file["base_action"] = np.array([[1, 2], [3, 4]], np.float32)
    dataset = open_dataset(tmp_path)
    assert dataset.schema.action_names[-2:] == ("base_linear_velocity", "base_angular_velocity")
    assert dataset.schema.state_size == 14
    np.testing.assert_array_equal(dataset.action(0)[:, 14:], [[1, 2], [3, 4]])


def description(size: int, **changes):
    names = [f"joint_{i}" for i in range(size)]
    units = ["rad"] * size
    fields = {"state_names": names, "state_units": units, "action_names": names}
    return fields | {"action_units": units, "rate": 30} | changes


def test_other_robots_are_described_by_a_mapping_or_a_file(tmp_path):
    folder = tmp_path / "folder"
    write_foreign_episode(folder / "e.hdf5", 2, {"top": smooth_frames(2)}, size=6)
    with pytest.raises(UserError, match=r"schema=FILE\.json .* state_names, state_units"):
        open_dataset(folder)

    schema = open_dataset(folder, ReaderConfig(schema=description(6))).schema
    assert (schema.rate, schema.state_names[5], schema.camera_names) == (30, "joint_5", ("top",))
    (tmp_path / "schema.json").write_text(json.dumps(description(6)))
    assert open_dataset(folder, ReaderConfig(schema=tmp_path / "schema.json")).schema == schema


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (description(7), "6 state and 6 action dimensions, but the schema names 7 and 7"),
        (description(6, rate=0), "rate must be positive"),
        (description(6, frequency=3), "unknown fields frequency"),
        ({"rate": 3}, "field 'state_names' is missing"),
        (description(6, cameras=[{"name": "top", "height": 9, "width": 9}]), "32x48, but .* 9x9"),
        (description(6, cameras=[{"name": "left", "height": 9, "width": 9}]), "lacks left"),
        ("no_such.json", "no_such.json: cannot be read"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(tmp_path, given, message):
    write_foreign_episode(tmp_path / "e.hdf5", 2, {"top": smooth_frames(2)}, size=6)
    with pytest.raises(UserError, match=message):
        open_dataset(tmp_path, ReaderConfig(schema=given))


def test_an_episode_that_lacks_a_camera_is_named_with_its_cameras(make_folder):
    folder = make_folder([2] * 10, make_schema({"top": (6, 8), "wrist": (5, 7)}))
    with h5py.File(folder / "episode_000007.hdf5", "a") as file:
        del file["observations/images/wrist"]
    with pytest.raises(UserError) as error:
        open_dataset(folder)
    assert "expected cameras top, wrist in each of 10 episodes" in str(error.value)
    assert "episode_000007.hdf5 lacks wrist (found top)" in str(error.value)
    assert "episode_000006" not in str(error.value)
    assert open_dataset(folder, ReaderConfig(cameras=["top"])).schema.camera_names == ("top",)


def test_unknown_cameras_are_refused_and_the_chosen_order_is_kept(make_folder):
    folder = make_folder([2, 2], make_schema({"top": (6, 8), "wrist": (5, 7)}))
    with pytest.raises(UserError, match=r"lacks left, right \(found top, wrist\)"):
        open_dataset(folder, ReaderConfig(cameras=["top", "left", "right"]))
    chosen = open_dataset(folder, ReaderConfig(cameras=["wrist", "top"]))
    assert chosen.schema.camera_names == ("wrist", "top")
    assert chosen.frame(0, 0, "wrist").shape == (5, 7, 3)


def test_episodes_that_do_not_fit_together_are_refused(make_folder, tmp_path):
    folder = make_folder([2, 2])
    other = make_schema({"top": (9, 9)})
    write_episode(folder / "episode_000002.hdf5", other, **make_arrays(other, 2, 0))
    with pytest.raises(UserError, match=r"episode_000002.hdf5: its schema .* cameras"):
        open_dataset(folder)
    for name, image in (("a", smooth_frames(2)), ("b", smooth_frames(2, height=40))):
        write_foreign_episode(tmp_path / "sizes" / f"{name}.hdf5", 2, {"top": image})
    with pytest.raises(UserError, match=r"b.hdf5: camera top is 40x48, a.hdf5 has 32x48"):
        open_dataset(tmp_path / "sizes")
    for name, size in (("a", 14), ("b", 13)):
        write_foreign_episode(
            tmp_path / "joints" / f"{name}.hdf5", 2, {"top": smooth_frames(2)}, size
        )
    with pytest.raises(UserError, match=r"b.hdf5: 13 state and 13 action dimensions, a.hdf5 has"):
        open_dataset(tmp_path / "joints")


@pytest.mark.parametrize(
    ("field", "replacement", "message"),
    [
        ("action", None, r"has no /action; found .*observations/qpos"),
        ("observations/qpos", None, "has no /observations/qpos"),
        ("observations/images", None, "has no /observations/images"),
        ("observations/images", np.zeros((2, 6, 8, 3), np.uint8), "has no /observations/images"),
        ("action", np.zeros((3, 3), np.float32), "qpos has 2 steps, /action 3"),
        ("action", np.zeros(2, np.float32), r"/action is float32 \(2,\)"),
        ("action", np.array(["a", "b"], "S1")[:, None], r"/action is \|S1 \(2, 1\)"),
        (
            "observations/images/top",
            np.zeros((2, 6, 8, 3), np.float32),
            "lacks top .*it is float32",
        ),
        ("observations/images/top", np.zeros((2, 6, 8, 2), np.uint8), "lacks top .*it is uint8"),
        ("observations/images/top", np.zeros((1, 6, 8, 3), np.uint8), "1 frames, the episode 2"),
    ],
)
def test_a_file_with_another_structure_is_refused(make_folder, field, replacement, message):
    path = make_folder([2]) / "episode_000000.hdf5"
    with h5py.File(path, "a") as file:
        del file[field]
        if replacement is not None:
            file[field] = replacement
    with pytest.raises(UserError, match=message) as error:
        open_dataset(path.parent)
    assert path.name in str(error.value)


def test_a_refused_file_blocks_no_other_thread(make_folder):
    """h5py's lock is released although the error keeps the reader's stack frame alive."""
    path = make_folder([2]) / "episode_000000.hdf5"
    with h5py.File(path, "a") as file:
        del file["observations/images/top"]
        file["observations/images/top"] = np.zeros((3, 2, 2, 3), np.uint8)
    with pytest.raises(UserError, match="camera top has 3 frames") as error:
        open_dataset(path.parent)
    opened = threading.Event()

    def open_it():
        with h5py.File(path):
            opened.set()

    threading.Thread(target=open_it, daemon=True).start()
    freed = opened.wait(10)
    del error
    gc.collect()  # releases the lock if it was held
    assert freed


def test_a_file_cut_short_is_named(make_folder):
    path = make_folder([20, 20]) / "episode_000000.hdf5"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(UserError, match=r"episode_000000.hdf5: is not a readable HDF5 file"):
        open_dataset(path.parent)


def test_an_episode_with_damaged_bytes_is_read_or_named(make_folder):
    path = make_folder([4]) / "episode_000000.hdf5"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 20):
            damaged[place] = rng.integers(256)
        path.unlink()
        path.write_bytes(damaged)
        try:
            FrameStore(open_dataset(path.parent)).read("top", np.arange(4))
        except UserError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
    assert 5 < refused < 60


def test_a_folder_without_episodes_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        open_dataset(tmp_path / "nothing")
    with pytest.raises(UserError, match="holds no episode"):
        open_dataset(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="give the folder"):
        open_dataset(tmp_path / "file")


@pytest.mark.parametrize("damage", ["zeros", "cut", "header", "other size"])
def test_an_undecodable_frame_is_named_and_never_becomes_a_grey_image(tmp_path, damage):
    rows = jpeg_rows(smooth_frames(4))
    if damage == "zeros":
        rows[2] = 0
    elif damage == "cut":
        rows[2, rows[2].nonzero()[0][-1] // 2 :] = 0
    elif damage == "header":
        rows[2, 2:30] = 255
    else:
        small = jpeg_rows(smooth_frames(1, height=24))[0]
        rows[2] = 0
        rows[2, : len(small)] = small
    write_foreign_episode(tmp_path / "episode_0.hdf5", 4, {"top": rows})
    dataset = open_dataset(tmp_path)
    dataset.frame(0, 1, "top")
    with pytest.raises(UndecodableFrameError, match=r"episode_0.hdf5: camera top, step 2"):
        dataset.frame(0, 2, "top")


def test_a_jpeg_cut_anywhere_is_refused(tmp_path):
    whole = jpeg_rows(smooth_frames(1))[0]
    cuts = range(1, len(whole), 7)
    rows = np.tile(whole, (len(cuts), 1))
    for row, cut in zip(rows, cuts, strict=True):
        row[cut:] = 0
    rows = np.concatenate([whole[None], rows])
    write_foreign_episode(tmp_path / "e.hdf5", len(rows), {"top": rows})
    dataset = open_dataset(tmp_path)
    for step in range(1, len(rows)):
        with pytest.raises(UndecodableFrameError, match=f"step {step} cannot be decoded"):
            dataset.frame(0, step, "top")
