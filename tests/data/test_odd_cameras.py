"""Cameras that are not plain RGB are used as RGB, or named with the reason; in every format."""

import io

import h5py
import numpy as np
import pytest
from PIL import Image

from act_policy.data.dataset import DEPTH, DatasetWarning
from act_policy.data.frames.on_demand import Frames
from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.inspect import inspect_folder
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from act_policy.training.check_demonstrations import check_demonstrations
from tests.data.lerobot_for_tests import TOP, change_info, change_table
from tests.data.lerobot_for_tests import write_lerobot as write_videos
from tests.data.oddities_for_tests import (
    FORMATS,
    LEROBOT,
    deep,
    gray,
    jpeg,
    rgb,
    rgba,
    write,
    write_aloha,
    write_lerobot,
)

STORED = {"rgba": (rgba, rgb), "gray": (gray, lambda *at: gray(*at)[..., None].repeat(3, -1))}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", STORED)
def test_rgba_and_gray_become_rgb(tmp_path, form, kind):
    draw, expected = STORED[kind]
    folder = write(tmp_path / "a", form, {"top": draw, "wrist": rgb})
    dataset = open_dataset(folder)
    assert dataset.schema.camera_names == ("top", "wrist")
    np.testing.assert_array_equal(dataset.frame(1, 3, "top"), expected(1, 3))
    cached = Frames(dataset, "auto", "stop").read("top", np.array([8]))
    np.testing.assert_array_equal(cached[0], expected(1, 3))
    if kind == "rgba" and form != "aloha":
        assert "observation.images.top (alpha channel)" in dataset.left_out


@pytest.mark.parametrize("form", FORMATS)
def test_16_bits_are_left_out_with_the_reason(tmp_path, form):
    folder = write(tmp_path / "a", form, {"top": rgb, "far": deep})
    with pytest.warns(DatasetWarning, match=r"far is left out: .*more than 8 bits per pixel"):
        dataset = open_dataset(folder)
    assert dataset.schema.camera_names == ("top",)
    assert any("far" in name and why for name, why in dataset.left_out.items())
    # said once that it is meant, there is no warning
    assert open_dataset(folder, ReaderConfig(cameras=["top"])).notes == []
    with pytest.raises(UserError, match=r"far.*more than 8 bits per pixel"):
        open_dataset(folder, ReaderConfig(cameras=["top", "far"]))


@pytest.mark.parametrize("form", FORMATS)
def test_without_a_usable_camera_training_is_impossible_and_inspection_says_why(tmp_path, form):
    folder = write(tmp_path / "a", form, {"far": deep})
    found = inspect_folder(folder, InspectionConfig(), 1).findings
    [finding] = [f for f in found if f.kind is Kind.NO_CAMERA]
    assert finding.verdict is Verdict.ERROR
    assert "more than 8 bits" in finding.detail["reasons"]
    with (
        pytest.warns(DatasetWarning, match="far is left out"),
        pytest.raises(UserError, match="more than 8 bits"),
    ):
        check_demonstrations(open_demonstrations(folder), InspectionConfig())


FLAGS = [
    {"info": {"is_depth_map": True}},
    {"info": {"video.is_depth_map": True}},
    {"video_info": {"video.is_depth_map": True}},
    {"info": None, "video_info": {"is_depth_map": True}},
]


@pytest.mark.parametrize("version", LEROBOT)
@pytest.mark.parametrize("flag", FLAGS)
def test_depth_is_known_by_every_spelling_of_its_flag(tmp_path, version, flag):
    write_videos(tmp_path, (3, 4), version)
    change_info(tmp_path, lambda i: i["features"][TOP].update(flag))
    dataset = open_dataset(tmp_path)
    assert dataset.schema.camera_names == ("wrist",)
    assert dataset.left_out[TOP] == DEPTH


def test_a_video_of_12_bits_gray_is_depth(tmp_path):
    write_videos(tmp_path, (3, 4), "v3.0")
    about = {"info": {"video.pix_fmt": "gray12le"}}
    change_info(tmp_path, lambda i: i["features"][TOP].update(about))
    with pytest.warns(DatasetWarning, match=f"{TOP} is left out: .* gray12le"):
        assert open_dataset(tmp_path).schema.camera_names == ("wrist",)


