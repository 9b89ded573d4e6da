"""Statistics compared with numpy over all episodes concatenated."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from act_policy.data.dataset import Episode, lengths_of
from act_policy.data.statistics import check_finite, compute_statistics
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_schema


def dataset_of(states, actions=None):
    """Make a dataset of arrays in memory, without images."""
    actions = states if actions is None else actions
    episodes = [
        Episode(f"episode_{i}.hdf5", i, len(state), Path("folder") / f"episode_{i}.hdf5")
        for i, state in enumerate(states)
    ]
    return SimpleNamespace(
        schema=make_schema(size=states[0].shape[1]),
        episodes=episodes,
        lengths=lengths_of(episodes),
        last_index=len(states) - 1,
        folder=Path("folder"),
        vector_names=(),
        left_out={},
        notes=[],
        key_steps=no_image,
        state=lambda e: states[e],
        action=lambda e: actions[e],
        timestamps=no_image,
        image_times=no_image,
        instructions=no_image,
        environment=no_image,
        vector=no_image,
        vector_dimensions=no_image,
        frame=no_image,
        frame_offsets=no_image,
        image_file=no_image,
        frame_key=no_image,
        close=no_image,
    )


def no_image(*_):
    raise AssertionError("statistics need no image")


@given(
    st.lists(
        npst.arrays(
            np.float32,
            st.tuples(st.integers(1, 9), st.just(3)),
            elements=st.floats(-1e4, 1e4, width=32),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_statistics_equal_those_of_all_episodes_concatenated(states):
    statistics = compute_statistics(dataset_of(states), range(len(states)))

    every = np.concatenate(states).astype(np.float64)
    assert statistics.step_count == len(every)
    assert statistics.state.mean.dtype == statistics.state.std.dtype == np.float64
    np.testing.assert_allclose(statistics.state.mean, every.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(statistics.state.std, every.std(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(statistics.state.min, every.min(axis=0))
    np.testing.assert_array_equal(statistics.state.max, every.max(axis=0))


def test_only_the_given_episodes_count():
    states = [np.full((4, 3), value, np.float32) for value in (1, 2, 30)]
    statistics = compute_statistics(dataset_of(states), [0, 1])
    np.testing.assert_allclose(statistics.action.mean, 1.5)
    np.testing.assert_allclose(statistics.action.max, 2)
    assert statistics.step_count == 8


def test_a_small_deviation_around_a_large_mean_stays_exact():
    values = (1e6 + np.array([[0.0], [0.0625], [0.125]])).astype(np.float32)
    statistics = compute_statistics(dataset_of([values]), [0])
    np.testing.assert_allclose(statistics.state.std, values.astype(np.float64).std(axis=0))


def test_constant_dimensions_are_divided_by_the_floor_and_restored():
    rng = np.random.default_rng(0)
    values = np.stack(
        [np.full(5000, 0.3), rng.normal(0, 1e-5, 5000), rng.normal(0, 50, 5000)], axis=1
    ).astype(np.float32)
    statistics = compute_statistics(dataset_of([values[:2000], values[2000:]]), [0, 1])

    scale = statistics.scale(statistics.state)
    np.testing.assert_array_equal(scale[:2], [1e-2, 1e-2])
    normalised = (values - statistics.state.mean) / scale
    assert np.isfinite(normalised).all()
    assert np.abs(normalised[:, :2]).max() < 0.01
    np.testing.assert_allclose(normalised[:, 2].std(), 1, rtol=1e-6)
    back = normalised * scale + statistics.state.mean
    np.testing.assert_allclose(back[:, 0], 0.3, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["state", "action"])
def test_a_value_that_is_not_finite_is_named_by_file_step_and_dimension(value, field):
    good = [np.zeros((5, 3), np.float32) for _ in range(3)]
    bad = [array.copy() for array in good]
    bad[1][3, 2] = value
    dataset = dataset_of(bad, good) if field == "state" else dataset_of(good, bad)
    with pytest.raises(UserError, match=rf"episode_1.hdf5: {field} j2 at step 3 is {value}"):
        check_finite(dataset)
    with pytest.raises(UserError, match="episode_1"):
        compute_statistics(dataset, [0, 1, 2])
    assert compute_statistics(dataset, [0, 2]).step_count == 10


def test_kinds_of_actions_are_those_of_the_given_episodes():
    time = np.arange(61)[:, None] / 10
    path = np.sin(time * [1.0, 1.3, 0.7] + [0, 1, 2]).astype(np.float32)
    targets, changes = path[1:], np.diff(path, axis=0)
    dataset = dataset_of([path[:-1]] * 4, [targets, changes, targets, changes])
    assert compute_statistics(dataset, [0, 2]).action_kinds == ("position",) * 3
    assert compute_statistics(dataset, [1, 3]).action_kinds == ("displacement",) * 3
    assert compute_statistics(dataset, [0, 1, 2, 3]).action_kinds == ("",) * 3


@pytest.mark.parametrize("floor", [0.0, -1.0, float("nan")])
def test_a_floor_that_is_not_positive_is_refused(floor):
    with pytest.raises(UserError, match="std_floor"):
        compute_statistics(dataset_of([np.zeros((2, 1), np.float32)]), [0], floor)
