"""LeRobot datasets as they are on disk: every number and every frame, and what is wrong with them.

The samples were written by LeRobot itself, with what it reads back; the generated datasets show
in each frame which frame it is.
"""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from safetensors.numpy import load_file

from act_policy.data.dataset import UndecodableFrameError
from act_policy.data.frames.store import FrameStore
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.data.statistics import check_finite, compute_statistics
from act_policy.data.video.file import BrokenFrameError, VideoFile
from act_policy.errors import UserError
from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
from tests.data.lerobot_for_tests import (
    HEIGHT,
    RATE,
    TOP,
    WIDTH,
    WRIST,
    arrays,
    change_info,
    change_table,
    decode_all,
    encode,
    number_of,
    png,
    shown,
    write_lerobot,
)
from tests.paths import ROOT

SCRIPTS = ROOT / "scripts"
LENGTHS = (7, 12, 5, 9, 3)
STARTS = (0, 7, 19, 24, 33)
DATA = {"v2.1": "data/chunk-000/episode_000001.parquet", "v3.0": "data/chunk-000/file-000.parquet"}
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = {
    "v2.1": f"videos/chunk-000/{TOP}/episode_000001.mp4",
    "v3.0": f"videos/{TOP}/chunk-000/file-000.mp4",
}
VERSIONS = pytest.mark.parametrize("version", ["v2.1", "v3.0"])


def every_number(dataset, camera):
    """What each frame shows, asked for in an order without any pattern."""
    places = [(e, s) for e, steps in enumerate(dataset.lengths) for s in range(steps)]
    numbers = {}
    for place in np.random.default_rng(0).permutation(len(places)):
        numbers[places[place]] = number_of(dataset.frame(*places[place], camera))
    return [numbers[place] for place in places]


def expected_numbers(camera, lengths=LENGTHS):
    return [shown(camera, index) for index in range(sum(lengths))]


# What LeRobot wrote and reads back


@pytest.mark.parametrize("name", ["lerobot_dataset_v2_1", "lerobot_dataset_v3_0"])
def test_the_samples_equal_what_lerobot_reads_back(samples, tmp_path, name):
    data = DemonstrationDataModule(samples / name, 8, 4, cache=tmp_path)
    dataset = data.dataset
    back = load_file(samples / f"{name}.readback.safetensors")
    assert dataset.lengths.tolist() == [24, 9, 17]
    assert dataset.schema.camera_names == ("top", "wrist")
    assert dataset.schema.state_names == tuple(f"joint_{i}" for i in range(6))
    assert dataset.schema.rate == 20
    assert {episode.instruction for episode in dataset.episodes} == {"pick the red square"}

    data.setup("fit")
    known = np.concatenate([data.train_samples._numbers, data.held_out_samples._numbers])
    assert sorted(known) == list(range(50))
    indices = sorted({int(key.split("/")[0]) for key in back if not key.startswith("stats")})
    assert len(indices) >= 7
    for index in indices:
        part = data.train_samples if index in data.train_samples._numbers else data.held_out_samples
        batch = part[int(np.flatnonzero(part._numbers == index)[0])]
        for key, value in (
            ("observation.state", batch.observation.state),
            ("action", batch.actions),
            ("action_is_pad", batch.is_pad),
            ("episode_index", batch.episode),
            ("frame_index", batch.step),
        ):
            np.testing.assert_array_equal(value[0].numpy(), back[f"{index}/{key}"])
        for camera, images in batch.observation.images.items():
            np.testing.assert_array_equal(
                images[0].numpy().transpose(2, 0, 1), back[f"{index}/observation.images.{camera}"]
            )

    statistics = compute_statistics(dataset, range(3))
    for field, key in ((statistics.state, "observation.state"), (statistics.action, "action")):
        for name_of, value in field._asdict().items():
            np.testing.assert_allclose(value, back[f"stats/{key}/{name_of}"], atol=1e-5, rtol=0)


# What is generated here


