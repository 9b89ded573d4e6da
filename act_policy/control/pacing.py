"""Let a loop turn once per period, and measure how punctual it is."""

import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

WATCHED_TIME = 2.0
"""Seconds over which a loop's rate is measured."""


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


class RateWatch:
    """Watch that a loop looks as often as it should.

    One late turn alone does not count: that is for `max_tick_time`.

    Args:
        rate: looks per second that are wanted.
        slowest: share of it that must be kept; 0 does not watch.
    """

    def __init__(self, rate: float, slowest: float):
        self._rate, self._slowest = rate, slowest
        self._then: float | None = None
        self._seconds: deque[float] = deque()  # of the latest turns

    def turn(self, now: float) -> str:
        """Note a turn that looks; say that the loop is too slow, or "" while it is not."""
        if self._slowest == 0:
            return ""
        if self._then is not None:
            self._seconds.append(now - self._then)
        self._then, seconds = now, self._seconds
        while seconds and sum(seconds) - seconds[0] > WATCHED_TIME:
            seconds.popleft()
        usual = sum(seconds) - max(seconds, default=0.0)
        if sum(seconds) < 0.9 * WATCHED_TIME or usual <= 0:
            return ""
        rate = (len(seconds) - 1) / usual
        if rate >= self._slowest * self._rate:
            return ""
        return (
            f"the loop looks {rate:.1f} times a second instead of {self._rate:g}, as the robot's "
            "calls or other programs take too long (safety.slowest_rate)"
        )
