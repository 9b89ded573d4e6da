"""Open-loop errors: numbers worked out by hand on a policy and demonstrations made for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.open import open_dataset
from act_policy.evaluation.open_loop.baselines import HoldStill, NearestDemonstration, Pool
from act_policy.evaluation.open_loop.score import HOLD_STILL, NEAREST, POLICY, score_open_loop
from act_policy.execution import Execution
from act_policy.types import Camera, Schema

SCHEMA = Schema(
    cameras=(Camera("top", 4, 6),),
    state_names=("elbow", "grip"),
    state_units=("rad", "mm"),
    action_names=("elbow", "spin"),  # the elbow is a state too, spinning is not
    action_units=("rad", "rad/s"),
    rate=10.0,
)


def write(
    folder: Path, states: list[np.ndarray], actions: list[np.ndarray]
) -> DemonstrationDataset:
    """The brightness of the first pixel is the step's number."""
    for episode, (state, action) in enumerate(zip(states, actions, strict=True)):
        images = np.zeros((len(state), 4, 6, 3), np.uint8)
        images[:, 0, 0, 0] = np.arange(len(state))
        path = folder / f"episode_{episode:06}.hdf5"
        write_episode(path, SCHEMA, {"top": images}, state, action, seed=episode)
    return open_dataset(folder)


@pytest.fixture
def dataset(tmp_path: Path) -> DemonstrationDataset:
    """Episode 0: elbow 0, 1, 2 follows its action one step late. Episode 1 lies 10 higher."""
    state = np.array([[0, 5], [1, 5], [2, 5]], np.float32)
    action = np.array([[1, 7], [2, 7], [3, 8]], np.float32)
    return write(tmp_path / "data", [state, state + 10], [action, action + 10])


class Counting:
    """Predicts spin 7 and elbow = step + 1.5 + place in the chunk; reads the step off the image."""

    schema = SCHEMA
    chunk_length = 4
    statistics, demonstration_seeds, execution = None, (), Execution()

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        step = observation.images["top"][:, 0, 0, 0].astype(np.float32)
        elbow = step[:, None] + 1.5 + np.arange(4)
        return np.stack([elbow, np.full_like(elbow, 7)], axis=-1).astype(np.float32)


def test_errors_in_physical_units_by_hand(dataset: DemonstrationDataset) -> None:
    result = score_open_loop(Counting(), dataset, [0], Pool(dataset, [1], "episode 1"))
    # horizon 1 from steps 0, 1, 2; 2 from steps 0, 1; 3 from step 0; no episode reaches 4
    np.testing.assert_array_equal(result.counts, [3, 2, 1, 0])
    policy = result.errors[POLICY]
    np.testing.assert_allclose(policy[:3, 0], 0.5)
    np.testing.assert_allclose(policy[:3, 1], [1 / 3, 1 / 2, 1])  # only the last spin is 8
    assert np.isnan(policy[3]).all()
    # holding the elbow: 1, 2, 3 away; no spin: 7, 7 and 8 away
    hold = result.errors[HOLD_STILL]
    np.testing.assert_allclose(hold[:3, 0], [1, 2, 3])
    np.testing.assert_allclose(hold[:3, 1], [(7 + 7 + 8) / 3, (7 + 8) / 2, 8])
    # the state nearest to any of episode 0 is the first one of episode 1: elbow 11, 12, 13
    nearest = result.errors[NEAREST]
    np.testing.assert_allclose(nearest[:3, 0], [np.mean([10, 9, 8]), np.mean([10, 9]), 10])
    np.testing.assert_allclose(result.of_joints(POLICY), [0.5, (1 + 1 + 1) / 6])
    np.testing.assert_allclose(result.scale, dataset.action(1).std(axis=0), rtol=1e-6)
    assert result.normalised(POLICY) == pytest.approx(
        np.mean([0.5, 0.5] / dataset.action(1).std(axis=0))
    )
    assert result.held == {"elbow": "state", "spin": "zero"}


def test_what_is_written(dataset: DemonstrationDataset) -> None:
    written = score_open_loop(Counting(), dataset, [0], None).to_dict()
    assert written["data"]["episodes"] == ["episode_000000.hdf5"]
    assert written["data"]["chunks"] == 3
    assert written["units"] == {"elbow": "rad", "spin": "rad/s"}
    assert written["nearest_demonstration_from"] is None
    assert set(written["errors"]) == {POLICY, HOLD_STILL}
    assert written["errors"][POLICY]["horizon"]["elbow"] == [0.5, 0.5, 0.5, None]
    assert written["errors"][POLICY]["joints"] == {"elbow": 0.5, "spin": 0.5}


