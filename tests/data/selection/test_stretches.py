"""Recorded runs of a policy: who acted, and what came before a failure."""

from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import choose_episodes, open_demonstrations
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_arrays, make_schema

CAMERAS = {"top": (12, 16)}
SCHEMA = make_schema(CAMERAS)
PERSON = np.array([0] * 6 + [1] * 5 + [0] * 4 + [1] * 3 + [0] * 2, bool)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with two takeovers that ended in a fault, one that ended well, a demonstration."""
    for number, (steps, operator, ended) in enumerate(
        [(20, PERSON, "camera"), (12, np.zeros(12, bool), "end"), (8, None, "")]
    ):
        path = tmp_path / f"episode_{number:06d}.hdf5"
        arrays = make_arrays(SCHEMA, steps, number)
        write_episode(path, SCHEMA, **arrays, operator=operator, ended=ended)
    return tmp_path


def test_who_acted_is_read_as_a_vector(folder: Path) -> None:
    dataset = open_dataset(folder)
    assert "operator" in dataset.vector_names
    np.testing.assert_array_equal(dataset.vector(0, "operator")[:, 0], PERSON)
    assert dataset.vector(2, "operator").all()  # a demonstration is a person's
    assert [episode.ended for episode in dataset.episodes] == ["camera", "end", ""]
    assert dataset.vector_dimensions("operator").names == ("operator",)


def test_only_the_corrections_are_selected(folder: Path) -> None:
    plain, view = open_dataset(folder), open_demonstrations(folder, {"operator": "person"})
    assert view.lengths.tolist() == [5, 3, 8]
    assert [episode.index for episode in view.episodes] == [0, 0, 2]
    np.testing.assert_array_equal(view.action(1), plain.action(0)[15:18])
    np.testing.assert_array_equal(view.state(0), plain.state(0)[6:11])
    np.testing.assert_array_equal(view.frame(1, 2, "top"), plain.frame(0, 17, "top"))
    offsets = plain.frame_offsets(0, "top")
    assert offsets is not None
    np.testing.assert_array_equal(view.frame_offsets(1, "top"), offsets[15:18])
    assert view.frame_key(0, "top") != view.frame_key(1, "top")
    assert choose_episodes("episodes", [0], view) == [0, 1]


def test_what_the_policy_did_is_selected(folder: Path) -> None:
    view = open_demonstrations(folder, {"operator": "policy"})
    assert view.lengths.tolist() == [6, 4, 2, 12]


def test_what_came_before_a_failure_is_left_out(folder: Path) -> None:
    seconds = 3 / SCHEMA.rate
    view = open_demonstrations(folder, {"before_failure": seconds})
    plain = open_dataset(folder)
    # the three steps before each takeover, and the last ones before the fault; a person's stay
    assert view.lengths.tolist() == [3, 6, 3, 12, 8]
    np.testing.assert_array_equal(view.action(0), plain.action(0)[:3])
    np.testing.assert_array_equal(view.action(1), plain.action(0)[6:12])
    both = open_demonstrations(folder, {"before_failure": seconds, "operator": "policy"})
    assert both.lengths.tolist() == [3, 12]


def test_stretches_of_one_episode_are_held_out_together(folder: Path) -> None:
    for seed in range(4):
        module = DemonstrationDataModule(
            folder, 2, 2, held_out_fraction=0.5, seed=seed, select={"operator": "person"}
        )
        index = [episode.index for episode in module.dataset.episodes]
        train = {index[episode] for episode in module.train_episodes}
        held_out = {index[episode] for episode in module.held_out_episodes}
        assert train
        assert held_out
        assert not train & held_out


@pytest.mark.parametrize(
    "select", [{"operator": "robot"}, {"before_failure": -1}, {"before_failure": "1 s"}]
)
def test_an_impossible_choice_is_refused(folder: Path, select: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"select\.(operator|before_failure)="):
        open_demonstrations(folder, select)


def test_nothing_left_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="leave no step"):
        open_demonstrations(folder, {"episodes": [1], "operator": "person"})
