"""Temporal ensembling by hand, against a reference that sees the whole episode at once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy import UserError
from act_policy.control.chunks.ensembling import TemporalEnsembler


def ensemble_offline(chunks: np.ndarray, step: int, coefficient: float) -> np.ndarray:
    """All chunks (T, k, a) at once: the weighted mean of every prediction for one step."""
    length = chunks.shape[1]
    numerator, denominator = np.zeros(chunks.shape[2]), 0.0
    oldest = max(0, step - length + 1)
    for i, made in enumerate(range(oldest, step + 1)):
        weight = math.exp(-coefficient * i)
        numerator += weight * chunks[made, step - made].astype(np.float64)
        denominator += weight
    return numerator / denominator


def test_three_overlapping_predictions_by_hand() -> None:
    ensembler = TemporalEnsembler(3, coefficient=0.5)
    ensembler.update(np.array([[0.0], [0.0], [10.0]]))
    ensembler.update(np.array([[0.0], [20.0], [0.0]]))
    action = ensembler.update(np.array([[40.0], [0.0], [0.0]]))
    w = [1.0, math.exp(-0.5), math.exp(-1.0)]
    assert action == pytest.approx([(w[0] * 10 + w[1] * 20 + w[2] * 40) / sum(w)])


def test_coefficient_zero_is_the_plain_mean() -> None:
    ensembler = TemporalEnsembler(2, coefficient=0.0)
    ensembler.update(np.array([[1.0], [3.0]]))
    assert ensembler.update(np.array([[5.0], [0.0]])) == pytest.approx([4.0])


def test_an_action_of_exactly_zero_counts() -> None:
    ensembler = TemporalEnsembler(2, coefficient=0.0)
    ensembler.update(np.zeros((2, 1)))
    assert ensembler.update(np.full((2, 1), 8.0)) == pytest.approx([4.0])


def test_reset_forgets() -> None:
    ensembler = TemporalEnsembler(4, coefficient=0.01)
    ensembler.update(np.full((4, 2), 100.0))
    ensembler.reset()
    assert ensembler.update(np.full((4, 2), 1.0)) == pytest.approx([1.0, 1.0])


@given(
    length=st.integers(1, 6),
    steps=st.integers(1, 15),
    coefficient=st.sampled_from([-0.3, 0.0, 0.01, 2.0, 800.0]),
    seed=st.integers(0, 1000),
)
def test_on_line_equals_off_line(length: int, steps: int, coefficient: float, seed: int) -> None:
    chunks = np.random.default_rng(seed).normal(size=(steps, length, 3))
    ensembler = TemporalEnsembler(length, coefficient)
    for step in range(steps):
        action = ensembler.update(chunks[step])
        np.testing.assert_allclose(action, ensemble_offline(chunks, step, coefficient), atol=1e-12)


def test_a_later_change_of_the_callers_chunk_changes_nothing() -> None:
    ensembler = TemporalEnsembler(2, coefficient=0.0)
    chunk = np.ones((2, 1))
    ensembler.update(chunk)
    chunk[:] = 99.0
    assert ensembler.update(np.ones((2, 1))) == pytest.approx([1.0])


def test_float32_stays_float32() -> None:
    assert TemporalEnsembler(2).update(np.ones((2, 1), np.float32)).dtype == np.float32


def test_bad_input_is_refused() -> None:
    with pytest.raises(UserError, match="ensemble_coefficient: found nan"):
        TemporalEnsembler(2, math.nan)
    with pytest.raises(ValueError, match="3 rows, expected 2"):
        TemporalEnsembler(2).update(np.ones((3, 1)))
