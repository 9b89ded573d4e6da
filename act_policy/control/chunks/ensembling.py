"""Temporal ensembling: average one step's predictions over all the chunks that cover it."""

from collections import deque

import numpy as np

from act_policy.errors import UserError


def average_predictions(
    predictions: np.ndarray, coefficient: float, steps: np.ndarray
) -> np.ndarray:
    """Average predictions a_j for one moment, of which a_0 is the oldest, made i_j steps after it.

        action = sum_j w_j a_j / sum_j w_j,   w_j = exp(-coefficient * i_j)

    With one prediction per step i_j is j, as in the source; a policy that answers every third step
    has i_j = 3 j, so that a coefficient means the same at any latency.

    A positive coefficient trusts old predictions more, and 0 is the plain mean. Every prediction
    counts, whatever its value: an action that is exactly zero counts too.

    Args:
        predictions: (n, a), the oldest first.
        coefficient: per step.
        steps: (n,), i_j.

    Returns:
        (a,).

    Source: Zhao et al. 2023 (ACT), section IV-B.
    """
    exponents = -coefficient * steps
    weights = np.exp(exponents - exponents.max())  # the largest is 1: no overflow, no 0/0
    return np.asarray(weights @ predictions / weights.sum())


class TemporalEnsembler:
    """Average every prediction that was made for the present step: `average_predictions`.

    Raises:
        UserError: the coefficient is not a finite number.
    """

    def __init__(self, chunk_length: int, coefficient: float = 0.01):
        if not np.isfinite(coefficient):
            raise UserError(f"ensemble_coefficient: found {coefficient}, expected a finite number")
        self.chunk_length = chunk_length
        self.coefficient = coefficient
        # The oldest chunk that covers the present step is chunk_length - 1
        # steps old, so chunk_length chunks are enough.
        self._chunks: deque[np.ndarray] = deque(maxlen=chunk_length)

    def reset(self) -> None:
        """Forget every chunk: a new episode begins."""
        self._chunks.clear()

    def update(self, chunk: np.ndarray) -> np.ndarray:
        """Take the chunk predicted at the present step (k, a); return its action (a,)."""
        if len(chunk) != self.chunk_length:
            raise ValueError(f"a chunk of {len(chunk)} rows, expected {self.chunk_length}")
        self._chunks.append(np.array(chunk))
        oldest_age = len(self._chunks) - 1
        predictions = np.stack(
            [made[oldest_age - i] for i, made in enumerate(self._chunks)], dtype=np.float64
        )
        steps = np.arange(len(predictions))
        return average_predictions(predictions, self.coefficient, steps).astype(chunk.dtype)