@VERSIONS
def test_numbers_are_those_that_were_written(tmp_path, version):
    dataset = open_dataset(write_lerobot(tmp_path, version=version))
    assert dataset.lengths.tolist() == list(LENGTHS)
    for episode, steps in enumerate(LENGTHS):
        state, action = arrays(steps, episode)
        np.testing.assert_array_equal(dataset.state(episode), state)
        np.testing.assert_array_equal(dataset.action(episode), action)
        assert dataset.state(episode).dtype == np.float32
    schema = dataset.schema
    assert schema.state_names == schema.action_names == ("shoulder", "elbow", "gripper")
    assert (schema.rate, schema.environment, schema.camera_names) == (RATE, "", ("top", "wrist"))
    assert [(c.height, c.width) for c in schema.cameras] == [(HEIGHT, WIDTH)] * 2
    told = [episode.instruction for episode in dataset.episodes]
    assert told == ["pick the cube", *["stack the cubes"] * 4]
    np.testing.assert_allclose(dataset.timestamps(1), np.arange(12) / RATE, atol=1e-6)
    assert dataset.episodes[1].name == "episode_000001"
    assert {(e.seed, e.outcome) for e in dataset.episodes} == {(None, None)}


@pytest.mark.parametrize(
    ("version", "codec", "group"),
    [
        ("v2.1", "libx264", 10),  # with B-frames, as x264 makes them unless told otherwise
        ("v3.0", "libx264", 10),
        ("v3.0", "libx264", 1),
        ("v3.0", "libx264", 250),
        ("v3.0", "libx265", 10),
        ("v3.0", "libsvtav1", 2),
    ],
)
def test_every_frame_is_the_one_its_number_says(tmp_path, version, codec, group):
    """Episodes begin in the middle of a group of pictures here."""
    folder = write_lerobot(tmp_path, version=version, codec=codec, group=group)
    dataset = open_dataset(folder)
    for camera in ("top", "wrist"):
        assert every_number(dataset, camera) == expected_numbers(camera)
    whole = decode_all(folder / VIDEO["v3.0"]) if version == "v3.0" else None
    for step in (11, 0, 4):
        expected = whole[7 + step] if whole else decode_all(folder / VIDEO[version])[step]
        np.testing.assert_array_equal(dataset.frame(1, step, "top"), expected)
    for step in (-1, 12):
        with pytest.raises(IndexError):
            dataset.frame(1, step, "top")


def test_leading_images_of_an_open_group_are_right(tmp_path):
    """They are decoded after the key frame that they are shown before."""
    options = {"x265-params": "log-level=0:open-gop=1:bframes=4:keyint=10:min-keyint=10"}
    folder = write_lerobot(
        tmp_path, lengths=(25, 20), keys=(TOP,), codec="libx265", options=options
    )
    assert every_number(open_dataset(folder), "top") == expected_numbers("top", (25, 20))


def test_reading_in_order_decodes_each_episode_in_one_go(tmp_path, monkeypatch):
    dataset = open_dataset(write_lerobot(tmp_path / "dataset"))
    starts = []
    begin = VideoFile._decode
    monkeypatch.setattr(
        VideoFile, "_decode", lambda video, key: starts.append(key) or begin(video, key)
    )
    store = FrameStore(dataset, tmp_path / "cache")
    began = len(starts)
    assert began <= 10  # five episodes for each of two cameras, in whatever thread
    order = np.random.default_rng(1).permutation(36)
    for camera in ("top", "wrist"):
        numbers = [number_of(frame) for frame in store.read(camera, order)]
        assert numbers == [shown(camera, index) for index in order]
    FrameStore(open_dataset(tmp_path / "dataset"), tmp_path / "cache")
    assert len(starts) == began  # not again


