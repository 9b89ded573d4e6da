"""Recorded runs of a policy keep in every format who acted, when, and why they ended."""

import json
from pathlib import Path

import numpy as np
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.conversion.convert import LeRobotWriterConfig, convert
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.types import Camera, Schema

SCHEMA = Schema(
    *((Camera("front", 4, 6), Camera("wrist", 4, 6)), ("a", "b"), ("rad", "rad")),
    *(("a", "b"), ("rad", "rad"), 10.0),
)
ENDED = ("operator stop", "end")
PNG = LeRobotWriterConfig(images="png")


def times_of(episode: int) -> np.ndarray:
    """Uneven, and not to be held by 32 bits."""
    return np.arange(8) / 10 + np.random.default_rng(episode).uniform(0, 0.04, 8) + episode * 1e5


@pytest.fixture
def recorded(tmp_path: Path) -> DemonstrationDataset:
    random = np.random.default_rng(0)
    for episode, ended in enumerate(ENDED):
        times = times_of(episode)
        write_episode(
            tmp_path / "recorded" / f"episode_{episode:06d}.hdf5",
            SCHEMA,
            {c.name: random.integers(0, 255, (8, 4, 6, 3), np.uint8) for c in SCHEMA.cameras},
            *random.normal(size=(2, 8, 2)),
            instruction="close the drawer",
            operator=np.arange(8) >= 5 - 5 * episode,
            timestamps=times,
            image_times={"front": times - 0.02, "wrist": times - 0.09},
            ended=ended,
        )
    return open_dataset(tmp_path / "recorded")


def assert_kept(dataset: DemonstrationDataset) -> None:
    assert [about.ended for about in dataset.episodes] == list(ENDED)
    assert {about.instruction for about in dataset.episodes} == {"close the drawer"}
    for episode in range(2):
        np.testing.assert_array_equal(dataset.timestamps(episode), times_of(episode))
        images = dataset.image_times(episode)
        np.testing.assert_array_equal(images["front"], times_of(episode) - 0.02)
        np.testing.assert_array_equal(images["wrist"], times_of(episode) - 0.09)
        operator = dataset.vector(episode, "operator")[:, 0]
        np.testing.assert_array_equal(operator, np.arange(8) >= 5 - 5 * episode)


def test_there_and_back_and_again(tmp_path: Path, recorded: DemonstrationDataset) -> None:
    assert_kept(recorded)
    assert recorded.left_out == {}
    convert(recorded, tmp_path / "v3", "lerobot_v3", PNG, workers=1)
    between = open_dataset(tmp_path / "v3")
    assert_kept(between)
    assert between.left_out == {}
    assert set(between.vector_names) == {"velocity", "operator"}
    convert(between, tmp_path / "back", "aloha_hdf5", workers=1)
    assert_kept(open_dataset(tmp_path / "back"))
    convert(between, tmp_path / "again", "lerobot_v3", PNG, workers=1)
    assert_kept(open_dataset(tmp_path / "again"))
    for folder in ("recorded", "v3", "back", "again"):  # the first was taken over at step 5
        good = open_demonstrations(tmp_path / folder, {"before_failure": 0.2})
        assert good.lengths.tolist() == [3, 3, 8]


def test_lerobots_own_time_stays_even_and_its_policies_see_no_true_time(
    tmp_path: Path, recorded: DemonstrationDataset
) -> None:
    convert(recorded, tmp_path / "v3", "lerobot_v3", PNG, workers=1)
    between = open_dataset(tmp_path / "v3")
    rows = between.rows(1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(rows.column("timestamp").to_numpy(), np.arange(8) / 10, atol=1e-6)
    features = json.loads((tmp_path / "v3" / "meta" / "info.json").read_text())["features"]
    true = [name for name in features if "capture_time" in name]
    assert true == ["capture_time", "capture_time.front", "capture_time.wrist"]
    assert {features[name]["dtype"] for name in true} == {"float64"}


def test_episodes_without_times_among_others_leave_none(
    tmp_path: Path, recorded: DemonstrationDataset
) -> None:
    zeros = np.zeros((3, 2))
    images = {c.name: np.zeros((3, 4, 6, 3), np.uint8) for c in SCHEMA.cameras}
    write_episode(tmp_path / "recorded" / "episode_000002.hdf5", SCHEMA, images, zeros, zeros)
    convert(open_dataset(tmp_path / "recorded"), tmp_path / "v3", "lerobot_v3", PNG, workers=1)
    between = open_dataset(tmp_path / "v3")
    times = between.timestamps(0)
    assert times is not None
    np.testing.assert_allclose(times, np.arange(8) / 10, atol=1e-6)
    assert between.image_times(0) == {}
    assert [about.ended for about in between.episodes] == [*ENDED, ""]
