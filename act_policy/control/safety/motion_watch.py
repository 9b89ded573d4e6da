"""Watch the measured motion: an encoder that leaps, and an arm that does not follow."""

from collections import deque

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.config import SafetyConfig


class MotionWatch:
    """Compare what is measured with what was measured and what was sent.

    An arm follows its commands late and not quite: compared are the ends of the stretch that it
    covered within tracking_time with those of the stretch that it was sent to. A switch is left
    out, since a gripper that holds something does not reach its command.
    """

    def __init__(self, space: ActionSpace, config: SafetyConfig):
        self._space, self._config = space, config
        self._follows = np.array([kind == "position" for kind in space.kinds])
        self.reset()

    def reset(self) -> None:
        """Forget the past: the arm was not being moved."""
        self._past: deque[tuple[float, np.ndarray, np.ndarray]] = deque()
        self._astray_since = np.full(len(self._space.names), np.inf)

    def leaps(
        self, before: np.ndarray, position: np.ndarray, seconds: float, at_rest: bool = False
    ) -> list[str]:
        """Describe each joint that was measured further away than it can have moved.

        Args:
            before: measured at the observation before (a,), NaN where nothing measures it.
            position: measured now (a,).
            seconds: between the two.
            at_rest: the arm is not being moved, so that leap_distance does not count.
        """
        space = self._space
        margin = 0.0 if at_rest else self._config.leap_distance * space.scale
        far = np.abs(space.difference(position, before)) > space.max_speed * seconds + margin
        return [
            f"{space.names[i]} went from {before[i]:.4g} to {position[i]:.4g} {space.units[i]} "
            "between two observations"
            for i in np.flatnonzero(far)
        ]

    def not_following(self, now: float, command: np.ndarray, position: np.ndarray) -> list[str]:
        """Describe each joint that has not followed its commands for tracking_time.

        Args:
            now: in seconds.
            command: the last that the robot took (a,), NaN where there is none.
            position: measured now (a,), NaN where nothing measures it.
        """
        space, limit = self._space, self._config.tracking_time
        if limit == 0 or np.isnan(command[self._follows]).any():
            return []
        self._past.append((now, command, position))
        while self._past[0][0] < now - limit:
            self._past.popleft()
        sent = space.difference(np.stack([sent for _, sent, _ in self._past]), position)
        been = space.difference(np.stack([been for _, _, been in self._past]), position)
        with np.errstate(invalid="ignore"):
            error = np.maximum(
                np.abs(sent.min(axis=0) - been.min(axis=0)),
                np.abs(sent.max(axis=0) - been.max(axis=0)),
            )
            far = (error > self._config.tracking_error * space.scale) & self._follows
        self._astray_since = np.where(far, np.minimum(self._astray_since, now), np.inf)
        astray = now - self._astray_since
        return [
            f"{space.names[i]} has not followed its commands for {astray[i]:.1f} s: it was sent to "
            f"{command[i]:.4g} {space.units[i]} and is at {position[i]:.4g}"
            for i in np.flatnonzero(astray > limit)
        ]