def test_the_cache_follows_the_metadata(tmp_path):
    """The files stay, but the metadata say that the episode begins elsewhere in its video."""
    folder = write_lerobot(tmp_path / "dataset", keys=(TOP,), lengths=(4, 3), per_file=2)
    encode(folder / VIDEO["v3.0"], range(20))
    assert number_of(FrameStore(open_dataset(folder)).read("top", np.array([4]))[0]) == 4

    def move(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += 0.5

    change_table(folder / EPISODES, move)
    assert number_of(FrameStore(open_dataset(folder)).read("top", np.array([4]))[0]) == 9


def test_a_container_whose_index_misleads_is_read_from_the_start(tmp_path):
    encode(tmp_path / "a.mp4", range(40))
    video = VideoFile(tmp_path / "a.mp4")
    video._index = video._index._replace(dts=np.repeat(video._index.dts[-1], 40))
    assert [number_of(video.frame(n)) for n in (25, 3, 4, 39)] == [25, 3, 4, 39]
    video.close()


def test_a_file_that_cannot_be_read_any_more_breaks_its_frames(tmp_path):
    encode(tmp_path / "a.mp4", range(3))
    video = VideoFile(tmp_path / "a.mp4")
    video.close()

    class Unreadable:
        def seek(self, *_, **__):
            raise av.error.InvalidDataError(5, "Input/output error")

    video._container = Unreadable()
    with pytest.raises(BrokenFrameError, match="Input/output error"):
        video.frame(0)


@VERSIONS
def test_image_columns_are_read_exactly(tmp_path, version):
    folder = write_lerobot(tmp_path, version=version, kind="image")
    dataset = open_dataset(folder)
    for camera in ("top", "wrist"):
        assert every_number(dataset, camera) == expected_numbers(camera)
    store = FrameStore(dataset)
    np.testing.assert_array_equal(store.read("top", np.array([8]))[0], dataset.frame(1, 1, "top"))
    assert (folder / ".cache").is_dir()


def test_a_camera_may_be_called_observation_image_and_have_its_channels_first(tmp_path):
    folder = write_lerobot(tmp_path, keys=("observation.image",), kind="image")
    change_info(
        folder,
        lambda info: info["features"]["observation.image"].update(
            shape=[3, HEIGHT, WIDTH], names=["channels", "height", "width"]
        ),
    )
    dataset = open_dataset(folder)
    assert dataset.schema.camera_names == ("image",)
    assert every_number(dataset, "image") == expected_numbers("image")


def test_cameras_are_chosen_and_ordered_and_depth_is_left_alone(tmp_path):
    folder = write_lerobot(tmp_path)
    assert open_dataset(folder, cameras=["wrist"]).schema.camera_names == ("wrist",)
    assert open_dataset(folder, cameras=["wrist", "top"]).schema.camera_names == ("wrist", "top")
    with pytest.raises(UserError, match=r"no camera left .*found top, wrist.*data.cameras="):
        open_dataset(folder, cameras=["left"])
    change_info(folder, lambda i: i["features"][WRIST].update(info={"video.is_depth_map": True}))
    assert open_dataset(folder).schema.camera_names == ("top",)
    change_info(folder, lambda i: i["features"][WRIST].update(shape=[HEIGHT, WIDTH, 1], info={}))
    assert open_dataset(folder).schema.camera_names == ("top",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"motors": ["a", "b", "c"]}, ("a", "b", "c")),
        ([["a", "b", "c"]], ("a", "b", "c")),
        ({"b": 1, "c": 2, "a": 0}, ("a", "b", "c")),
        ({"left": ["a"], "right": ["b", "c"]}, ("a", "b", "c")),
        (None, ("state_0", "state_1", "state_2")),
        (["state"], ("state_0", "state_1", "state_2")),
        (["a", "a", "b"], ("state_0", "state_1", "state_2")),
    ],
)
def test_names_are_taken_in_every_form_in_which_they_are_written(tmp_path, names, expected):
    folder = write_lerobot(tmp_path, lengths=(2,), kind="image")
    change_info(folder, lambda i: i["features"]["observation.state"].update(names=names))
    assert open_dataset(folder).schema.state_names == expected


@pytest.mark.parametrize("word", ["environment", "task"])  # the second in older datasets
def test_our_datasets_name_the_simulated_environment(tmp_path, word):
    folder = write_lerobot(tmp_path, lengths=(2,))
    file = folder / "meta" / "info.json"
    info = json.loads(file.read_text()) | {"act_policy": {word: "act_policy/test-v0"}}
    file.write_text(json.dumps(info))
    assert open_dataset(folder).schema.environment == "act_policy/test-v0"


