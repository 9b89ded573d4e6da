"""A selection contains exactly the chosen parts; impossible choices are refused."""

import shutil

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import DatasetWarning, DemonstrationDataset
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import choose_episodes, open_demonstrations
from act_policy.data.statistics import compute_statistics
from act_policy.errors import UserError
from act_policy.images.resize import crop_and_resize
from act_policy.types import Camera
from tests.data.episodes_for_tests import make_arrays, make_schema, write_foreign_episode
from tests.data.lerobot_for_tests import write_lerobot

CAMERAS = {"top": (12, 16), "wrist": (10, 8)}


@pytest.fixture
def folder(make_folder):
    return make_folder([5, 6, 7, 8], make_schema(CAMERAS))


def test_without_a_selection_nothing_changes(folder):
    plain, view = open_dataset(folder), open_demonstrations(folder)
    assert isinstance(view, DemonstrationDataset)
    assert view.schema == plain.schema
    assert view.episodes == plain.episodes
    for episode in range(4):
        np.testing.assert_array_equal(view.state(episode), plain.state(episode))
        np.testing.assert_array_equal(
            view.frame_offsets(episode, "top"), plain.frame_offsets(episode, "top")
        )


def test_episodes_by_index_and_by_name(folder):
    plain = open_dataset(folder)
    for select in (
        {"episodes": [3, 1]},
        {"episodes": ["episode_000001.hdf5", 3]},
        {"exclude": [0, "episode_000002"]},
        {"episodes": [1, 2, 3], "exclude": [2]},
    ):
        view = open_demonstrations(folder, select)
        assert [(e.index, e.seed) for e in view.episodes] == [(1, 101), (3, 103)]
        assert view.lengths.tolist() == [6, 8]
        np.testing.assert_array_equal(view.action(1), plain.action(3))
        np.testing.assert_array_equal(view.frame(1, 7, "top"), plain.frame(3, 7, "top"))


@pytest.mark.parametrize("kind", ["hdf5", "v2.1", "v3.0"])
def test_an_index_is_that_on_disk_even_if_others_are_left_out(tmp_path, make_folder, kind):
    if kind == "hdf5":
        folder = make_folder([4, 5, 6, 7, 8])
        (folder / "episode_000001.hdf5").write_bytes(b"broken")
        (folder / "episode_000002.hdf5").unlink()
        expected = [4, 8]
    else:
        folder = write_lerobot(tmp_path / "d", [4, 5, 6, 7, 8], kind, per_file=1)
        sorted((folder / "data").rglob("*.parquet"))[1].write_bytes(b"broken")
        expected = [4, 6, 8]

    def opened(select, mix=None):
        with pytest.warns(DatasetWarning, match=r"1 of . episodes are left out"):
            return open_demonstrations(folder, select, mix, reader=ReaderConfig(unreadable="skip"))

    view = opened({"exclude": [3]})
    assert view.lengths.tolist() == expected
    assert open_demonstrations(folder, {"episodes": [4]}).lengths.tolist() == [8]
    copied = shutil.copytree(folder, tmp_path / "copied")
    mixed = opened({"exclude": [3]}, [{"path": copied}])
    assert [episode.index for episode in mixed.episodes][-2:] == [5 + 3, 5 + 4]
    with pytest.raises(UserError, match=r"\[1\] are not among those that are used"):
        choose_episodes("train_episodes", [1], view)


def test_a_number_that_is_not_there_may_be_excluded(folder):
    with pytest.warns(DatasetWarning, match="has no episodes 9, 77"):
        view = open_demonstrations(folder, {"exclude": [1, 9, 77]})
    assert [episode.index for episode in view.episodes] == [0, 2, 3]
    with pytest.raises(UserError, match=r"select.exclude: episodes \[episode_9\] are not among"):
        open_demonstrations(folder, {"exclude": ["episode_9"]})  # a name is more likely a slip


def test_errors_in_an_excluded_episode_do_not_matter(tmp_path, make_folder):
    folder = make_folder([4, 5, 6, 7])
    (folder / "episode_000001.hdf5").write_bytes(b"broken")
    unlike = make_schema({"top": (9, 9)})
    write_episode(folder / "episode_000002.hdf5", unlike, **make_arrays(unlike, 6, 0))
    with pytest.raises(UserError, match="is not a readable HDF5 file"):
        open_demonstrations(folder, {"exclude": [2]})
    with pytest.raises(UserError, match=r"its schema differs from that of .*data.select.exclude"):
        open_demonstrations(folder, {"exclude": ["episode_000001"]})
    view = open_demonstrations(folder, {"exclude": [1, "episode_000002"]})
    assert (view.lengths.tolist(), view.notes) == ([4, 7], [])
    mixed = open_demonstrations(folder, {"episodes": [0]}, [{"path": make_folder([3], name="two")}])
    assert [episode.index for episode in mixed.episodes] == [0, 4]

    folder = write_lerobot(tmp_path / "d", [4, 5, 6], "v2.1")
    (folder / "data" / "chunk-000" / "episode_000001.parquet").unlink()
    assert open_demonstrations(folder, {"exclude": [1]}).lengths.tolist() == [4, 6]
    # the last wanted episode is not the end of the recording
    with pytest.raises(UserError, match=r"episode_000001.parquet: no such file"):
        open_demonstrations(folder, {"episodes": [0, 1]})


