"""How punctual a loop is: the time from when a tick was due until its command was sent."""

from array import array
from typing import NamedTuple

import numpy as np


class Punctuality(NamedTuple):
    """Milliseconds from a tick's due time to its command; missed: ticks that took over a period."""

    ticks: int
    p50: float
    p99: float
    worst: float
    missed: int

    def __str__(self) -> str:
        return (
            f"{self.ticks} ticks: p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, "
            f"worst {self.worst:.1f} ms, {self.missed} missed"
        )


class Deadlines:
    """Collects one time a tick.

    Args:
        period: seconds between two ticks.
    """

    def __init__(self, period: float):
        self.period = period
        self._seconds = array("d")

    def add(self, due: float, done: float) -> None:
        """A tick that was due at one moment was done at another."""
        self._seconds.append(done - due)

    def punctuality(self) -> Punctuality:
        """The figures so far."""
        if not self._seconds:
            return Punctuality(0, 0.0, 0.0, 0.0, 0)
        seconds = np.frombuffer(self._seconds)
        p50, p99, worst = np.percentile(seconds, [50, 99, 100]) * 1000
        missed = int((seconds > self.period).sum())
        return Punctuality(len(seconds), float(p50), float(p99), float(worst), missed)
