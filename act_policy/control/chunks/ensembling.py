"""Temporal ensembling: one action from all the chunks that predicted it."""

from collections import deque

import numpy as np

from act_policy.errors import UserError


class TemporalEnsembler:
    """Average every prediction that was made for the present step.

    With i = 0 the oldest of the predictions a_0 .. a_n for the present step,

        action = sum_i w_i a_i / sum_i w_i,   w_i = exp(-coefficient * i)

    so a positive coefficient trusts old predictions more, and 0 is the plain mean. Every
    prediction counts, whatever its value: an action that is exactly zero is one as well.

    Source: Zhao et al. 2023 (ACT), section IV-B.
    """

    def __init__(self, chunk_length: int, coefficient: float = 0.01):
        if not np.isfinite(coefficient):
            raise UserError(f"ensemble_coefficient: found {coefficient}, expected a finite number")
        self.chunk_length = chunk_length
        self.coefficient = coefficient
        # The oldest chunk that still says something about the present step is chunk_length - 1
        # steps old, so chunk_length chunks are all that is ever needed.
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
        exponents = -self.coefficient * np.arange(len(predictions))
        weights = np.exp(exponents - exponents.max())  # the largest is 1: no overflow, no 0/0
        action: np.ndarray = (weights @ predictions / weights.sum()).astype(chunk.dtype)
        return action
