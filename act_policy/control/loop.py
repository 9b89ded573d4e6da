"""The loop on the robot: once per tick observe, ask the policy, supervise and send."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from act_policy.control.chunks.asynchronous import Proposal
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.events import EventLog
from act_policy.control.pacing import Pacer, Punctuality, RateWatch
from act_policy.control.recording.recording import EpisodeRecorder
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Robot, RobotReader
from act_policy.control.safety.camera_watch import CameraWatch, doubt_captured
from act_policy.control.safety.motion_watch import MotionWatch
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.control.safety.supervisor import Mode, Supervisor
from act_policy.errors import UserError
from act_policy.types import Observation

LAST_HOLDS = 3
"""Attempts to send the last hold."""


@runtime_checkable
class Executor(Protocol):
    """Proposes actions, as `AsynchronousExecutor` does."""

    max_age: float
    """Seconds that an action may be older than the images it was made from."""

    def reset(self) -> None:
        """Forget all chunks."""

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show what the robot sees, at the policy's rate."""

    def action(self, now: float) -> Proposal | None:
        """The action for this moment; raises PolicyError."""


@runtime_checkable
class OperatorDevice(Protocol):
    """A device with which a person takes over, such as any of LeRobot's teleoperators."""

    def get_action(self) -> Mapping[str, Any]:
        """A command under the robot's names."""


