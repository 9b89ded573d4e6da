"""Decide who moves the arm: the policy within limits, a slow approach, or nobody until resumed.

    WAITING ──start──▶ APPROACHING ──first target reached──▶ RUNNING
                            ▲                                   │
                            └──── resume ──── HOLDING ◀── fault or stop
                                                 │ hold_time
                                                 ▼
                                             RELEASED

A fault latches: only a person's `resume` leads out of HOLDING, through the soft start again.
Nothing leads out of RELEASED.
"""

from collections.abc import Callable
from enum import Enum

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.chunks.asynchronous import Proposal
from act_policy.control.config import SafetyConfig
from act_policy.control.events import EventLog
from act_policy.control.safety.limits import limit_command

FORGIVEN = 0.1
"""Of the time without an action, per time with one."""


class Mode(Enum):
    """The state of the supervisor."""

    WAITING = "waiting for the operator"
    APPROACHING = "approaching the first target slowly"
    RUNNING = "running"
    HOLDING = "holding"
    RELEASED = "released"


class Supervisor:
    """Let a command pass only if it is finite, fresh and within the limits; else hold.

    Args:
        seconds: between two commands.
        max_age: of what an action was made from, in seconds.
        release: the owner's hook at the end of `hold_time`; None holds on.
    """

    def __init__(
        self,
        space: ActionSpace,
        config: SafetyConfig,
        events: EventLog,
        seconds: float,
        max_age: float,
        release: Callable[[], None] | None = None,
    ):
        self.space = space
        self.mode = Mode.WAITING
        self.reason = self.cause = ""  # of the latest hold, in words and its kind of event
        self._config, self._events = config, events
        self._seconds, self._max_age, self._release = seconds, max_age, release
        self._last = np.full(len(space.names), np.nan)  # command
        self._target: np.ndarray | None = None  # of the approach
        self._since = 0.0  # the present mode
        self._starved = 0.0  # seconds without an action while running, less what is forgiven
        self._parks = False  # a hold is on its way to its parking place
        self.replan = False  # the loop is to forget all chunks: the arm moved without them

    @property
    def moving(self) -> bool:
        """Whether the arm may be in motion."""
        return self.mode in (Mode.APPROACHING, Mode.RUNNING)

    @property
    def wants_policy(self) -> bool:
        """Whether a proposal would be looked at."""
        return self.mode is Mode.RUNNING or (self.mode is Mode.APPROACHING and self._target is None)

    def start(self, now: float) -> None:
        """The operator lets the arm move, at first or after a fault."""
        if self.mode not in (Mode.WAITING, Mode.HOLDING):
            return
        self._events.add(now, "start" if self.mode is Mode.WAITING else "resume", "by the operator")
        # the arm may have been moved by hand meanwhile: what counts is where it is measured
        self._last = np.where(self.space.positions & (self.space.measured >= 0), np.nan, self._last)
        self._approach(now)

    def hand_over(self, now: float, to: str) -> None:
        """Somebody else proposes from now on: their first target is approached slowly, too."""
        self._events.add(now, "handover", f"to the {to}")
        if self.moving:
            self._approach(now)

    def fault(self, now: float, kind: str, reason: str) -> None:
        """Hold from now on, if anything moved; the first reason is kept."""
        if not self.moving:
            return
        self.mode, self.reason, self._since, self.replan = Mode.HOLDING, reason, now, True
        self.cause = kind
        self._parks = bool(np.isfinite(self.space.park).any())
        self._events.add(now, kind, reason)

    def stop(self, now: float, source: str) -> None:
        """The operator's stop: a fault like any other, and the end of parking."""
        if self.mode is Mode.HOLDING and self._parks:
            self._parks = False
            self._events.add(now, "operator stop", f"the operator ended parking ({source})")
        self.fault(now, "operator stop", f"the operator stopped the robot ({source})")

    def command(
        self, now: float, proposal: Proposal | None, position: np.ndarray
    ) -> np.ndarray | None:
        """Return the command to send now (a,); None sends nothing.

        Args:
            now: in seconds.
            proposal: of the policy; None where it has none.
            position: measured (a,), NaN where nothing measures it; see ActionSpace.measure.
        """
        if self.mode in (Mode.WAITING, Mode.RELEASED):
            return None
        if proposal is not None and self.wants_policy:
            self._judge(now, proposal)
        if self.mode is Mode.RUNNING:
            self._starve(now, proposal is None)
        if self.mode is Mode.APPROACHING:
            wanted = self._approach_target(now, proposal, position)
        elif self.mode is Mode.RUNNING:
            wanted = self._rest(position) if proposal is None else proposal.action
        else:
            wanted = self._hold(now, position)
        if wanted is None or not np.isfinite(wanted).all():
            return None
        last = np.where(np.isfinite(self._last), self._last, position)
        if self.mode is Mode.HOLDING:
            # a motion ends at once, however slowly it may change; a position that is held stays,
            # whatever is measured
            last = np.where(self.space.positions, last, 0.0)
            position = np.where(self._parks & np.isfinite(self.space.park), position, np.nan)
        command, cut = limit_command(self.space, wanted, last, position, self._seconds)
        if self.mode is Mode.RUNNING and proposal is None:
            cut["no action"] = "the policy has none for this moment; holding until it has"
        self._events.during(now, cut)
        self._last = command
        return command

    def _judge(self, now: float, proposal: Proposal) -> None:
        if not (finite := np.isfinite(proposal.action)).all():
            bad = ", ".join(self.space.names[i] for i in np.flatnonzero(~finite))
            self.fault(now, "action not finite", f"no finite number for {bad}")
        elif not proposal.age <= self._max_age + 1e-6:  # NaN is refused too
            self.fault(
                now,
                "stale action",
                f"the action rests on what was seen {proposal.age:.2f} s ago; "
                f"max_action_age is {self._max_age:.2f} s",
            )

    def _starve(self, now: float, without: bool) -> None:
        """Fault where the policy has had no action for too long, at once or again and again."""
        change = self._seconds if without else -FORGIVEN * self._seconds
        self._starved = max(0.0, self._starved + change)
        if self._starved > (longest := self._config.max_starved_time) + 1e-6:
            self.fault(
                now,
                "starved",
                f"the policy had no action for {self._starved:.2f} s; max_starved_time is "
                f"{longest} s. Its chunks come too late, or are too short",
            )

    def _approach(self, now: float) -> None:
        self.mode, self.reason, self._since = Mode.APPROACHING, "", now
        self._starved = 0.0
        self._target, self.replan = None, True

    def _approach_target(
        self, now: float, proposal: Proposal | None, position: np.ndarray
    ) -> np.ndarray | None:
        """One small step towards the first target; the target itself once it is close."""
        if now - self._since > self._config.approach_time:
            self.fault(
                now,
                "approach",
                f"the first target was not reached within {self._config.approach_time} s",
            )
            return self._hold(now, position)
        space = self.space
        here = np.where(np.isfinite(self._last), self._last, position)
        if self._target is None and proposal is not None:
            goal = np.clip(proposal.action, space.low, space.high)
            away = np.abs(space.difference(goal, here))
            if not (away > space.start_distance)[space.positions].any():
                self.mode, self._since = Mode.RUNNING, now
                self._events.add(now, "running", "the first target is reached")
                return proposal.action
            self._target = goal
            self._events.add(now, "approach", self._describe(goal, here))
        if self._target is None:
            return self._rest(position)
        step, arrived = self._towards(self._target, here)
        if arrived:
            self._target, self.replan = None, True
        return step

    def _towards(self, target: np.ndarray, here: np.ndarray) -> tuple[np.ndarray, bool]:
        """Move positions by one tick of the approach; everything else rests."""
        space = self.space
        most = space.approach_speed * self._seconds
        change = np.nan_to_num(space.difference(target, here))
        step = np.where(np.isfinite(here), here + np.clip(change, -most, most), target)
        arrived = bool((np.abs(change) <= most)[space.positions].all())
        return np.where(space.positions, step, 0.0), arrived

    def _hold(self, now: float, position: np.ndarray) -> np.ndarray | None:
        """Return the command of a hold; past hold_time call the owner's hook, once."""
        limit = self._config.hold_time
        if limit is not None and self._release is not None and now - self._since > limit:
            self.mode = Mode.RELEASED
            self._events.add(now, "release", f"after {limit} s of holding: {self.reason}")
            try:
                self._release()
            except Exception as error:  # of the owner's hook
                self._events.add(now, "release failed", repr(error))
            return None
        rest = self._rest(position)
        if not self._parks or not np.isfinite(rest).all():
            return rest
        park = self.space.park
        return self._towards(np.where(np.isfinite(park), park, rest), rest)[0]

    def _rest(self, position: np.ndarray) -> np.ndarray:
        """Positions stay at the last command, or where they are; motions are zero."""
        here = np.where(np.isfinite(self._last), self._last, position)
        return np.where(self.space.positions, here, 0.0)

    def _describe(self, goal: np.ndarray, here: np.ndarray) -> str:
        space = self.space
        change = np.where(space.positions, np.nan_to_num(space.difference(goal, here)), 0.0)
        seconds = np.abs(change) / space.approach_speed
        i = int(np.argmax(seconds))
        return (
            f"the first target is {change[i]:+.3g} {space.units[i]} from {space.names[i]}; "
            f"reaching it in {seconds[i]:.1f} s"
        )
