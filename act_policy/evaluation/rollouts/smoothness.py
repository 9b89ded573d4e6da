"""How smoothly a policy moves, compared with the demonstrations that it learned from."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

STILL = 1e-5
"""An action whose demonstrated range is smaller, in its unit, changes by rounding only."""


class Smoothness(NamedTuple):
    """Smoothness of some episodes.

    jerk: third difference of the actions, as a multiple of the demonstrations'.
    jumps: share of the changes from one chunk to the next that are larger than all but one in a
        hundred of the demonstrations' steps; None where no chunk followed another.
    """

    jerk: float
    jumps: float | None


class DemonstratedMotion(NamedTuple):
    """How the demonstrations move.

    jerk: mean absolute third difference, float64 (a,); NaN for an action that is always smooth or
        stands still.
    largest_step: 99th percentile of the absolute changes from step to step, float64 (a,), among
        the steps that change the action; infinite for one that stands still.
    """

    jerk: np.ndarray
    largest_step: np.ndarray

    @classmethod
    def measure(cls, demonstrations: Sequence[Float[np.ndarray, "_ a"]]) -> "DemonstratedMotion":
        """Measure the demonstrations' actions."""
        jerk = _mean_jerk(demonstrations)
        moves = np.max([np.ptp(one, axis=0) for one in demonstrations], axis=0) > STILL
        steps = np.concatenate([np.abs(np.diff(one, axis=0)) for one in demonstrations])
        largest = [
            np.percentile(column[column > 0], 99) if moving else np.inf
            for column, moving in zip(steps.T, moves, strict=True)
        ]
        return cls(np.where(moves & (jerk > 0), jerk, np.nan), np.array(largest, np.float64))

    def compare(
        self, episodes: Sequence[Float[np.ndarray, "_ a"]], execute_steps: int
    ) -> Smoothness:
        """Compare episodes in which a new chunk begins after each `execute_steps` actions."""
        jerk = float(np.nanmean(_mean_jerk(episodes) / self.jerk))
        jumps = [
            (np.abs(one[begin] - one[begin - 1]) > self.largest_step).any()
            for one in episodes
            for begin in range(execute_steps, len(one), execute_steps)
        ]
        return Smoothness(jerk, float(np.mean(jumps)) if jumps else None)


def _mean_jerk(episodes: Sequence[np.ndarray]) -> np.ndarray:
    """Average |third difference| over the steps of all episodes, float64 (a,)."""
    differences = [np.abs(np.diff(one.astype(np.float64), 3, axis=0)) for one in episodes]
    every = np.concatenate(differences)
    return every.mean(axis=0) if len(every) else np.zeros(every.shape[1])
