"""Which demonstrations a policy is scored on: counted as on disk, whatever the run selected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.data.aloha.episode import write_episode
from act_policy.data.selection.demonstrations import RunReading
from act_policy.evaluation.open_loop.run_data import RunData, open_run_data, scored_data
from act_policy.types import Camera, Schema

SCHEMA = Schema((Camera("top", 4, 6),), ("x",), ("m",), ("x",), ("m",), rate=10.0)
SELECT = {"exclude": [0]}


def write(folder: Path, episodes: int, schema: Schema = SCHEMA) -> Path:
    """Episode i has 4 + i steps."""
    for episode in range(episodes):
        values = np.arange(4 + episode, dtype=np.float32)[:, None]
        images = {c: np.zeros((4 + episode, 4, 6, 3), np.uint8) for c in schema.camera_names}
        path = folder / f"episode_{episode:06d}.hdf5"
        write_episode(path, schema, images=images, state=values, action=values)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    data: dict[str, Any] = {"path": str(write(tmp_path / "own", 4)), "select": SELECT}
    data |= {"held_out_episodes": [2], "cache": None}
    found = open_run_data({"data": data}, None)
    assert found is not None
    return found


def test_episodes_are_chosen_by_index_on_disk_or_name(run):
    scored = scored_data(SCHEMA, None, [2, "episode_000003"], RunReading(select=SELECT), run)
    assert scored.episodes is not None
    assert scored.dataset.lengths[scored.episodes].tolist() == [6, 7]
    assert scored.says == "2 chosen episodes, 1 of which were trained on"
    with pytest.raises(UserError, match=r"data\.episodes: episodes \[0\] are not among"):
        scored_data(SCHEMA, None, [0], RunReading(select=SELECT), run)


def test_a_camera_that_the_policy_does_not_have_is_left_alone(run, tmp_path):
    more = replace(SCHEMA, cameras=(Camera("wrist", 4, 6), *SCHEMA.cameras))
    other = str(write(tmp_path / "other", 1, more))
    reading = RunReading.from_config({"data": {"cameras": None, "select": SELECT}})
    assert scored_data(SCHEMA, other, None, reading, run).dataset.schema == SCHEMA


def test_what_the_run_left_out_of_its_folder_is_scored_in_another_one(run, tmp_path):
    other = str(write(tmp_path / "other", 1))
    scored = scored_data(SCHEMA, other, None, RunReading(select=SELECT), run)
    assert scored.episodes == [0]
    assert scored.dataset.lengths.tolist() == [4]


@pytest.mark.parametrize("own", [True, False])
def test_an_empty_list_of_episodes_is_refused(own, run):
    path = None if own else str(run.dataset.folder.parent)
    with pytest.raises(UserError, match=r"data\.episodes=\[\]: expected a list"):
        scored_data(SCHEMA, path, [], RunReading(select=SELECT), run)


def test_one_episode_is_named_in_the_singular(run):
    assert run.says_held_out == "1 episode held out of training"
    scored = scored_data(SCHEMA, None, [1], RunReading(select=SELECT), run)
    assert scored.says == "1 chosen episode, 1 of which were trained on"
