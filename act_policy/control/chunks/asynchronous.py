"""Execute chunks that arrive late, one action per tick, and blend each into the next.

A chunk's row i was meant for the moment `captured + i / rate`, whenever the chunk arrives: rows
whose moment has passed are dropped. Time during which the arm rested because no action was there
does not count: before the first chunk, and where a chunk ended before the next one came. Time is an
argument, never read from a clock, so that tests are exact.
"""

import copy
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.chunks.blending import Blending, Trajectory
from act_policy.control.chunks.commitment import Commitment
from act_policy.control.chunks.ensembling import average_predictions
from act_policy.control.chunks.policy import (
    ChunkSource,
    PolicyError,
    check_chunk,
    prefix_length,
)
from act_policy.control.config import RobotConfig, TimingConfig
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.types import Observation


class Answer(NamedTuple):
    """A chunk (k, a), or why there is none, for the images taken at the moment `captured`."""

    captured: float
    chunk: np.ndarray | None
    error: str = ""


@runtime_checkable
class Inference(ChunkSource, Protocol):
    """A policy that is asked now and answers later: `InferenceProcess`."""

    @property
    def busy(self) -> bool:
        """Whether it has been asked and has not answered."""

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        """Ask; never waits."""

    def poll(self) -> Answer | None:
        """The answer, once; None where there is none yet. Raises PolicyError if it died."""


class Proposal(NamedTuple):
    """The policy's action (a,) for this moment, and the age in seconds of the images it saw."""

    action: np.ndarray
    age: float