def test_a_schema_may_give_names_units_and_the_simulated_environment(tmp_path):
    folder = write_lerobot(tmp_path / "dataset", lengths=(2,))
    given = {
        "state_names": ["x", "y", "z"],
        "state_units": ["m"] * 3,
        "action_names": ["dx", "dy", "dz"],
        "action_units": ["m"] * 3,
        "rate": RATE,
        "environment": "act_policy/MetaWorld-reach-v0",
    }
    (tmp_path / "schema.json").write_text(json.dumps(given))
    schema = open_dataset(folder, schema=tmp_path / "schema.json").schema
    assert (schema.state_names, schema.action_units) == (("x", "y", "z"), ("m",) * 3)
    assert (schema.camera_names, schema.environment) == (("top", "wrist"), given["environment"])
    with pytest.raises(UserError, match="fps is 10, but the schema says 50"):
        open_dataset(folder, schema=given | {"rate": 50})
    with pytest.raises(UserError, match="3 state and 3 action dimensions, but the schema names 2"):
        open_dataset(folder, schema=given | {"state_names": ["x", "y"], "state_units": ["m"] * 2})


def test_lists_of_any_kind_and_single_numbers_are_vectors(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_lerobot(tmp_path, lengths=(4,), kind="image")
    change_info(folder, lambda i: i["features"]["action"].update(shape=[1], names=None))
    path = folder / DATA["v3.0"]
    table = pq.read_table(path)
    state = pa.array(table["observation.state"].to_pylist(), pa.large_list(pa.float64()))
    place = table.schema.get_field_index("observation.state")
    table = table.set_column(place, "observation.state", state)
    for action in (pa.array([1, 2, 3, 4]), pa.array([[1.0], [2.0], [3.0], [4.0]])):
        place = table.schema.get_field_index("action")
        pq.write_table(table.set_column(place, "action", action), path)
        dataset = open_dataset(folder)
        np.testing.assert_array_equal(dataset.action(0), [[1], [2], [3], [4]])
        np.testing.assert_array_equal(dataset.state(0), arrays(4, 0)[0])


def test_frames_that_belong_to_no_episode_are_passed_over(tmp_path):
    """A tool that deleted an episode may leave its frames in the video."""
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(4, 3), per_file=2)
    encode(folder / VIDEO["v3.0"], [*range(4), 90, 91, *range(4, 7), 92])

    def move(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += 0.2

    change_table(folder / EPISODES, move)
    assert every_number(open_dataset(folder), "top") == list(range(7))


def drift(by):
    def change(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += by

    return change


def test_summed_up_times_may_drift_where_the_count_agrees(tmp_path):
    folder = write_lerobot(tmp_path)
    change_table(folder / EPISODES, drift(0.03))
    assert every_number(open_dataset(folder), "top") == expected_numbers("top")
    change_table(folder / EPISODES, drift(0.03))
    with pytest.raises(UserError, match=r"file-000.mp4: episode 1, camera top: begins at 0.76"):
        open_dataset(folder).frame(1, 0, "top")


def test_a_dataset_travels_to_another_process(tmp_path):
    dataset = open_dataset(write_lerobot(tmp_path))
    dataset.frame(1, 3, "top")
    again = pickle.loads(pickle.dumps(dataset))
    assert number_of(again.frame(3, 2, "wrist")) == shown("wrist", 26)


# What is wrong


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v2.0", r"v2.0; this version reads v2.1 and v3.0. .*convert_dataset_v20_to_v21"),
        ("v1.6", r"v1.6; .*Convert it to v2.0"),
        ("v3.1", r"v3.1; .*Update act_policy"),
        ("4", r"codebase_version 4"),
    ],
)
def test_other_versions_are_told_what_to_do(tmp_path, version, message):
    folder = write_lerobot(tmp_path, lengths=(2,), kind="image")
    change_info(folder, lambda info: info.update(codebase_version=version))
    with pytest.raises(UserError, match=message):
        open_dataset(folder)


@pytest.mark.parametrize(
    "field",
    ["codebase_version", "fps", "features", "total_episodes", "total_frames", "data_path"],
)
@VERSIONS
def test_a_field_that_info_lacks_is_named(tmp_path, version, field):
    folder = write_lerobot(tmp_path, lengths=(2,), version=version, kind="image")
    change_info(folder, lambda info: info.pop(field))
    with pytest.raises(UserError, match=rf"info.json: field {field} is missing"):
        open_dataset(folder)


