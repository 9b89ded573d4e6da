"""Decide who moves the arm: the policy within limits, a slow approach, or nobody until resumed.

    WAITING ──start──▶ APPROACHING ──first target reached──▶ RUNNING
                            ▲                                   │
                            └──── resume ──── HOLDING ◀── fault or stop
                                                 │ hold_time
                                                 ▼
                                             RELEASED

A fault latches: only a person's `resume` leads out of HOLDING, through the soft start again, and
never in the same tick. After a fault that does not concern the arm's own motion, and on the
operator's word, a hold goes slowly to the parking place; an operator's stop rests where it is.
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
        held: called when a hold begins, before it is told.
    """

    def __init__(
        self,
        space: ActionSpace,
        config: SafetyConfig,
        events: EventLog,
        seconds: float,
        max_age: float,
        release: Callable[[], None] | None = None,
        held: Callable[[], None] = lambda: None,
    ):
        self.space = space
        self.mode = Mode.WAITING
        self.reason = self.cause = ""  # of the latest hold, in words and its kind of event
        self._config, self._events = config, events
        self._seconds, self._max_age, self._release = seconds, max_age, release
        self._held = held
        # the command that the robot took, or where it was measured when it was started
        self._last = np.full(len(space.names), np.nan)
        self.by_policy = True  # a person may lead where the policy may not
        self._odd_since: float | None = None
        self._target: np.ndarray | None = None  # of the approach
        self._since = 0.0  # the present mode
        self._starved = 0.0  # seconds without an action while running, less what is forgiven
        self.parking = False  # a hold is on its way to its parking place
        self.replan = False  # the loop is to forget all chunks: the arm moved without them

    @property
    def moving(self) -> bool:
        """Whether somebody's targets move the arm; parking is another motion."""
        return self.mode in (Mode.APPROACHING, Mode.RUNNING)

    @property
    def last(self) -> np.ndarray:
        """The last command that the robot took (a,), at first where it was; NaN if unknown."""
        return self._last

    @property
    def wants_policy(self) -> bool:
        """Whether a proposal would be looked at."""
        return self.mode is Mode.RUNNING or (self.mode is Mode.APPROACHING and self._target is None)

    def may_start(self, now: float) -> bool:
        """Whether a person may let the arm move in this tick, as far as the mode goes."""
        return self.mode is Mode.WAITING or (self.mode is Mode.HOLDING and now > self._since)

    def start(self, now: float) -> None:
        """The operator lets the arm move, at first or after a fault."""
        if not self.may_start(now):
            return
        self._events.add(now, "start" if self.mode is Mode.WAITING else "resume", "by the operator")
        # the arm may have been moved by hand meanwhile: what counts is where it is measured
        self._last = np.where(self.space.positions & (self.space.measured >= 0), np.nan, self._last)
        self._approach(now)

    def hand_over(self, now: float, to: str) -> None:
        """Somebody else proposes from now on: their first target is approached slowly, too."""
        self._events.add(now, "handover", f"to the {to}")
        self.by_policy = to == "policy"
        if self.moving:
            self._approach(now)

    def fault(self, now: float, kind: str, reason: str, parks: bool = True) -> None:
        """Hold from now on, if anything moved; the first reason is kept.

        Args:
            now: in seconds.
            kind: of the event.
            reason: for a person.
            parks: whether the hold goes to the parking place; else it rests, and ends parking.
        """
        if self.mode is Mode.HOLDING and self.parking and not parks:
            self.parking = False
            self._events.add(now, kind, f"parking ended: {reason}")
        if self.moving:
            self._hold_from(now, kind, reason, parks)
            self._events.add(now, kind, reason)

    def stop(self, now: float, source: str) -> None:
        """The operator's stop: the arm rests where it is."""
        self.fault(now, "operator stop", f"the operator stopped the robot ({source})", parks=False)

    def park(self, now: float) -> None:
        """The operator sends the arm to its parking place; without one this is a stop."""
        if not np.isfinite(self.space.park).any():
            self.stop(now, "key p, and no joint has a parking place")
            return
        reason = "the operator sent the arm to its parking place"
        if self.moving:
            self._hold_from(now, "park", reason, parks=True)
        elif self.mode is Mode.HOLDING:
            self.parking = True
        else:
            return
        self._events.add(now, "park", reason)

    def _hold_from(self, now: float, kind: str, reason: str, parks: bool) -> None:
        self.mode, self.reason, self._since, self.replan = Mode.HOLDING, reason, now, True
        self.cause = kind
        self.parking = parks and bool(np.isfinite(self.space.park).any())
        self._held()

    def command(
        self, now: float, proposal: Proposal | None, position: np.ndarray
    ) -> np.ndarray | None:
        """Return the command to send now (a,); None sends nothing. `taken` must follow.

        Args:
            now: in seconds.
            proposal: of the policy; None where it has none.
            position: measured (a,), NaN where nothing measures it; see ActionSpace.measure.
        """
        if self.mode in (Mode.WAITING, Mode.RELEASED):
            return None
        # once only: where no command is taken, a hold must not go wherever the arm is measured
        self._last = np.where(np.isfinite(self._last), self._last, position)
        if proposal is not None and self.wants_policy:
            self._judge(now, proposal)
        if self.mode is Mode.RUNNING:
            self._starve(now, proposal is None)
        if self.mode is Mode.APPROACHING:
            wanted = self._approach_target(now, proposal)
        elif self.mode is Mode.RUNNING:
            wanted = self._rest() if proposal is None else proposal.action
        else:
            wanted = self._hold(now)
        if wanted is None or not np.isfinite(wanted).all():
            return None
        last = self._last
        if self.mode is not Mode.RUNNING or proposal is None:
            last = np.where(self.space.positions, last, 0.0)  # a motion ends at once
        if self.mode is Mode.HOLDING:  # a position that is held stays, whatever is measured
            position = np.where(self.parking & np.isfinite(self.space.park), position, np.nan)
        command, cut = limit_command(self.space, wanted, last, position, self._seconds)
        if self.mode is Mode.RUNNING and proposal is None:
            cut["no action"] = "the policy has none for this moment; holding until it has"
        self._events.during(now, cut)
        return command

    def taken(self, command: np.ndarray) -> None:
        """The robot took this command (a,): the next one goes on from it."""
        self._last = command

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
        elif self.mode is Mode.RUNNING and self.by_policy:
            self._judge_range(now, proposal.action)

    def _judge_range(self, now: float, action: np.ndarray) -> None:
        space, limit = self.space, self._config.odd_action_time
        odd = np.flatnonzero((action < space.odd_low) | (action > space.odd_high))
        if len(odd) == 0 or limit == 0:
            self._odd_since = None
            return
        if self._odd_since is None:
            self._odd_since = now
        if (since := now - self._odd_since) > limit:
            i = odd[0]
            self.fault(
                now,
                "odd action",
                f"the policy has asked for {space.names[i]} = {action[i]:.4g} {space.units[i]} or "
                f"the like for {since:.1f} s, far outside what was demonstrated",
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
        self._target, self.replan, self._odd_since = None, True, None
        self.parking = False

    def _approach_target(self, now: float, proposal: Proposal | None) -> np.ndarray | None:
        """One small step towards the first target; the target itself once it is close."""
        if now - self._since > self._config.approach_time:
            self.fault(
                now,
                "approach",
                f"the first target was not reached within {self._config.approach_time} s",
            )
            return self._hold(now)
        space = self.space
        here = self._last
        if self._target is None and proposal is not None:
            goal = np.clip(proposal.action, space.low, space.high)
            away = np.abs(space.difference(goal, here))
            if not (away > space.start_distance)[space.awaited].any():
                self.mode, self._since = Mode.RUNNING, now
                self._events.add(now, "running", "the first target is reached")
                return proposal.action
            self._target = goal
            self._events.add(now, "approach", self._describe(goal, here))
        if self._target is None:
            return self._rest()
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
        arrived = bool((np.abs(change) <= most)[space.awaited].all())
        return np.where(space.positions, step, 0.0), arrived

    def _hold(self, now: float) -> np.ndarray | None:
        """Return the command of a hold; past hold_time call the owner's hook, once."""
        limit = self._config.hold_time
        if limit is not None and self._release is not None and now - self._since > limit:
            self.mode, self.parking = Mode.RELEASED, False
            self._events.add(now, "release", f"after {limit} s of holding: {self.reason}")
            try:
                self._release()
            except Exception as error:  # of the owner's hook
                self._events.add(now, "release failed", repr(error))
            return None
        rest = self._rest()
        if not self.parking or not np.isfinite(rest).all():
            return rest
        park = self.space.park
        return self._towards(np.where(np.isfinite(park), park, rest), rest)[0]

    def _rest(self) -> np.ndarray:
        """Positions stay at the last command, or where they are; motions are zero."""
        return np.where(self.space.positions, self._last, 0.0)

    def _describe(self, goal: np.ndarray, here: np.ndarray) -> str:
        space = self.space
        change = np.where(space.positions, np.nan_to_num(space.difference(goal, here)), 0.0)
        seconds = np.abs(change) / space.approach_speed
        i = int(np.argmax(seconds))
        return (
            f"the first target is {change[i]:+.3g} {space.units[i]} from {space.names[i]}; "
            f"reaching it in {seconds[i]:.1f} s"
        )
