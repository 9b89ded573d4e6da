"""Blend a chunk into the next: both give an action for this moment, and the two are mixed."""

from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-6  # of a step: the error of a whole number of steps


@dataclass(frozen=True)
class Trajectory:
    """A chunk in time.

    captured: when the images were taken that it was predicted from, in seconds.
    begin: the moment for which row 0 was meant.
    chunk: (k, a).
    rate: rows per second.
    """

    captured: float
    begin: float
    chunk: np.ndarray
    rate: float

    def at(self, now: float, jumps: np.ndarray, between: bool) -> np.ndarray | None:
        """Return the action (a,) for this moment; None outside the chunk.

        Args:
            now: in seconds.
            jumps: (a,), dimensions that take the row in force and are never interpolated.
            between: interpolate between rows, else take the nearest.
        """
        place = (now - self.begin) * self.rate + _ROUNDING
        if -1 < place < 0:
            place = 0.0  # images that are taken while a tick runs are younger than the tick
        row = int(np.floor(place if between else place + 0.5))
        if not 0 <= row < len(self.chunk):
            return None
        action: np.ndarray = self.chunk[row].astype(np.float64)
        if between and row + 1 < len(self.chunk):
            following = action + (place - row) * (self.chunk[row + 1] - action)
            action = np.where(jumps, action, following)
        return action


def blend(earlier: np.ndarray, newer: np.ndarray, weight: float, jumps: np.ndarray) -> np.ndarray:
    """Mix two actions (a,) meant for the same moment; dimensions that jump take the newer one.

    Args:
        earlier: from the chunk that is being left.
        newer: from the chunk that takes over.
        weight: of the newer one, above 0 and below 1.
        jumps: (a,), grippers, switches and angles that wrap.
    """
    return np.where(jumps, newer, earlier + weight * (newer - earlier))