def set_info(**fields):
    return lambda folder: change_info(folder, lambda info: info.update(fields))


def set_feature(key, **fields):
    return lambda folder: change_info(folder, lambda info: info["features"][key].update(fields))


def in_table(path, name, row, value):
    return lambda folder: change_table(
        folder / path, lambda columns: columns[name].__setitem__(row, value)
    )


def remove(path):
    return lambda folder: (folder / path).unlink()


def write(path, content):
    return lambda folder: (folder / path).write_bytes(content)


def keep_rows(path, rows):
    return lambda folder: change_table(
        folder / path,
        lambda columns: columns.update({k: [v[r] for r in rows] for k, v in columns.items()}),
    )


@pytest.mark.parametrize(
    ("version", "spoil", "message"),
    [
        ("v3.0", write("meta/info.json", b"{"), r"info.json: cannot be read"),
        ("v3.0", write("meta/info.json", b"[]"), r"info.json: expected an object"),
        ("v3.0", set_info(fps=0), "fps is 0"),
        ("v3.0", set_info(data_path="data/{file}.parquet"), r"data_path 'data/\{file\}.parquet' c"),
        ("v3.0", set_info(video_path=None), "field video_path is missing"),
        ("v2.1", set_info(total_frames=35), "total_frames is 35, but .* count 36"),
        ("v2.1", set_info(chunks_size="2"), "chunks_size is '2'"),
        ("v3.0", set_feature(TOP, shape=[90, 64, 3]), r"the video is 48x64, .* says 90x64"),
        ("v3.0", set_feature(TOP, shape=[3]), r"camera top has shape \[3\]"),
        ("v3.0", set_feature(TOP, dtype="image"), rf"has no column {TOP}; found observation.state"),
        ("v3.0", set_feature("action", shape=[4]), r"action has 3 values in row 0; .* says 4"),
        ("v3.0", set_feature("action", shape=[2, 3]), r"action is float32 \[2, 3\]"),
        (
            "v3.0",
            lambda folder: change_info(folder, lambda i: i["features"].pop("action")),
            "has no feature action; found observation.state, ",
        ),
        ("v3.0", remove(EPISODES), "episode 0 is missing; expected 0, 1, 2"),
        ("v2.1", remove("meta/episodes.jsonl"), "episodes.jsonl: cannot be read"),
        ("v2.1", write("meta/episodes.jsonl", b'{"length": 3}\n'), "line 1 is not an episode"),
        ("v3.0", in_table(EPISODES, "episode_index", 2, 1), "episode 1 is there twice"),
        ("v3.0", in_table(EPISODES, "length", 1, 0), "episode 1 has length 0"),
        ("v3.0", in_table(EPISODES, "dataset_from_index", 1, 6), "episode 1 is at steps 6 to 19"),
        ("v3.0", in_table(EPISODES, "dataset_to_index", 1, 20), "episode 1 is at steps 7 to 20"),
        ("v3.0", in_table(EPISODES, "data/file_index", 1, None), "episode 1 has no value of data"),
        (
            "v3.0",
            in_table(EPISODES, f"videos/{TOP}/to_timestamp", 1, 2.0),
            rf"episode 1, {TOP}: 0.7 s to 2 s .* 12 steps",
        ),
        (
            "v3.0",
            lambda folder: change_table(folder / EPISODES, drift(-0.3)),
            "episodes 0 and 1 overlap in .*file-000.mp4",
        ),
        ("v2.1", remove(DATA["v2.1"]), r"episode_000001.parquet: no such file"),
        ("v3.0", remove(DATA["v3.0"]), r"file-000.parquet: no such file"),
        ("v2.1", write(DATA["v2.1"], b"PAR1"), "episode_000001.parquet: is not a readable parquet"),
        ("v2.1", keep_rows(DATA["v2.1"], range(11)), "episode 1 has 11 rows, the metadata say 12"),
        ("v2.1", keep_rows(DATA["v2.1"], [*range(6), *range(5, 11)]), "frame_index at step 6 is 5"),
        ("v3.0", keep_rows(DATA["v3.0"], range(7)), "episode 1 has 0 rows, the metadata say 12"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 18, 0), "episode 0 do not lie together"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 18, 4), "holds rows of episode 4|11 rows"),
        ("v3.0", in_table(DATA["v3.0"], "episode_index", 9, None), "a row has no episode_index"),
        ("v3.0", in_table(DATA["v3.0"], "index", 9, 900), "episode 1: index at step 2 is 900, ex"),
        ("v3.0", in_table(DATA["v3.0"], "frame_index", 9, 1), "frame_index at step 2 is 1, exp"),
        ("v3.0", in_table(DATA["v3.0"], "timestamp", 9, 0.3), "timestamp at step 2 is 0.3000 s"),
        ("v3.0", in_table(DATA["v3.0"], "timestamp", 9, None), "timestamp at step 2 is nan"),
        ("v3.0", in_table(DATA["v3.0"], "action", 9, None), "action has nan values in row 9"),
        (
            "v2.1",
            remove(VIDEO["v2.1"]),
            r"episode_000001.mp4: no such video.*episode 1, camera top",
        ),
        ("v3.0", remove(VIDEO["v3.0"]), r"file-000.mp4: no such .*episodes 0 to 1, camera top"),
        ("v3.0", write(VIDEO["v3.0"], b"no video"), r"file-000.mp4: is not a readable video"),
        (
            "v3.0",
            lambda folder: encode(folder / VIDEO["v3.0"], range(18)),
            "file-000.mp4: episodes 0 to 1, camera top: the video has 18 frames, .* count 19",
        ),
        (
            "v2.1",
            lambda folder: encode(folder / VIDEO["v2.1"], range(13)),
            "episode_000001.mp4: episode 1, camera top: the video has 13 frames, .* count 12",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_folder_is_opened(tmp_path, version, spoil, message):
    folder = write_lerobot(tmp_path, version=version)
    spoil(folder)
    with pytest.raises(UserError, match=message):
        open_dataset(folder)


def test_values_that_are_not_finite_are_named_by_episode(tmp_path):
    folder = write_lerobot(tmp_path)
    in_table(DATA["v3.0"], "action", 9, [0, np.nan, 0])(folder)
    with pytest.raises(
        UserError, match=r"file-000.parquet: episode_000001: action elbow at step 2 is nan"
    ):
        check_finite(open_dataset(folder))


def test_a_video_at_another_rate_is_refused(tmp_path):
    folder = write_lerobot(tmp_path, version="v2.1")
    encode(folder / VIDEO["v2.1"], range(12), rate=20)
    with pytest.raises(UserError, match=r"frame 11 is shown 0.55.. s after .*, expected 1.1"):
        open_dataset(folder).frame(1, 0, "top")


def spoil_packet(path: Path, place: int) -> int:
    """Overwrite the packet decoded at that place with zeros; returns the number of its frame."""
    with av.open(str(path)) as container:
        packets = [(p.pts, p.pos, p.size) for p in container.demux(video=0) if p.pts is not None]
    pts, start, size = packets[place]
    content = bytearray(path.read_bytes())
    content[start : start + size] = bytes(size)
    path.write_bytes(content)
    return sorted(p for p, _, _ in packets).index(pts)


@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "3"}])
def test_an_undecodable_frame_is_named_and_what_builds_on_it_is_not_trusted(tmp_path, options):
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(12, 25), options=options)
    broken = spoil_packet(folder / VIDEO["v3.0"], place=14)
    assert 12 <= broken < 20
    dataset = open_dataset(folder)
    with pytest.raises(
        UndecodableFrameError,
        match=r"file-000.mp4: episode 1, camera top, frame \d+ cannot be .*data.undecodable",
    ) as caught:
        FrameStore(dataset)
    first = 12 + int(re.search(r"frame (\d+) cannot", str(caught.value))[1])
    assert first <= broken

    store = FrameStore(dataset, undecodable="skip")
    bad = np.flatnonzero(~store.usable)
    assert broken in bad
    assert set(bad) <= set(range(11, 20))  # never past the next key frame
    if options["bf"] == "0":
        assert bad.tolist() == list(range(14, 20))
    good = np.flatnonzero(store.usable)
    assert [number_of(frame) for frame in store.read("top", good)] == good.tolist()
    fresh = open_dataset(folder)  # another order of reading comes to the same
    for index in reversed(range(37)):
        place = (0, index) if index < 12 else (1, index - 12)
        if index in bad:
            with pytest.raises(UndecodableFrameError):
                fresh.frame(*place, "top")
        else:
            assert number_of(fresh.frame(*place, "top")) == index


