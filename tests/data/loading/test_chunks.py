"""Chunk targets and the split, compared with the simplest possible loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy.data.loading.batches import chunk_rows
from act_policy.data.loading.datamodule import split_episodes
from act_policy.errors import UserError


@given(st.data(), st.integers(1, 30), st.integers(1, 40))
def test_a_chunk_is_the_slice_with_its_last_row_repeated(data, length, chunk_length):
    step = data.draw(st.integers(0, length - 1))
    actions = np.arange(length * 2, dtype=np.float32).reshape(length, 2)

    rows, is_pad = chunk_rows(np.array([step]), np.array([length - 1]), chunk_length)

    there = actions[step : step + chunk_length]
    padding = chunk_length - len(there)
    np.testing.assert_array_equal(
        actions[rows[0]], np.concatenate([there, np.repeat(actions[-1:], padding, axis=0)])
    )
    np.testing.assert_array_equal(is_pad[0], [False] * len(there) + [True] * padding)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 15))
def test_no_chunk_reaches_into_the_next_episode(lengths, chunk_length):
    episode_of = np.repeat(np.arange(len(lengths)), lengths)
    last = np.cumsum(lengths) - 1
    frames = np.arange(sum(lengths))

    rows, is_pad = chunk_rows(frames, last[episode_of], chunk_length)

    assert rows.shape == is_pad.shape == (sum(lengths), chunk_length)
    assert (episode_of[rows] == episode_of[frames][:, None]).all()
    assert (rows[~is_pad] - np.broadcast_to(frames[:, None], rows.shape)[~is_pad] >= 0).all()
    assert not is_pad[:, 0].any()


@given(st.integers(1, 60), st.floats(0, 0.99), st.integers(0, 5))
def test_the_split_has_every_episode_once_and_leaves_one_to_train_on(count, fraction, seed):
    train, held_out = split_episodes(count, fraction, seed)

    assert sorted([*train, *held_out]) == list(range(count))
    assert len(train) >= 1
    assert (len(held_out) >= 1) == (fraction > 0 and count > 1)
    again = split_episodes(count, fraction, seed)
    np.testing.assert_array_equal(train, again[0])


def test_the_split_depends_on_the_seed():
    splits = {tuple(split_episodes(50, 0.1, seed)[1]) for seed in range(5)}
    assert len(splits) == 5
    assert all(len(held_out) == 5 for held_out in splits)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 10.0])
def test_an_invalid_fraction_is_refused(fraction):
    with pytest.raises(UserError, match="held_out_fraction"):
        split_episodes(10, fraction, 0)