@pytest.mark.parametrize("version", LEROBOT)
def test_images_under_another_name_are_named_with_the_setting_that_uses_them(tmp_path, version):
    folder = write_lerobot(tmp_path / "a", version, {"observation.images.top": rgb, "front": rgb})
    with pytest.warns(DatasetWarning, match=r"front is left out: .*features=\{front: front\}"):
        open_dataset(folder)
    dataset = open_dataset(folder, ReaderConfig(features={"front": "front"}))
    assert dataset.schema.camera_names == ("front", "top")


def test_two_channels_and_shapes_that_are_no_images_are_left_out(tmp_path):
    write_videos(tmp_path, (3, 4), "v3.0")
    for shape in ([48, 64, 2], [3], [0, 64, 3]):
        change_info(tmp_path, lambda i, shape=shape: i["features"][TOP].update(shape=shape))
        with pytest.warns(DatasetWarning, match=f"{TOP} is left out"):
            assert open_dataset(tmp_path).schema.camera_names == ("wrist",)


KINDS = {
    "fixed": lambda rows: f"S{max(map(len, rows))}",
    "rows": lambda rows: h5py.vlen_dtype(np.uint8),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["JPEG", "PNG"])
def test_hdf5_holds_encoded_images_as_byte_strings(tmp_path, kind, encoding):
    folder = write_aloha(
        tmp_path / "a", {"cam_high": lambda *at: jpeg(rgb(*at), encoding)}, kind=KINDS[kind]
    )
    dataset = open_dataset(folder)
    for episode, step in ((0, 0), (2, 5)):
        off = np.abs(dataset.frame(episode, step, "cam_high").astype(int) - rgb(episode, step))
        assert off.mean() < 6
    assert Frames(dataset, "auto", "stop").read("cam_high", np.arange(3)).shape[0] == 3


def test_hdf5_may_have_the_channels_first_and_names_what_it_cannot_use(tmp_path):
    folder = write_aloha(
        tmp_path / "a",
        {
            "top": lambda *at: rgb(*at).transpose(2, 0, 1),
            "floats": lambda *at: rgb(*at).astype(np.float32) / 255,
        },
    )
    with h5py.File(folder / "episode_0.hdf5", "a") as file:
        file["notes/of/operator"] = np.zeros(3)
    with pytest.warns(DatasetWarning, match="floats is left out: it is float32"):
        dataset = open_dataset(folder)
    np.testing.assert_array_equal(dataset.frame(1, 2, "top"), rgb(1, 2))
    assert set(dataset.left_out) == {"observations/images/floats", "notes/of/operator"}


def test_a_camera_that_takes_anothers_name_gets_frames_of_its_own(tmp_path):
    for form in ("v3.0", "aloha"):
        folder = write(tmp_path / form, form, {"top": rgb, "wrist": lambda *at: 255 - rgb(*at)})
        for old, expected in (("top", rgb(0, 0)), ("wrist", 255 - rgb(0, 0))):
            dataset = open_demonstrations(folder, reader=ReaderConfig(cameras={"eye": old}))
            frames = Frames(dataset, "auto", "stop").read("eye", np.array([0]))
            np.testing.assert_array_equal(frames[0], expected)
        place = {"v3.0": "observation.images.wrist", "aloha": "observations/images/wrist"}[form]
        dataset = open_dataset(folder, ReaderConfig(features={"top": place}))
        np.testing.assert_array_equal(
            Frames(dataset, "auto", "stop").read("top", np.array([0]))[0], 255 - rgb(0, 0)
        )


@pytest.mark.parametrize("form", FORMATS)
def test_images_that_say_how_the_camera_was_held_are_turned(tmp_path, form):
    """LeRobot and OpenCV turn them, too."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees

    def turned(episode, step):
        buffer = io.BytesIO()
        image = Image.fromarray(np.rot90(rgb(episode, step)))
        image.save(buffer, "PNG", exif=exif)
        return buffer.getvalue()

    if form == "aloha":
        folder = write_aloha(tmp_path / "a", {"top": turned}, kind=KINDS["fixed"])
        dataset = open_dataset(folder, ReaderConfig(jpeg_order="rgb"))
    else:
        folder = write(tmp_path / "a", form, {"top": rgb})
        for path in folder.glob("data/*/*"):

            def change(columns):
                pairs = zip(columns["episode_index"], columns["frame_index"], strict=True)
                images = [{"bytes": turned(*pair), "path": None} for pair in pairs]
                columns["observation.images.top"] = images

            change_table(path, change)
        dataset = open_dataset(folder)
    np.testing.assert_array_equal(dataset.frame(1, 4, "top"), rgb(1, 4))