def test_train_and_held_out_episodes_are_named_as_on_disk(folder):
    data = DemonstrationDataModule(
        folder, 3, 4, select={"exclude": [1]}, train_episodes=["episode_000000", 3]
    )
    names = [episode.name for episode in data.dataset.episodes]
    assert [names[e] for e in data.train_episodes] == ["episode_000000.hdf5", "episode_000003.hdf5"]
    excluded = DemonstrationDataModule(folder, 3, 4, select={"exclude": [1]}, train_episodes=[1])
    with pytest.raises(UserError, match=r"train_episodes: episodes \[1\] are not among those"):
        _ = excluded.train_episodes


def test_cameras_are_renamed_cropped_and_resized(folder):
    plain = open_dataset(folder)
    view = open_demonstrations(
        folder,
        {"resize": [6, 8], "crop": {"head": [2, 3, 8, 10]}},
        reader=ReaderConfig(cameras={"head": "top", "hand": "wrist"}),
    )
    assert view.schema.cameras == (
        Camera("head", 6, 8, (12, 16), (2, 3, 8, 10)),
        Camera("hand", 6, 8, (10, 8)),
    )
    full = plain.frame(2, 4, "top")
    np.testing.assert_array_equal(
        view.frame(2, 4, "head"), crop_and_resize(full, (2, 3, 8, 10), 6, 8)
    )
    assert "pillow" in view.frame_key(2, "head")  # other scaling needs another cache
    assert "pillow" not in plain.frame_key(2, "top")
    data = DemonstrationDataModule(
        folder,
        3,
        64,
        held_out_fraction=0.0,
        select={"resize": {"hand": [5, 4]}},
        reader=ReaderConfig(cameras={"hand": "wrist"}),
    )
    (batch,) = data.train_dataloader()
    assert list(batch.observation.images) == ["hand"]
    for i, (episode, step) in enumerate(zip(batch.episode, batch.step, strict=True)):
        expected = crop_and_resize(plain.frame(int(episode), int(step), "wrist"), None, 5, 4)
        np.testing.assert_array_equal(batch.observation.images["hand"][i], expected)


def test_dimensions_by_name_and_appended_vectors(folder):
    plain = open_dataset(folder)
    view = open_demonstrations(
        folder,
        {"append": ["velocity"], "state": ["velocity_j2", "j0"], "actions": ["j2", "j1"]},
    )
    assert view.schema.state_names == ("velocity_j2", "j0")
    assert view.schema.state_units == ("rad/s", "rad")
    assert view.schema.action_names == ("j2", "j1")
    velocity = plain.vector(1, "velocity")
    expected = np.stack([velocity[:, 2], plain.state(1)[:, 0]], axis=1)
    np.testing.assert_array_equal(view.state(1), expected)
    np.testing.assert_array_equal(view.action(1), plain.action(1)[:, [2, 1]])
    whole = open_demonstrations(folder, {"append": ["velocity"]})
    assert whole.schema.state_size == 6
    statistics = compute_statistics(view, [0, 1])
    every = np.concatenate([view.state(0), view.state(1)])
    np.testing.assert_allclose(statistics.state.mean, every.mean(axis=0), atol=1e-6)


def still_then_moving(folder):
    """Write one episode: 4 still steps, motion from step 3 to step 7, then 5 still steps."""
    schema = make_schema()
    arrays = make_arrays(schema, 12, 0)
    for field in ("state", "action"):
        values = np.zeros((12, 3), np.float32)
        values[4:8, 1] = [1, 3, 2, 5]
        values[8:, 1] = 5
        values += 1e-4 * np.arange(12, dtype=np.float32)[:, None] * (0, 1, 0)
        arrays[field] = values
    write_episode(folder / "episode_0.hdf5", schema, **arrays)
    return arrays


def test_still_heads_and_tails_are_cut(tmp_path):
    arrays = still_then_moving(tmp_path)
    view = open_demonstrations(tmp_path, {"trim": 0.01})
    assert view.lengths.tolist() == [5]  # steps 3 to 7
    np.testing.assert_array_equal(view.state(0), arrays["state"][3:8])
    np.testing.assert_array_equal(view.frame(0, 4, "top"), arrays["images"]["top"][7])
    offsets = open_dataset(tmp_path).frame_offsets(0, "top")
    np.testing.assert_array_equal(view.frame_offsets(0, "top"), offsets[3:8])
    assert open_demonstrations(tmp_path).lengths.tolist() == [12]
    arrays |= {"state": np.ones((12, 3)), "action": np.ones((12, 3))}
    write_episode(tmp_path / "episode_1.hdf5", make_schema(), **arrays)
    with pytest.raises(UserError, match=r"trim=0.01: .*episode_1.hdf5: nothing moves in it"):
        open_demonstrations(tmp_path, {"trim": 0.01})
    kept = open_demonstrations(tmp_path, {"trim": 0.01, "exclude": [1]})
    assert kept.lengths.tolist() == [5]


