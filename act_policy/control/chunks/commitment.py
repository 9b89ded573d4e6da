"""The actions that will have been carried out when an answer comes, by the measured latency."""

from collections import deque
from collections.abc import Callable

import numpy as np

MEASURED = 10
"""Answers whose latency counts; the longest of them is expected of the next."""

_ROUNDING = 1e-6  # of a step: the error of a whole number of steps


class Commitment:
    """Foresees the first actions of a chunk that is about to be asked for.

    Row i of a chunk is meant for the moment `captured + i / rate`. Until the answer is there the
    chunk before is in force, so its actions for these moments are committed.

    Args:
        length: most actions that the policy takes, its `prefix_length`.
        action_size: a.
        rate: of the policy, in steps per second.
    """

    def __init__(self, length: int, action_size: int, rate: float):
        self._length, self._action_size, self._rate = length, action_size, rate
        self._latencies: deque[int] = deque(maxlen=MEASURED)  # in steps
        self.reset()

    def reset(self) -> None:
        """Forget what was done; the latency stays what it was."""
        self._done: deque[tuple[float, np.ndarray | None]] = deque()

    def answered(self, captured: float, now: float) -> None:
        """Measure the latency of an answer that came now."""
        self._latencies.append(int(np.ceil((now - captured) * self._rate - _ROUNDING)))

    def acted(self, now: float, action: np.ndarray | None) -> None:
        """Remember what was carried out from now on; None is rest."""
        self._done.append((now, action))
        while self._done[0][0] < now - self._length / self._rate:
            self._done.popleft()

    def foresee(
        self, captured: float, now: float, act: Callable[[float], np.ndarray | None]
    ) -> np.ndarray | None:
        """Return the committed actions, float32 (p, a), NaN where none is; None without any.

        Args:
            captured: when the images were taken that the policy is about to see.
            now: not before `captured`.
            act: the action that will be carried out at a moment from now on; None is rest. It is
                asked in the order of time.
        """
        prefix = np.full((self._length, self._action_size), np.nan, np.float32)
        for i in range(min(self._length, max(self._latencies, default=0))):
            moment = captured + i / self._rate
            is_past = moment < now - _ROUNDING / self._rate
            action = self._at(moment) if is_past else act(moment)
            if action is None:
                break
            prefix[i] = action
        return None if np.isnan(prefix).all() else prefix

    def _at(self, moment: float) -> np.ndarray | None:
        """What was being carried out then."""
        earlier = [action for since, action in self._done if since <= moment + 1e-9]
        return earlier[-1] if earlier else None
