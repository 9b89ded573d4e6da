"""A chunk in time, and how the arm passes from one into the next without a step."""

from typing import NamedTuple

import numpy as np

from act_policy.control.action_space import ActionSpace

_ROUNDING = 1e-6  # of a step: the error of a whole number of steps


class Trajectory(NamedTuple):
    """A chunk in time.

    captured: when the images were taken that it was predicted from, in seconds.
    begin: the moment for which row 0 was meant.
    chunk: (k, a).
    """

    captured: float
    begin: float
    chunk: np.ndarray

    def at(self, now: float, rate: float, smooth: np.ndarray | None) -> np.ndarray | None:
        """Return the action (a,) for this moment; None outside the chunk.

        Args:
            now: in seconds.
            rate: rows per second.
            smooth: bool (a,), which dimensions to interpolate between the present row and the
                next, where commands are more or less frequent than rows; None takes the nearest.
        """
        place = (now - self.begin) * rate + _ROUNDING
        row = int(np.floor(place + 0.5 if smooth is None else place))
        if not 0 <= row < len(self.chunk):
            return None
        action: np.ndarray = self.chunk[row].astype(np.float64)
        if smooth is not None and row + 1 < len(self.chunk):
            following = action + (place - row) * (self.chunk[row + 1] - action)
            action = np.where(smooth, following, action)
        return action


class Blending:
    """Pass out of an earlier chunk, or out of rest, over a number of steps.

    The share of the new action grows in equal parts, one per command: a motor that gets more
    commands than the policy has steps gets smaller ones. Out of rest, the way that is missing at
    the beginning is made up for in the same parts. Switches and wrapping angles change at once.

    Args:
        steps: of the policy; 0 changes at once.
        rate: steps per second.
        period: seconds between two commands.
        max_age: seconds after which the earlier chunk no longer counts.
    """

    def __init__(self, steps: int, rate: float, period: float, space: ActionSpace, max_age: float):
        self._steps, self._rate, self._tick = steps, rate, period * rate
        self._jumps, self._positions, self._max_age = space.jumps, space.positions, max_age
        self._smooth = None if abs(self._tick - 1) < _ROUNDING else ~space.jumps
        self._since, self._passes = -np.inf, False
        self._earlier: Trajectory | None = None
        self._missing: np.ndarray | None = None  # (a,) from the new action to where the arm rests
        self._last: np.ndarray | None = None  # the action that was handed out

    def action_of(self, trajectory: Trajectory, now: float) -> np.ndarray | None:
        """Return a chunk's own action (a,) for this moment; None outside the chunk."""
        return trajectory.at(now, self._rate, self._smooth)

    def passed(self, now: float) -> bool:
        """Whether another chunk may follow, since the last has passed in."""
        return self._share(now) >= 1 - _ROUNDING

    def begin(self, now: float, earlier: Trajectory | None) -> None:
        """Pass out of a chunk from now on; None passes out of rest, where the arm is by now."""
        self._since, self._earlier, self._missing = now, earlier, None
        self._passes = self._steps > 0 and self._last is not None

    def mix(self, now: float, action: np.ndarray) -> np.ndarray:
        """Return the action (a,) on the way to the given one."""
        share, wanted = self._share(now), action
        if self._passes and self._last is not None and share < 1:
            before = self._before(now)
            if before is not None:
                wanted = before + share * (action - before)
            else:  # positions are where they were left, and motions are zero
                if self._missing is None:
                    here = np.where(self._positions, self._last, 0.0)
                    self._missing = (here - action) / (1 - share + self._tick / (self._steps + 1))
                wanted = action + (1 - share) * self._missing
        self._last = np.where(self._jumps, action, wanted)
        return self._last

    def _share(self, now: float) -> float:
        """Return the share of the new action."""
        return ((now - self._since) * self._rate + self._tick) / (self._steps + 1)

    def _before(self, now: float) -> np.ndarray | None:
        """Return what the earlier chunk says (a,); None once it is over or too old."""
        earlier = self._earlier
        if earlier is not None and now - earlier.captured <= self._max_age:
            before = self.action_of(earlier, now)
            if before is not None:
                return before
        self._earlier = None
        return None