class AsynchronousExecutor:
    """Hand out actions of the newest chunk while the next one is being predicted.

    A new chunk is blended in over `blend_steps`; grippers, switches and angles that wrap switch at
    once. With `ensemble_coefficient` every chunk joins those in force as it arrives, and they are
    averaged as by `TemporalEnsembler`, weighted by the steps between their images. After a rest
    either passes in from where the arm is.

    Where the config gives neither execute_steps nor ensemble_coefficient, the policy's own
    execution is in force, but with at most half a chunk between two questions: the other half is
    for the time that the answer takes.

    A policy that knows about committed actions is told which it will find carried out, see
    `Commitment`. An ensemble commits nothing, since each new chunk changes it at once.

    max_age: in seconds, which no action may exceed: the owner's, or the greatest possible.

    Raises:
        UserError: the config asks for more steps than a chunk has.
    """

    def __init__(self, inference: Inference, space: ActionSpace, config: RobotConfig):
        timing, length = config.timing, inference.chunk_length
        self.ensemble_coefficient, self.execute_steps = _execution(
            timing, inference.execution, length
        )
        for name, steps in (
            ("execute_steps", self.execute_steps),
            ("blend_steps", timing.blend_steps),
        ):
            if steps > length:
                raise UserError(f"timing.{name} is {steps}, the policy's chunk has {length} steps")
        self._inference, self._space = inference, space
        self._rate = inference.schema.rate
        self._period = 1 / (timing.motor_rate or self._rate)
        self._blend_steps = timing.blend_steps
        self._max_answer_time = config.safety.max_answer_time
        # The first chunk begins when it comes, at most max_answer_time after its images.
        greatest = length / self._rate + config.safety.max_answer_time
        self.max_age = min(config.safety.max_action_age or greatest, greatest)
        self._commitment: Commitment | None = None
        known = prefix_length(inference)
        if known and self.ensemble_coefficient is None:
            self._commitment = Commitment(known, inference.schema.action_size, self._rate)
        self.reset()

    def reset(self) -> None:
        """Forget every chunk, and the answer to a question that is still open."""
        self._chunks: list[Trajectory] = []  # in force, the oldest first
        self._ready: Trajectory | None = None  # arrived, waits for the blending to end
        self._blending = Blending(
            self._blend_steps, self._rate, self._period, self._space, self.max_age
        )
        self._resting_since: float | None = -np.inf  # None while there are actions
        self._asked_for: float | None = None  # captured, of the question whose answer counts
        self._waiting_since: float | None = None
        self._failure: PolicyError | None = None
        if self._commitment is not None:
            self._commitment.reset()

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show what the robot sees; ask the policy if it is free and its turn has come."""
        try:
            self._collect(now)  # the policy is free as soon as its answer is there
        except PolicyError as error:
            self._failure = error  # for `action`
            return
        if self._inference.busy:
            if self._waiting_since is None:
                self._waiting_since = now  # asked before a reset: the wait begins again
            return
        captured = min(captured, now)  # images taken while a tick runs are younger than the tick
        latest = self._asked_for
        if latest is not None and (captured - latest) * self._rate + 0.5 < self.execute_steps:
            return
        if self._commitment is not None:
            prefix = self._commitment.foresee(captured, now, self._foreseen())
            observation = observation._replace(prefix=prefix)
        self._inference.submit(observation, captured)
        self._asked_for, self._waiting_since = captured, now

    def action(self, now: float) -> Proposal | None:
        """Return the action for now; None before the first chunk and past the end of the last.

        Raises:
            PolicyError: the policy died, took too long, or predicted a broken chunk.
        """
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure
        self._collect(now)
        proposal = self._play(now)
        if self._commitment is not None:
            self._commitment.acted(now, None if proposal is None else proposal.action)
        return proposal

    def _foreseen(self) -> Callable[[float], np.ndarray | None]:
        """Return what gives the actions of later moments, should no further answer come."""
        future = copy.copy(self)  # whose parts are replaced, but for the blending, never changed
        future._blending = copy.copy(self._blending)

        def act(moment: float) -> np.ndarray | None:
            proposal = future._play(moment)
            return None if proposal is None else proposal.action

        return act

    def _play(self, now: float) -> Proposal | None:
        """Return the action for now by the chunks that are there."""
        if self.ensemble_coefficient is None:
            proposal = self._newest(now)
        else:
            proposal = self._mean(now, self.ensemble_coefficient)
        if proposal is None:
            if self._resting_since is None:
                self._resting_since = now
            return None
        if self._resting_since is not None:
            self._blending.leave_rest()
            self._resting_since = None
        return Proposal(self._blending.mix(now, proposal.action), proposal.age)

    def _collect(self, now: float) -> None:
        answer = self._inference.poll()
        if answer is not None and answer.captured == self._asked_for:
            if answer.chunk is None:
                raise PolicyError(f"the policy failed: {answer.error}")
            chunk = check_chunk(answer.chunk, self._inference)
            if self._commitment is not None:
                self._commitment.answered(answer.captured, now)
            begin = answer.captured
            if self._resting_since is not None:  # a row is past only if the arm moved meanwhile
                begin += now - max(answer.captured, self._resting_since)
            trajectory = Trajectory(answer.captured, begin, chunk)
            if self.ensemble_coefficient is None:
                self._ready = trajectory  # one that still waits is older, and gives way
            else:
                self._chunks.append(trajectory)
                self._blending.bridge()
        if not self._inference.busy:
            self._waiting_since = None
        elif self._waiting_since is not None and now - self._waiting_since > self._max_answer_time:
            raise PolicyError(
                f"the policy has not answered for {now - self._waiting_since:.2f} s "
                f"(max_answer_time is {self._max_answer_time} s)"
            )

    def _newest(self, now: float) -> Proposal | None:
        """Return the newest chunk's action, once the one before has passed in."""
        present = self._chunks[-1] if self._chunks else None
        action = None if present is None else self._blending.action_of(present, now)
        if self._ready is not None and (action is None or self._blending.passed(now)):
            following = self._blending.action_of(self._ready, now)
            if following is not None:  # else it came after its own end
                self._blending.follow(now, present)
                self._chunks, action = [self._ready], following
            self._ready = None
        return None if action is None else Proposal(action, now - self._chunks[-1].captured)

    def _mean(self, now: float, coefficient: float) -> Proposal | None:
        """Return the mean of all chunks in force."""
        said = [
            (chunk, action)
            for chunk in self._chunks
            if now - chunk.captured <= self.max_age
            and (action := self._blending.action_of(chunk, now)) is not None
        ]
        if len(said) < len(self._chunks):
            self._blending.bridge()
        self._chunks = [chunk for chunk, _ in said]
        if not said:
            return None
        actions = np.stack([action for _, action in said])
        ages = now - np.array([chunk.captured for chunk in self._chunks])
        mean = average_predictions(actions, coefficient, (ages[0] - ages) * self._rate)
        return Proposal(np.where(self._space.jumps, actions[-1], mean), float(ages[0]))


def _execution(timing: TimingConfig, own: Execution, length: int) -> tuple[float | None, int]:
    """Return the ensemble_coefficient and execute_steps in force, for a chunk of this length."""
    half = max(1, length // 2)
    if timing.execute_steps is not None or timing.ensemble_coefficient is not None:
        usual = half if timing.ensemble_coefficient is None else 1
        return timing.ensemble_coefficient, timing.execute_steps or usual
    if own.ensemble_coefficient is not None:
        return own.ensemble_coefficient, 1
    return None, min(own.execute_steps or half, half)
