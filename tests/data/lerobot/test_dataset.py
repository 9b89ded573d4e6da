"""Every number and every frame of LeRobot datasets.

LeRobot itself wrote the samples, together with the values that it reads back; in the generated
datasets each frame shows its number.
"""

import json
import pickle
from dataclasses import replace

import av
import numpy as np
import pytest
from safetensors.numpy import load_file

from act_policy.data.frames.store import FrameStore
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.statistics import compute_statistics
from act_policy.data.video.decoder import BrokenFrameError, VideoFile
from act_policy.errors import UserError
from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
from tests.data.lerobot_for_tests import (
    HEIGHT,
    RATE,
    TOP,
    WIDTH,
    arrays,
    change_info,
    change_table,
    decode_all,
    drift,
    encode,
    number_of,
    shown,
    write_lerobot,
)
from tests.scripts_for_tests import call_script

LENGTHS = (7, 12, 5, 9, 3)
DATA = {"v2.1": "data/chunk-000/episode_000001.parquet", "v3.0": "data/chunk-000/file-000.parquet"}
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = {
    "v2.1": f"videos/chunk-000/{TOP}/episode_000001.mp4",
    "v3.0": f"videos/{TOP}/chunk-000/file-000.mp4",
}
VERSIONS = pytest.mark.parametrize("version", ["v2.1", "v3.0"])


def every_number(dataset, camera):
    """Return the number that each frame shows, read in random order."""
    places = [(e, s) for e, steps in enumerate(dataset.lengths) for s in range(steps)]
    numbers = {}
    for place in np.random.default_rng(0).permutation(len(places)):
        numbers[places[place]] = number_of(dataset.frame(*places[place], camera))
    return [numbers[place] for place in places]


def expected_numbers(camera, lengths=LENGTHS):
    return [shown(camera, index) for index in range(sum(lengths))]


# Samples that LeRobot wrote


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


# Generated datasets


@VERSIONS
def test_numbers_equal_those_written(tmp_path, version):
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
        ("v2.1", "libx264", 10),  # with B-frames, x264's default
        ("v3.0", "libx264", 10),
        ("v3.0", "libx264", 1),
        ("v3.0", "libx264", 250),
        ("v3.0", "libx265", 10),
        ("v3.0", "libsvtav1", 2),
    ],
)
def test_every_frame_shows_its_own_number(tmp_path, version, codec, group):
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
    """They are decoded after a key frame but shown before it."""
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
    assert began <= 10  # five episodes for each of two cameras, in any thread
    order = np.random.default_rng(1).permutation(36)
    for camera in ("top", "wrist"):
        numbers = [number_of(frame) for frame in store.read(camera, order)]
        assert numbers == [shown(camera, index) for index in order]
    FrameStore(open_dataset(tmp_path / "dataset"), tmp_path / "cache")
    assert len(starts) == began  # not again


def test_the_cache_depends_on_the_metadata(tmp_path):
    """The files stay the same, but the metadata move the episode's beginning in its video."""
    folder = write_lerobot(tmp_path / "dataset", keys=(TOP,), lengths=(4, 3), per_file=2)
    encode(folder / VIDEO["v3.0"], range(20))
    assert number_of(FrameStore(open_dataset(folder)).read("top", np.array([4]))[0]) == 4

    def move(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += 0.5

    change_table(folder / EPISODES, move)
    assert number_of(FrameStore(open_dataset(folder)).read("top", np.array([4]))[0]) == 9


def test_a_video_with_a_wrong_index_is_read_from_the_start(tmp_path):
    encode(tmp_path / "a.mp4", range(40))
    video = VideoFile(tmp_path / "a.mp4")
    video.index = video.index._replace(dts=np.repeat(video.index.dts[-1], 40))
    assert [number_of(video.frame(n)) for n in (25, 3, 4, 39)] == [25, 3, 4, 39]
    video.close()


def test_frames_of_a_file_that_became_unreadable_are_refused(tmp_path):
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


def test_cameras_are_chosen_and_ordered(tmp_path):
    folder = write_lerobot(tmp_path)
    assert open_dataset(folder, ReaderConfig(cameras=["wrist"])).schema.camera_names == ("wrist",)
    both = open_dataset(folder, ReaderConfig(cameras=["wrist", "top"]))
    assert both.schema.camera_names == ("wrist", "top")
    with pytest.raises(UserError, match=r"no camera left .*found top, wrist.*data.cameras="):
        open_dataset(folder, ReaderConfig(cameras=["left"]))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"motors": ["a", "b", "c"]}, ("a", "b", "c")),
        ([["a", "b", "c"]], ("a", "b", "c")),
        ({"b": 1, "c": 2, "a": 0}, ("a", "b", "c")),
        ({"left": ["a"], "right": ["b", "c"]}, ("a", "b", "c")),
        (None, ("state_0", "state_1", "state_2")),
        (["state"], ("state_0", "state_1", "state_2")),
    ],
)
def test_names_are_read_in_every_stored_form(tmp_path, names, expected):
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
    schema = open_dataset(folder, ReaderConfig(schema=tmp_path / "schema.json")).schema
    assert (schema.state_names, schema.action_units) == (("x", "y", "z"), ("m",) * 3)
    assert (schema.camera_names, schema.environment) == (("top", "wrist"), given["environment"])
    with pytest.raises(UserError, match="fps is 10, but the schema says 50"):
        open_dataset(folder, ReaderConfig(schema=given | {"rate": 50}))
    with pytest.raises(UserError, match="3 state and 3 action dimensions, but the schema names 2"):
        open_dataset(
            folder,
            ReaderConfig(schema=given | {"state_names": ["x", "y"], "state_units": ["m"] * 2}),
        )


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