def test_a_limited_number_of_chunks_is_spread_over_all_episodes(
    dataset: DemonstrationDataset,
) -> None:
    result = score_open_loop(Counting(), dataset, [0, 1], None, chunks=3)
    assert [(c.episode, c.step) for c in result.chunks] == [(0, 0), (0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("unit", "shown", "held"),
    [
        ("rad", "position", "state"),
        ("rad", "target", "state"),
        ("rad", "", "state"),
        ("rad", "displacement", "zero"),
        ("rad", "velocity", "zero"),
        ("rad", "motion", "zero"),
        ("m/s", "target", "zero"),
        ("m/step", "", "zero"),
        ("deg", "", "last action"),
    ],
)
def test_holding_still_is_right_for_each_kind(unit: str, shown: str, held: str) -> None:
    schema = replace(SCHEMA, action_units=(unit, "rad"))
    states = np.array([[0.5, 1], [0.6, 1]], np.float32)
    actions = np.array([[2, 3], [4, 5]], np.float32)
    hold = HoldStill(schema, (shown, ""))
    chunks = hold.predict(states, actions, np.array([0, 1]), 3)
    assert chunks.shape == (2, 3, 2)
    assert hold.repeats == {"elbow": held, "spin": "last action"}
    elbow = {"state": [0.5, 0.6], "zero": [0, 0], "last action": [np.nan, 2]}[held]
    expected = np.stack([elbow, [np.nan, 3]], axis=-1)  # no action before the first step
    np.testing.assert_allclose(chunks, expected[:, None].repeat(3, axis=1), rtol=1e-6)


def test_doing_nothing_is_as_good_as_not_moving_where_actions_are_differences(
    tmp_path: Path,
) -> None:
    """A policy that never moves is no better than doing nothing, in every unit of the action."""
    time = np.arange(61)[:, None] / 10
    path = np.sin(time * [1.0, 1.3] + [0, 1]).astype(np.float32)
    schema = replace(
        SCHEMA, action_names=SCHEMA.state_names, state_units=("", ""), action_units=("", "")
    )
    for episode in range(4):
        images = np.zeros((60, 4, 6, 3), np.uint8)
        actions = np.diff(path, axis=0)
        write_episode(
            tmp_path / f"episode_{episode}.hdf5", schema, {"top": images}, path[:-1], actions
        )
    dataset = open_dataset(tmp_path)

    class Resting(Counting):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            return np.zeros((len(observation.state), 4, 2), np.float32)

    Resting.schema = schema
    result = score_open_loop(Resting(), dataset, [0], Pool(dataset, [1, 2, 3], "others"))
    assert result.held == {"elbow": "zero", "grip": "zero"}
    assert result.normalised(POLICY) == pytest.approx(result.normalised(HOLD_STILL))


def test_the_nearest_demonstration_is_never_the_episode_itself(
    dataset: DemonstrationDataset,
) -> None:
    nearest = NearestDemonstration(Pool(dataset, [0, 1], "both"), 2)
    chunks = nearest.predict(dataset, 0, dataset.state(0)[2:])
    np.testing.assert_allclose(chunks, [[[11, 17], [12, 17]]])
    # in another dataset nothing is left out
    again = open_dataset(dataset.folder)
    np.testing.assert_allclose(nearest.predict(again, 0, again.state(0)[2:]), [[[3, 8], [3, 8]]])


def test_demonstrations_of_another_robot_are_refused(dataset: DemonstrationDataset) -> None:
    class Other(Counting):
        schema = Schema(
            **{**vars(SCHEMA), "action_names": ("wrist", "spin"), "cameras": (Camera("top", 8, 8),)}
        )

    with pytest.raises(UserError, match=r"differ: cameras.*action_names.*wrist"):
        score_open_loop(Other(), dataset, [0], None)


@pytest.mark.parametrize("name", ["lerobot_dataset_v3_0", "lerobot_dataset_v2_1", "aloha_hdf5"])
def test_demonstrations_of_every_format_can_be_scored(samples: Path, name: str) -> None:
    """Against a policy that always says zero: its error is the mean size of the actions."""
    dataset = open_dataset(samples / name)

    class Zero:
        schema = dataset.schema
        chunk_length = 2
        statistics, demonstration_seeds, execution = None, (), Execution()

        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            self.schema.check(observation)
            return np.zeros((len(observation.state), 2, self.schema.action_size), np.float32)

    result = score_open_loop(Zero(), dataset, [1], Pool(dataset, [0], "the other"), chunks=5)
    actions = dataset.action(1)[[chunk.step for chunk in result.chunks]]
    np.testing.assert_allclose(result.errors[POLICY][0], np.abs(actions).mean(axis=0), rtol=1e-5)
    assert 4 <= len(result.chunks) <= 5
    dataset.close()
