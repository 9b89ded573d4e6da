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
    """Pass into a new chunk over a number of steps, and make up for what else would be a step.

    The share of the new action grows in equal parts, one per command: a motor that gets more
    commands than the policy has steps gets smaller ones. Switches and wrapping angles change at
    once.

    Args:
        steps: of the policy; 0 changes at once.
        rate: steps per second.
        period: seconds between two commands.
        max_age: seconds after which the earlier chunk no longer counts.
    """

    def __init__(self, steps: int, rate: float, period: float, space: ActionSpace, max_age: float):
        self._steps, self._span = steps, steps + 1.0
        self._rate, self._tick = rate, period * rate
        self._jumps, self._positions, self._max_age = space.jumps, space.positions, max_age
        self._smooth = None if abs(self._tick - 1) < _ROUNDING else ~space.jumps
        self._since = -np.inf
        self._earlier: Trajectory | None = None
        self._last: np.ndarray | None = None  # the action that was handed out
        self._moved: np.ndarray | float = 0.0  # its difference from the one before it
        self._apart: np.ndarray | None = None  # (a,) from the new chunk's to the earlier's action
        # from where the next action passes on, and in how many steps
        self._here: tuple[np.ndarray, float] | None = None
        self._missing: list[tuple[float, float, np.ndarray]] = []  # since, steps, way back (a,)

    def action_of(self, trajectory: Trajectory, now: float) -> np.ndarray | None:
        """Return a chunk's own action (a,) for this moment; None outside the chunk."""
        return trajectory.at(now, self._rate, self._smooth)

    def passed(self, now: float) -> bool:
        """Whether another chunk may follow, since the last has passed in."""
        return self._share(now, self._since, self._span) >= 1 - _ROUNDING

    def follow(self, now: float, earlier: Trajectory | None) -> None:
        """Pass out of a chunk from now on; None for the first."""
        self._since, self._earlier, self._apart = now, earlier, None

    def leave_rest(self) -> None:
        """Pass out of rest over the same steps: positions are where they were left, motions 0."""
        if self._last is not None:
            self._earlier, self._missing = None, []
            self._here = np.where(self._positions, self._last, 0.0), self._span

    def bridge(self) -> None:
        """Pass over a change within one step of the policy: an ensemble has other chunks now."""
        if self._last is not None and self._here is None:
            self._here = self._last + self._moved, 1.0  # it goes on as it did

    def mix(self, now: float, action: np.ndarray) -> np.ndarray:
        """Return the action (a,) on the way to the given one."""
        wanted = self._after_earlier(now, action)
        missing = [each for each in self._missing if self._share(now, *each[:2]) < 1]
        for since, steps, way in missing:
            wanted = wanted + (1 - self._share(now, since, steps)) * way
        if self._here is not None:
            here, steps = self._here
            way, left = here - wanted, 1 - self._share(now, now, steps)
            missing.append((now, steps, way))
            wanted = wanted + max(0.0, left) * way
        self._here, self._missing = None, missing
        wanted = np.where(self._jumps, action, wanted)
        self._moved = 0.0 if self._last is None else wanted - self._last
        self._last = wanted
        return wanted

    def _after_earlier(self, now: float, action: np.ndarray) -> np.ndarray:
        """Return the action (a,) between the earlier chunk's and the given one."""
        earlier, share = self._earlier, self._share(now, self._since, self._span)
        if earlier is None or self._steps == 0 or share >= 1:
            self._earlier = None
            return action
        before = self.action_of(earlier, now)
        if before is not None and now - earlier.captured <= self._max_age:
            self._apart = before - action
        elif self._apart is None:  # it ended with the command before
            if self._last is None:
                return action
            self._apart = self._last + self._moved - action
            self._missing = []  # the last action held what was missing
        return action + (1 - share) * self._apart  # once it is over, as far apart as it was

    def _share(self, now: float, since: float, steps: int | float) -> float:
        """Return the share of the new action."""
        return ((now - since) * self._rate + self._tick) / steps
