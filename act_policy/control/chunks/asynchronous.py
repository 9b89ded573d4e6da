"""Execute chunks that arrive late, one action per tick, and blend each into the next.

A chunk's row i was meant for the moment `captured + i / rate`, whenever the chunk arrives: rows
whose moment has passed are dropped. Only the first chunk after a reset begins when it arrives,
because the arm rested until then. Time is an argument, never read from a clock, so that tests
are exact.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.chunks.ensembling import average_predictions
from act_policy.control.chunks.policy import ChunkSource, PolicyError, check_chunk
from act_policy.control.config import RobotConfig
from act_policy.errors import UserError
from act_policy.types import Observation

_ROUNDING = 1e-6  # of a step: the error of a whole number of steps


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


class Trajectory(NamedTuple):
    """A chunk in time.

    captured: when the images were taken that it was predicted from, in seconds.
    begin: the moment for which row 0 was meant.
    chunk: (k, a).
    """

    captured: float
    begin: float
    chunk: np.ndarray


class AsynchronousExecutor:
    """Hand out actions of the newest chunk while the next one is being predicted.

    A new chunk is blended in over `blend_steps`; grippers, switches and angles that wrap switch at
    once. With `ensemble_coefficient` all chunks in force are averaged instead, as by
    `TemporalEnsembler`.

    max_age: in seconds, which no action may exceed: the owner's, or the greatest possible.

    Raises:
        UserError: the config asks for more steps than a chunk has.
    """

    def __init__(self, inference: Inference, space: ActionSpace, config: RobotConfig):
        timing, length = config.timing, inference.chunk_length
        self.execute_steps = timing.execute_steps or max(1, length // 2)
        for name, steps in (
            ("execute_steps", self.execute_steps),
            ("blend_steps", timing.blend_steps),
        ):
            if steps > length:
                raise UserError(f"timing.{name} is {steps}, the policy's chunk has {length} steps")
        self._inference, self._jumps = inference, space.jumps
        self._rate = inference.schema.rate
        self._between = timing.motor_rate is not None and timing.motor_rate != self._rate
        self._blend_steps = timing.blend_steps
        self._keep_steps = max(1, timing.blend_steps)  # of a chunk before another may follow
        self._coefficient = timing.ensemble_coefficient
        self._max_answer_time = config.safety.max_answer_time
        # The first chunk begins when it comes, at most max_answer_time after its images.
        greatest = length / self._rate + config.safety.max_answer_time
        self.max_age = min(config.safety.max_action_age or greatest, greatest)
        self.reset()

    def reset(self) -> None:
        """Forget every chunk, and the answer to a question that is still open."""
        self._chunks: list[Trajectory] = []  # the oldest first; the last is in force
        self._ready: Trajectory | None = None  # arrived, waits for the blending to end
        self._before: Trajectory | None = None  # what is being blended out of
        self._switched = 0.0
        self._asked_for: float | None = None  # captured, of the question whose answer counts
        self._waiting_since: float | None = None

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show what the robot sees; ask the policy if it is free and its turn has come."""
        if self._inference.busy:
            if self._waiting_since is None:
                self._waiting_since = now  # asked before a reset: the wait begins again
            return
        latest = self._asked_for
        if latest is not None and (captured - latest) * self._rate + 0.5 < self.execute_steps:
            return
        self._inference.submit(observation, captured)
        self._asked_for, self._waiting_since = captured, now

    def action(self, now: float) -> Proposal | None:
        """Return the action for now; None before the first chunk and past the end of the last.

        Raises:
            PolicyError: the policy died, took too long, or predicted a broken chunk.
        """
        self._collect(now)
        if self._ready is not None and (
            not self._chunks or (now - self._switched) * self._rate + 0.5 >= self._keep_steps
        ):
            self._before = self._chunks[-1] if self._chunks else None
            self._chunks.append(self._ready)
            self._switched, self._ready = now, None
        if self._coefficient is not None:
            return self._ensemble(now, self._coefficient)
        return self._blend(now)

    def _collect(self, now: float) -> None:
        answer = self._inference.poll()
        if answer is not None and answer.captured == self._asked_for:
            if answer.chunk is None:
                raise PolicyError(f"the policy failed: {answer.error}")
            chunk = check_chunk(answer.chunk, self._inference)
            # The arm rested until the first chunk came: none of its rows is past.
            begin = answer.captured if self._chunks else now
            self._ready = Trajectory(answer.captured, begin, chunk)
        if not self._inference.busy:
            self._waiting_since = None
        elif self._waiting_since is not None and now - self._waiting_since > self._max_answer_time:
            raise PolicyError(
                f"the policy has not answered for {now - self._waiting_since:.2f} s "
                f"(max_answer_time is {self._max_answer_time} s)"
            )

    def _blend(self, now: float) -> Proposal | None:
        if not self._chunks:
            return None
        newest = self._chunks[-1]
        self._chunks = [newest]
        if (action := self._action_at(newest, now)) is None:
            return None
        if self._before is not None:
            passed = (now - self._switched) * self._rate
            weight = (passed + 1) / (self._blend_steps + 1)
            earlier = self._action_at(self._before, now)
            if weight >= 1 or earlier is None or now - self._before.captured > self.max_age:
                self._before = None
            else:
                mixed = earlier + weight * (action - earlier)
                action = np.where(self._jumps, action, mixed)
        return Proposal(action, now - newest.captured)

    def _ensemble(self, now: float, coefficient: float) -> Proposal | None:
        predictions = [
            (now - chunk.captured, action)
            for chunk in self._chunks
            if (action := self._action_at(chunk, now)) is not None
            and now - chunk.captured <= self.max_age
        ]
        self._chunks = self._chunks[len(self._chunks) - len(predictions) :]
        if not predictions:
            return None
        ages, actions = zip(*predictions, strict=True)
        mean = average_predictions(np.stack(actions), coefficient)
        return Proposal(np.where(self._jumps, actions[-1], mean), ages[0])

    def _action_at(self, trajectory: Trajectory, now: float) -> np.ndarray | None:
        """Return the action (a,) for this moment; None outside the chunk.

        Where commands are more or less frequent than steps, it is interpolated between two rows,
        but for dimensions that jump; else the nearest row counts.
        """
        place = (now - trajectory.begin) * self._rate + _ROUNDING
        if -1 < place < 0:
            place = 0.0  # images that are taken while a tick runs are younger than the tick
        row, chunk = int(np.floor(place if self._between else place + 0.5)), trajectory.chunk
        if not 0 <= row < len(chunk):
            return None
        action: np.ndarray = chunk[row].astype(np.float64)
        if self._between and row + 1 < len(chunk):
            following = action + (place - row) * (chunk[row + 1] - action)
            action = np.where(self._jumps, action, following)
        return action