def test_relative_actions_by_name_and_their_statistics(tmp_path):
    images = {"top": np.zeros((30, 4, 4, 3), np.uint8)}
    for episode, steps in enumerate((30, 7)):
        write_foreign_episode(tmp_path / f"e{episode}.hdf5", steps, {"top": images["top"][:steps]})
    view = open_demonstrations(tmp_path, {"relative": True})
    assert len(view.relative_actions) == 12  # both arms without their grippers
    assert not any("gripper" in name for name in view.relative_actions)
    statistics = compute_statistics(view, [0, 1], 0.01, view.relative_actions, 10)
    pairs = [
        view.action(e)[later] - view.state(e)[now]
        for e in (0, 1)
        for now in range(view.lengths[e])
        for later in range(now, min(now + 10, view.lengths[e]))
    ]
    expected = np.array(pairs, np.float64)
    joints = [i for i, n in enumerate(view.schema.action_names) if "gripper" not in n]
    for name, values in (
        ("mean", expected.mean(axis=0)),
        ("std", expected.std(axis=0)),
        ("min", expected.min(axis=0)),
        ("max", expected.max(axis=0)),
    ):
        found = getattr(statistics.action, name)
        np.testing.assert_allclose(found[joints], values[joints], atol=1e-6)
    absolute = compute_statistics(view, [0, 1])
    np.testing.assert_array_equal(statistics.action.mean[6], absolute.action.mean[6])
    one = open_demonstrations(tmp_path, {"relative": ["left_gripper"]})
    assert one.relative_actions == ("left_gripper",)


def test_statistics_are_cached_by_data_and_selection(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    view = open_demonstrations(folder)
    first = compute_statistics(view, [0, 1], cache=cache)
    (kept,) = cache.glob("statistics-*.npz")

    def computed_again(*_):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr("act_policy.data.statistics._measure", computed_again)
        again = compute_statistics(view, [0, 1], 0.5, cache=cache)
        np.testing.assert_array_equal(again.action.std, first.action.std)
        assert again.std_floor == 0.5
        for other in ([0], [0, 2]):
            with pytest.raises(AssertionError, match="computed again"):
                compute_statistics(view, other, cache=cache)
        with pytest.raises(AssertionError, match="computed again"):
            compute_statistics(open_demonstrations(folder, {"state": ["j0"]}), [0, 1], cache=cache)
    kept.write_bytes(b"damaged")
    np.testing.assert_array_equal(
        compute_statistics(view, [0, 1], cache=cache).state.mean, first.state.mean
    )


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (
            {"episode": [1]},
            r"select has no episode; it has episodes, exclude, instruction, tasks, trim",
        ),
        ({"episodes": [4]}, r"select.episodes: episodes \[4\] are not among 0 to 3"),
        ({"episodes": ["e"]}, r"\[e\] are not among .* has 4 episodes, episode_000000.hdf5 to"),
        ({"episodes": 3}, r"select.episodes: expected a list of indices"),
        ({"exclude": [0, 1, 2, 3]}, "leave no episode"),
        ({"state": ["j7"]}, r"select.state: .* has no j7; it has j0, j1, j2"),
        ({"state": []}, r"select.state=\[\]: expected at least one of j0"),
        ({"actions": ["j0", "j0"]}, "a name is listed twice"),
        ({"actions": "j0"}, r"select.actions=j0: expected a list of names"),
        ({"append": ["effort"]}, r"no vector effort that every episode has; found velocity"),
        ({"crop": [0, 0, 13, 4]}, r"select.crop: .*camera top: crop \[0, 0, 13, 4\] .* 12x16"),
        ({"crop": [0, 0, 4]}, r"select.crop: top: found \[0, 0, 4\], expected \[top, left"),
        ({"resize": {"side": [4, 4]}}, r"select.resize: no camera side; there are top, wrist"),
        ({"resize": [0, 4]}, r"expected \[height, width\] in pixels"),
        ({"trim": 2}, r"select.trim=2: expected a share"),
        ({"relative": ["j5"]}, r"select.relative: j5 is not an action .* those are j0, j1, j2"),
        ({"relative": True, "state": ["j0"], "actions": ["j1"]}, "no action has a state of"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(folder, select, message):
    with pytest.raises(UserError, match=message):
        open_demonstrations(folder, select)


def test_renaming_an_unknown_camera_is_refused(folder):
    with pytest.raises(UserError, match=r"camera"):
        open_demonstrations(folder, reader=ReaderConfig(cameras={"head": "front"}))
