"""Several datasets as one: their schemas agree, and weights decide how often each is shown."""

import collections

import numpy as np
import pytest

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.data.selection.mixed import MixedDataset
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_schema


@pytest.fixture
def folders(make_folder):
    return [make_folder([5, 6], name="one"), make_folder([4, 3, 2], name="two")]


def test_episodes_are_named_after_their_folders(folders):
    one, two = map(open_demonstrations, folders)
    mixed = open_demonstrations(folders[0], mix=[{"path": folders[1]}])
    assert isinstance(mixed, MixedDataset)
    assert isinstance(mixed, DemonstrationDataset)
    assert mixed.lengths.tolist() == [5, 6, 4, 3, 2]
    names = [episode.name for episode in mixed.episodes]
    assert names[1:3] == ["one/episode_000001.hdf5", "two/episode_000000.hdf5"]
    np.testing.assert_array_equal(mixed.state(1), one.state(1))
    np.testing.assert_array_equal(mixed.action(4), two.action(2))
    np.testing.assert_array_equal(mixed.vector(2, "velocity"), two.vector(0, "velocity"))
    np.testing.assert_array_equal(mixed.frame(3, 2, "top"), two.frame(1, 2, "top"))


def test_an_epoch_shows_each_dataset_by_its_weight(folders):
    data = DemonstrationDataModule(
        folders[0], 3, 4, held_out_episodes=["two/episode_000001"],
        mix=[{"path": folders[1], "weight": 2}],
    )  # fmt: skip
    assert data.held_out_episodes.tolist() == [3]
    assert data.samples_per_epoch == 11 + 2 * 6
    loader = data.train_dataloader()
    seen = collections.Counter()
    for batch in loader:
        for i, (episode, step) in enumerate(
            zip(batch.episode.tolist(), batch.step.tolist(), strict=True)
        ):
            seen[episode, step] += 1
            np.testing.assert_array_equal(
                batch.observation.images["top"][i], data.dataset.frame(episode, step, "top")
            )
    assert {episode for episode, _ in seen} == {0, 1, 2, 4}
    assert all(times == (1 if episode < 2 else 2) for (episode, _), times in seen.items())


def test_each_dataset_adds_its_own_selection_to_the_shared_one(folders):
    mixed = open_demonstrations(
        folders[0],
        {"episodes": [1], "resize": [3, 4], "state": ["j1"]},
        mix=[{"path": folders[1], "select": {"exclude": ["episode_000000"], "crop": [0, 0, 3, 4]}}],
    )
    assert mixed.lengths.tolist() == [6, 3, 2]
    assert mixed.schema.state_names == ("j1",)
    assert [episode.index for episode in mixed.episodes] == [1, 3, 4]
    assert mixed.frame(2, 0, "top").shape == (3, 4, 3)


def test_differing_schemas_are_shown_on_both_sides(make_folder, folders):
    other = make_folder([4], make_schema({"top": (7, 8)}, size=4), name="other")
    with pytest.raises(UserError) as error:
        open_demonstrations(folders[0], mix=[{"path": other}])
    message = str(error.value)
    assert f"{folders[0]} (here) and {other} (there)" in message
    assert "'height': 6" in message
    assert "'height': 7" in message
    assert "'j2', 'j3'] there" in message
    alike = {"path": other, "select": {"state": ["j0", "j1", "j2"], "actions": ["j0", "j1", "j2"]}}
    mixed = open_demonstrations(folders[0], {"resize": [6, 8]}, mix=[alike])
    assert mixed.schema.cameras[0].height == 6


def test_an_episode_that_is_there_twice_is_refused(folders, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folders[0])
    for again in (folders[0], link):
        with pytest.raises(UserError, match=r"is there twice, with 2 of the same .*weight"):
            open_demonstrations(folders[0], mix=[{"path": again, "weight": 2}])
    other = {"path": folders[0], "select": {"episodes": [1]}}
    mixed = open_demonstrations(folders[0], {"episodes": [0]}, mix=[other])
    assert mixed.lengths.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("two", "mix=two: expected a list"),
        ([{"folder": "two"}], "mix: folder is unknown; there are path, weight, select"),
        ([{"weight": 2}], "has no path"),
        ([{"path": "two", "weight": 0}], "two: weight=0, expected a number above 0"),
    ],
)
def test_an_impossible_mix_is_refused(folders, mix, message):
    with pytest.raises(UserError, match=message):
        open_demonstrations(folders[0], mix=mix)