def test_a_video_that_is_cut_short_loses_only_what_is_cut_off(tmp_path):
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(12, 9, 16), per_file=3, group=5)
    path = folder / VIDEO["v3.0"]
    with av.open(str(path)) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.pts is not None]
    whole = path.read_bytes()
    path.write_bytes(whole[: packets[17][0] + packets[17][1] // 2])
    dataset = open_dataset(folder)
    with pytest.raises(UndecodableFrameError, match=r"episode 1, camera top, frame \d"):
        FrameStore(dataset)
    store = FrameStore(dataset, undecodable="skip")
    good = np.flatnonzero(store.usable)
    assert set(range(15)) <= set(good) <= set(range(17))
    assert [number_of(frame) for frame in store.read("top", good)] == good.tolist()
    path.write_bytes(whole[:300])
    with pytest.raises(UserError, match=r"file-000.mp4: holds no video.*cut short"):
        open_dataset(folder)


def test_a_broken_image_in_an_image_column_is_named(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(4, 5), kind="image", keys=(TOP,))
    half = {"bytes": png(6)["bytes"][:60], "path": None}
    in_table(DATA["v3.0"], TOP, 6, half)(folder)
    in_table(DATA["v3.0"], TOP, 8, {"bytes": None, "path": None})(folder)
    dataset = open_dataset(folder)
    with pytest.raises(UndecodableFrameError, match="episode 1, camera top, frame 2 cannot"):
        FrameStore(dataset)
    with pytest.raises(UndecodableFrameError, match=r"frame 4 .*holds no bytes"):
        dataset.frame(1, 4, "top")
    store = FrameStore(dataset, undecodable="skip")
    assert np.flatnonzero(~store.usable).tolist() == [6, 8]


# The scripts


def call(script, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"COLUMNS": "120", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )


def test_the_report_shows_a_lerobot_folder(tmp_path):
    folder = write_lerobot(tmp_path)
    result = call("inspect_dataset.py", f"path={folder}", f"out={tmp_path}/page.html")
    assert result.returncode == 0, result.stderr
    for text in ("36, 3.6 s", "10 steps per second", "pick the cube", "gripper", "wrist"):
        assert text in result.stdout
    remove(VIDEO["v3.0"])(folder)
    result = call("inspect_dataset.py", f"path={folder}", f"out={tmp_path}/page.html")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "no such video file" in result.stderr


def test_an_evaluation_replays_its_actions(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(4, 6), kind="image")
    replayed = find_demonstrations({}, str(folder))
    assert [len(actions) for actions in replayed.actions] == [4, 6]
    np.testing.assert_array_equal(replayed.actions[1], arrays(6, 1)[1])


def test_training_runs_on_a_lerobot_folder(tmp_path):
    folder, run = write_lerobot(tmp_path / "dataset"), tmp_path / "run"
    done = call("train.py", "experiment=tiny", f"data.path={folder}", f"out={run}", "max_steps=4")
    assert done.returncode == 0, done.stderr
    assert "trained 4 steps" in done.stdout
    assert "frames of top, wrist, once" in done.stdout  # the size is printed before it begins

    from act_policy import ACTPolicy

    policy = ACTPolicy.load(run)
    assert policy.schema == open_dataset(folder).schema
    dataset = open_dataset(folder)
    observation = {
        "observation.state": dataset.state(0)[0],
        **{f"observation.images.{c}": dataset.frame(0, 0, c) for c in ("top", "wrist")},
    }
    assert np.isfinite(policy.predict_chunk(observation)).all()