class ControlLoop:
    """One robot, one policy, and what stands between them.

    Args:
        robot: connected.
        device: for the operator to take over with, if any.
        release: the owner's hook at the end of a hold; None holds on.

    Raises:
        UserError: the kind or the unit of a dimension is in doubt.
    """

    def __init__(
        self,
        robot: Robot,
        contract: Contract,
        executor: Executor,
        events: EventLog,
        recorder: EpisodeRecorder | None = None,
        device: OperatorDevice | None = None,
        release: Callable[[], None] | None = None,
    ):
        if contract.doubts:
            raise UserError("; ".join(doubt.sentence for doubt in contract.doubts))
        self.robot, self.events = robot, events
        self._contract, self._executor = contract, executor
        self._recorder, self._device = recorder, device
        schema, self._safety = contract.schema, contract.config.safety
        self.period, self._step = 1 / contract.rate, 1 / schema.rate
        self.supervisor = Supervisor(
            *(contract.space, self._safety, events, self.period, executor.max_age, release),
            held=self._forget_operator,
        )
        self._watch = CameraWatch(contract.ranges, self._safety)
        self._rate = RateWatch(min(contract.rate, schema.rate), self._safety.slowest_rate)
        self._motion = MotionWatch(contract.space, self._safety)
        self._reader = RobotReader(robot, self._safety.failed_reads)
        self._operator: OperatorInput | None = None
        self._next_look, self._then = -np.inf, np.inf
        self._state, self._captured = np.full(schema.state_size, np.nan), np.nan
        self._obstacle = ""  # why the arm may not be started now
        self._operator_acts = self._moved = False

    def tick(
        self, now: float, operator: OperatorInput, clock: Callable[[], float] | None = None
    ) -> None:
        """Do one turn; a turn that took too long by the clock sends no action."""
        supervisor, self._operator = self.supervisor, operator
        late, longest = now - self._then - self.period, self._safety.max_tick_time
        self._then = now
        if late > longest:
            reason = f"this turn is {late:.2f} s late; max_tick_time is {longest} s"
            supervisor.fault(now, "late tick", reason)
            operator.forget()  # a hold, too, was out of control meanwhile
        observation = self._look(now, clock)
        # asked after the robot's own calls, which may have taken a while
        if source := operator.stop_requested():
            supervisor.stop(now, source)
        if operator.park_requested():
            supervisor.park(now)
        if supervisor.may_start(now) and operator.go_requested():
            if self._obstacle:
                self.events.add(now, "start refused", self._obstacle)
            else:
                supervisor.start(now)
        if operator.handover_requested():
            if self._device is None:  # then it is a key like any other
                supervisor.stop(now, "key t, and there is no device to take over with")
            else:
                self._operator_acts = not self._operator_acts
                supervisor.hand_over(now, "operator" if self._operator_acts else "policy")
        if supervisor.replan:
            self._executor.reset()
            supervisor.replan = False

        proposal = self._propose(observation, now)
        if clock is not None and (took := clock() - now) > longest:
            supervisor.fault(
                now, "late tick", f"this turn has taken {took:.2f} s; max_tick_time is {longest} s"
            )
        position = supervisor.space.measure(self._state)
        command = supervisor.command(now, proposal, position)
        if command is not None:
            self._send(now, command)
        self._record(observation, command, now)

    def hold(self, now: float) -> None:
        """Send one last hold, if anything was sent before: the run ends.

        Where a driver fails, or a second Ctrl-C interrupts it, the hold is sent again.
        """
        self.supervisor.fault(now, "end", "the run ended", parks=False)
        if self._recorder is not None:
            self._recorder.end_episode(self.supervisor.cause)
        position = self.supervisor.space.measure(self._state)
        command = self.supervisor.command(now, None, position)
        for attempt in range(LAST_HOLDS):
            try:
                if command is None or self._send(now, command):
                    return
            except KeyboardInterrupt:
                if attempt == LAST_HOLDS - 1:
                    raise

    def _look(
        self, now: float, clock: Callable[[], float] | None
    ) -> Observation[np.ndarray] | None:
        """Return the policy's observation if one is due; None after a fault, too."""
        if now < self._next_look - self.period / 2:
            return None
        slow = self._rate.turn(now)
        if slow:
            self.supervisor.fault(now, "slow loop", slow)
        in_time = now - self._next_look < self._step
        self._next_look = (self._next_look if in_time else now) + self._step
        try:
            reading = self._reader.read()
        except UserError as error:
            self._blind(now, "robot", str(error))
            return None
        if reading is None:  # the next look will tell; but a start needs to see
            self._obstacle = self._reader.reason
            self.events.during(now, {"failed read": self._reader.reason})
            return None
        try:
            observation = self._contract.observation(reading, look=self._watch.looks)
            captured = float(reading.captured)
            image_times = self._contract.image_times(reading)
        except UserError as error:
            self._blind(now, "observation", str(error))
            return None
        except Exception as error:  # of the robot's driver, which may give anything
            self._blind(now, "robot", f"the robot's observation failed: {error!r}")
            return None
        answered = now if clock is None else clock()
        if doubt := doubt_captured(
            captured, image_times, now, answered, self._safety.max_image_age
        ):
            self._blind(now, "observation", doubt)
            return None
        before, seconds = self._state, max(captured - self._captured, self._step)
        self._state, self._captured, self._reading = observation.state, captured, reading
        moved = self._watch_motion(now, before, seconds)
        if self._watch.looks and (fault := self._watch.fault(observation.images, now)):
            self._blind(now, "camera", fault.sentence)
            return None
        outside = self._contract.pose_outside(self._state)
        self._obstacle = "; ".join([*outside, *moved, *([slow] if slow else [])])
        return observation

    def _watch_motion(self, now: float, before: np.ndarray, seconds: float) -> list[str]:
        """Hold where the measured motion cannot be; describe what forbids a start."""
        supervisor, motion = self.supervisor, self._motion
        then, here = (supervisor.space.measure(state) for state in (before, self._state))
        if not supervisor.moving and not supervisor.parking:
            motion.reset()
            leaps = motion.leaps(then, here, seconds, at_rest=True)
            return [f"{leap}; start again once the arm is at rest" for leap in leaps]
        if leaps := motion.leaps(then, here, seconds):
            supervisor.fault(now, "measurement leap", "; ".join(leaps), parks=False)
        elif strays := motion.not_following(now, supervisor.last, here):
            supervisor.fault(now, "not following", "; ".join(strays), parks=False)
        return leaps

    def _forget_operator(self) -> None:
        """What the operator wanted before a fault does not count after it."""
        if self._operator is not None:
            self._operator.forget()

    def _blind(self, now: float, kind: str, reason: str) -> None:
        """Act without an observation: a fault if the arm moves, else an obstacle to its start."""
        self.supervisor.fault(now, kind, reason)
        self._obstacle = reason

    def _propose(self, observation: Observation[np.ndarray] | None, now: float) -> Proposal | None:
        if not self.supervisor.wants_policy:
            return None
        if self._operator_acts and self._device is not None:
            try:
                return Proposal(self._contract.action(self._device.get_action()), 0.0)
            except Exception as error:  # of the owner's device, which may raise anything
                reason = str(error) if isinstance(error, UserError) else repr(error)
                self.supervisor.fault(now, "operator's device", reason)
                return None
        try:
            if observation is not None:
                self._executor.observe(observation, self._captured, now)
            return self._executor.action(now)
        except PolicyError as error:
            self.supervisor.fault(now, "policy", str(error))
        except UserError as error:  # of an image, which is checked when it is read
            self._blind(now, "observation", str(error))
        return None

    def _send(self, now: float, command: np.ndarray) -> bool:
        """Whether the robot took the command."""
        named = self._contract.command(command)
        try:
            sent = self.robot.send_action(named) or {}
            changed = {
                f"driver limit: {name}": f"{value:.4g} became {float(sent[name]):.4g}"
                for name, value in named.items()
                if name in sent and not abs(float(sent[name]) - value) <= 1e-3 * (1 + abs(value))
            }
        except Exception as error:  # of the robot's driver; a hold is tried again at every tick
            reason = f"the robot did not take a command: {error!r}"
            self.supervisor.fault(now, "robot", reason, parks=False)
            self.events.during(now, {"command failed": reason})
            return False
        self.supervisor.taken(command)
        self.events.during(now, changed)
        return True

    def _record(
        self, observation: Observation[np.ndarray] | None, command: np.ndarray | None, now: float
    ) -> None:
        if (recorder := self._recorder) is None:
            return
        if recorder.problem and not self.events.counts["recording"]:
            self.events.add(now, "recording", recorder.problem)
        if not self.supervisor.moving:
            recorder.end_episode(self.supervisor.cause)
            self._moved = False
            return
        self._moved |= self.supervisor.mode is Mode.RUNNING  # the first approach is not part of it
        if self._moved and observation is not None and command is not None:
            if recorder.own_size:
                observation = observation._replace(images=self._contract.frames(self._reading))
            times = list(self._contract.image_times(self._reading).values())
            recorder.add(observation, command, self._operator_acts, self._captured, times)


def run(
    loop: ControlLoop,
    operator: OperatorInput,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    after_tick: Callable[[float], None] = lambda now: None,
) -> Punctuality:
    """Tick in real time until the operator ends it, the time is over, or the arm is released.

    However it ends, the arm is sent a last hold; the robot is connected before and after.
    `after_tick` is called with the time of each tick.
    """
    pacer = Pacer(loop.period, clock, sleep)
    try:
        while not operator.ended and loop.supervisor.mode is not Mode.RELEASED:
            now = clock()
            if seconds is not None and now - pacer.begun >= seconds:
                break
            loop.tick(now, operator, clock)
            after_tick(now)
            pacer.wait()
    finally:
        loop.hold(clock())
    return pacer.punctuality()
