"""Let a loop turn once per period, and measure how punctual it is."""

import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Punctuality(NamedTuple):
    """Milliseconds from a tick's due time to its end; missed: ticks that took over a period."""

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


class Pacer:
    """Sleep between two ticks; the first is due when the pacer is made.

    Args:
        period: seconds between two ticks.
        clock: in seconds.
        sleep: called with the seconds until the next tick.
    """

    def __init__(
        self,
        period: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._period, self._clock, self._sleep = period, clock, sleep
        self.begun = self._due = clock()
        self._seconds = array("d")  # from the due time of a tick to its end

    def wait(self) -> None:
        """End a tick, and sleep until the next one is due.

        A loop that is late does not make up for lost ticks: that would be a jerk.
        """
        done = self._clock()
        self._seconds.append(done - self._due)
        self._due = max(self._due + self._period, done)
        self._sleep(max(0.0, self._due - self._clock()))

    def punctuality(self) -> Punctuality:
        """Summarise the ticks so far."""
        if not self._seconds:
            return Punctuality(0, 0.0, 0.0, 0.0, 0)
        seconds = np.frombuffer(self._seconds)
        p50, p99, worst = np.percentile(seconds, [50, 99, 100]) * 1000
        missed = int((seconds > self._period).sum())
        return Punctuality(len(seconds), float(p50), float(p99), float(worst), missed)
