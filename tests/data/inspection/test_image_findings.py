"""Each fault of images is found where it was planted, and only there."""

import h5py
import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.inspection.camera_looks import look
from act_policy.data.inspection.evidence import Evidence, InspectionConfig
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.image_findings import find_in_images
from act_policy.data.inspection.inspect import FEW, MANY
from act_policy.data.open import open_dataset
from act_policy.report.pieces import spread
from tests.data.episodes_for_tests import jpeg_rows, make_schema, smooth_frames
from tests.data.lerobot_for_tests import TOP, change_table, encode, shown, write_lerobot
from tests.data.motion_for_tests import aloha_motion, sweep


def found(dataset, undecodable="stop", count=MANY, every_frame=False):
    evidence = Evidence(dataset, InspectionConfig(undecodable=undecodable))
    episodes = range(len(dataset.episodes))
    return find_in_images(evidence, look(dataset, episodes, count, every_frame=every_frame))


def change_images(dataset, episode, change):
    with h5py.File(dataset.episodes[episode].file, "a") as file:
        images = file["observations/images/top"]
        images[...] = change(images[...])


@pytest.mark.parametrize("count", [FEW, MANY])
def test_nothing_is_found_in_good_images(tmp_path, count):
    assert found(aloha_motion(tmp_path), count=count) == []


@pytest.mark.parametrize(
    "sample",
    ["aloha_hdf5", "aloha_hdf5_compressed", "lerobot_dataset_v2_1", "lerobot_dataset_v3_0"],
)
def test_nothing_is_found_in_samples_of_other_software(samples, sample):
    assert found(open_dataset(samples / sample), every_frame=True) == []


@pytest.mark.parametrize(("value", "kind"), [(0, Kind.BLACK_CAMERA), (90, Kind.EMPTY_CAMERA)])
def test_a_camera_that_shows_nothing_is_named(tmp_path, value, kind):
    dataset = aloha_motion(tmp_path)
    change_images(dataset, 1, lambda images: np.full_like(images, value))
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, kind)
    assert finding.subject == "top"
    assert list(finding.episodes) == [1]


@pytest.mark.parametrize(("first", "seen"), [(0, 0), (20, 25)])
def test_a_camera_that_freezes_is_named(tmp_path, first, seen):
    def freeze(images):
        images[first:] = images[first]
        return images

    dataset = aloha_motion(tmp_path)
    change_images(dataset, 0, freeze)
    (finding,) = found(dataset)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.FROZEN_CAMERA)
    assert finding.episodes == {0: {"first": seen, "last": 59}}


def test_a_still_image_of_a_still_robot_is_not_frozen(tmp_path):
    def stand(_, state, action):
        state[20:], action[20:] = state[20], action[20]

    dataset = aloha_motion(tmp_path, stand)
    change_images(dataset, 0, lambda i: np.concatenate([i[:20], i[[20] * 40]]))
    assert found(dataset) == []


def test_a_video_that_freezes_is_found_although_its_frames_are_coded(tmp_path):
    folder = write_lerobot(tmp_path, (30,), keys=(TOP,), codec="libx264")
    assert found(open_dataset(folder)) == []
    video = next(folder.glob("videos/**/*.mp4"))
    encode(video, [shown("top", 21)] * 30, codec="libsvtav1")
    (finding,) = found(open_dataset(folder))
    assert finding.kind is Kind.FROZEN_CAMERA


@pytest.mark.parametrize("noise", [0, 6])
def test_one_camera_under_two_names_is_named(tmp_path, noise):
    schema = make_schema({"top": (24, 256), "other": (24, 256), "twin": (12, 128)})
    for episode in range(3):
        state, action = sweep(20, episode)
        top, other = np.random.default_rng(episode).integers(0, 200, (2, 20, 12, 128, 3), np.uint8)
        if episode < 2:
            other = top + np.uint8(noise)  # a codec's
        large = {"top": top.repeat(2, 1).repeat(2, 2), "other": 255 - top.repeat(2, 1).repeat(2, 2)}
        images = large | {"twin": other}
        write_episode(tmp_path / f"episode_{episode}.hdf5", schema, images, state, action)
    (finding,) = found(open_dataset(tmp_path), count=FEW)
    assert (finding.verdict, finding.kind) == (Verdict.WARNING, Kind.SAME_IMAGES)
    assert (finding.subject, finding.detail) == ("top", {"other": "twin"})
    assert list(finding.episodes) == [0, 1]


def test_frames_that_cannot_be_decoded_are_named_and_counted(tmp_path):
    schema = make_schema({"top": (32, 48)})
    state, action = sweep(30, 0)
    for episode in range(2):
        images = {"top": smooth_frames(30)}
        write_episode(tmp_path / f"episode_{episode}.hdf5", schema, images, state, action)
        with h5py.File(tmp_path / f"episode_{episode}.hdf5", "a") as file:
            del file["observations/images/top"]
            rows = jpeg_rows(images["top"])
            if episode == 1:
                rows[[0, 10, 11], 40:] = 0
            file["observations/images/top"] = rows
    dataset = open_dataset(tmp_path)
    (finding,) = found(dataset, every_frame=True)
    assert (finding.verdict, finding.kind) == (Verdict.ERROR, Kind.UNDECODABLE)
    assert (finding.subject, finding.detail["count"]) == ("top", 3)
    assert finding.episodes == {1: {"steps": [0, 10, 11]}}
    (finding,) = found(dataset, "skip")
    assert finding.verdict is Verdict.WARNING
    assert finding.episodes == {1: {"steps": [0]}}  # only the first was checked


def test_an_image_column_with_a_broken_frame_is_named(tmp_path):
    folder = write_lerobot(tmp_path, (12,), keys=(TOP,), kind="image")
    table = folder / "data/chunk-000/file-000.parquet"
    change_table(table, lambda c: c[TOP][11].update(bytes=b"no image"))
    (finding,) = found(open_dataset(folder))
    assert finding.episodes == {0: {"steps": [11]}}
    assert finding.verdict is Verdict.ERROR


def test_a_video_at_another_rate_is_an_error(tmp_path):
    folder = write_lerobot(tmp_path, (20,), keys=(TOP,))
    video = next(folder.glob("videos/**/*.mp4"))
    encode(video, range(20), rate=25)
    (finding,) = found(open_dataset(folder))
    assert (finding.verdict, finding.kind) == (
        Verdict.ERROR,
        Kind.MISPLACED_IMAGES,
    )
    assert list(finding.episodes) == [0]


def test_images_are_spread_from_the_first_to_the_last():
    assert spread(60, 3) == [0, 30, 59]
    assert spread(2, 8) == [0, 1]
    assert spread(1, 3) == [0]
    assert len(spread(1000, 8)) == 8


def test_images_are_kept_small_and_only_on_request(tmp_path):
    schema = make_schema({"top": (96, 256)})
    state, action = sweep(20, 0)
    images = {"top": np.tile(smooth_frames(20, 96, 128), (1, 1, 2, 1))}
    write_episode(tmp_path / "episode_0.hdf5", schema, images, state, action)
    dataset = open_dataset(tmp_path)
    (seen,) = look(dataset, [0], 4, keep_images=True)
    assert seen.steps == [0, 6, 13, 19]
    assert {image.shape for image in seen.images} == {(48, 128, 3)}
    assert look(dataset, [0], 4)[0].images == []