def test_frames_that_belong_to_no_episode_are_ignored(tmp_path):
    """A tool that deleted an episode may leave its frames in the video."""
    folder = write_lerobot(tmp_path, keys=(TOP,), lengths=(4, 3), per_file=2)
    encode(folder / VIDEO["v3.0"], [*range(4), 90, 91, *range(4, 7), 92])

    def move(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += 0.2

    change_table(folder / EPISODES, move)
    assert every_number(open_dataset(folder), "top") == list(range(7))


def test_summed_up_times_may_drift_if_the_frame_count_agrees(tmp_path):
    folder = write_lerobot(tmp_path)
    change_table(folder / EPISODES, drift(0.03))
    assert every_number(open_dataset(folder), "top") == expected_numbers("top")
    change_table(folder / EPISODES, drift(0.03))
    with pytest.raises(UserError, match=r"file-000.mp4: episode 1, camera top: begins at 0.76"):
        open_dataset(folder).frame(1, 0, "top")


def test_a_dataset_can_be_pickled_for_another_process(tmp_path):
    dataset = open_dataset(write_lerobot(tmp_path))
    dataset.frame(1, 3, "top")
    again = pickle.loads(pickle.dumps(dataset))
    assert number_of(again.frame(3, 2, "wrist")) == shown("wrist", 26)


# The scripts


def test_the_report_shows_a_lerobot_folder(tmp_path):
    folder = write_lerobot(tmp_path)
    arguments = (f"path={folder}", f"out={tmp_path}/page.html")
    result = call_script("inspect_dataset.py", *arguments, COLUMNS="120")
    assert result.returncode == 0, result.stderr
    for text in ("36, 3.6 s", "10 steps per second", "pick the cube", "gripper", "wrist"):
        assert text in result.stdout
    (folder / VIDEO["v3.0"]).unlink()
    result = call_script("inspect_dataset.py", *arguments, COLUMNS="120")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "no such video file" in result.stderr


def test_an_evaluation_replays_its_actions(tmp_path):
    folder = write_lerobot(tmp_path, lengths=(4, 6), kind="image")
    replayed = find_demonstrations({}, str(folder))
    assert [len(actions) for actions in replayed.actions] == [4, 6]
    np.testing.assert_array_equal(replayed.actions[1], arrays(6, 1)[1])


def test_training_runs_on_a_lerobot_folder(tmp_path):
    folder, run = write_lerobot(tmp_path / "dataset"), tmp_path / "run"
    arguments = ("experiment=tiny", f"data.path={folder}", f"out={run}", "max_steps=4")
    done = call_script("train.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "trained 4 steps" in done.stdout
    assert "frames of top, wrist, once" in done.stdout  # the size is printed before decoding begins

    from act_policy import ACTPolicy

    policy = ACTPolicy.load(run)
    tasks = ("pick the cube", "stack the cubes")
    assert policy.schema == replace(open_dataset(folder).schema, tasks=tasks)
    dataset = open_dataset(folder)
    observation = {
        "observation.state": dataset.state(0)[0],
        "task": tasks[0],
        **{f"observation.images.{c}": dataset.frame(0, 0, c) for c in ("top", "wrist")},
    }
    assert np.isfinite(policy.predict_chunk(observation)).all()
