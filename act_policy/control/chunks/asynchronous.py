"""From chunks that arrive late to one action a tick: the executor of a robot in real time.

A chunk's row i was meant for the moment `captured + i / rate`, whenever the chunk arrives: what is
past by then is dropped. Only the first chunk after a reset begins when it arrives, because the arm
rested until then. Time is passed in and never asked for, so that every test is exact.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.config import RobotConfig
from act_policy.errors import UserError
from act_policy.types import Observation, Schema

_NOTHING = 1e-6  # of a step: what rounding makes of a whole one


class PolicyError(Exception):
    """The policy cannot be relied on: it died, is late, or predicted what is no number."""


class Answer(NamedTuple):
    """A chunk (k, a), or why there is none, to the images taken at this moment."""

    captured: float
    chunk: np.ndarray | None
    error: str = ""


@runtime_checkable
class Inference(Protocol):
    """A policy that is asked now and answers later; `InferenceProcess` is one."""

    @property
    def schema(self) -> Schema:
        """The policy's."""

    @property
    def chunk_length(self) -> int:
        """The k of a chunk (k, a)."""

    @property
    def busy(self) -> bool:
        """Whether it has been asked and has not answered."""

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        """Ask; never waits."""

    def poll(self) -> Answer | None:
        """The answer, once; None where there is none yet. Raises PolicyError if it died."""


class Proposal(NamedTuple):
    """What the policy wants now: action (a,), and the age in seconds of what it saw."""

    action: np.ndarray
    age: float


@dataclass(frozen=True)
class _Trajectory:
    """A chunk in time."""

    captured: float
    begin: float  # the moment for which row 0 was meant
    chunk: np.ndarray
    rate: float

    def at(self, now: float, jumps: np.ndarray, between: bool) -> np.ndarray | None:
        """The action for this moment; None outside the chunk.

        Args:
            now: in seconds.
            jumps: (a,), never interpolated: the row that is in force counts.
            between: interpolate between rows, else take the nearest.
        """
        place = (now - self.begin) * self.rate + _NOTHING
        if -1 < place < 0:
            place = 0.0  # images that are taken while a tick runs are younger than the tick
        row = int(np.floor(place if between else place + 0.5))
        if not 0 <= row < len(self.chunk):
            return None
        action: np.ndarray = self.chunk[row].astype(np.float64)
        if between and row + 1 < len(self.chunk):
            following = action + (place - row) * (self.chunk[row + 1] - action)
            action = np.where(jumps, action, following)
        return action


class AsynchronousExecutor:
    """Hand out actions of the newest chunk while the next one is being predicted.

    A new chunk passes into force over `blend_steps`, but for grippers, switches and angles that
    wrap, which switch at once. With `ensemble_coefficient` all chunks in force are averaged
    instead, as `TemporalEnsembler` does.

    Args:
        inference: predicts chunks.
        space: says which dimensions jump.
        config: timing and the greatest ages, see settings.py.

    Raises:
        UserError: the policy's chunks cannot be executed so.
    """

    def __init__(self, inference: Inference, space: ActionSpace, config: RobotConfig):
        timing, length = config.timing, inference.chunk_length
        self.execute_steps = timing.execute_steps or max(1, length // 2)
        for name, steps in (
            ("execute_steps", self.execute_steps),
            ("minimum_steps", timing.minimum_steps),
            ("blend_steps", timing.blend_steps),
        ):
            if steps > length:
                raise UserError(f"timing.{name} is {steps}, the policy's chunk has {length} steps")
        self._inference, self._jumps = inference, space.jumps
        self._rate = inference.schema.rate
        self._between = timing.motor_rate is not None and timing.motor_rate != self._rate
        self._blend_steps = timing.blend_steps
        self._keep_steps = max(timing.minimum_steps, timing.blend_steps)
        self._coefficient = timing.ensemble_coefficient
        self._max_answer_time = config.safety.max_answer_time
        self._max_age = max_action_age(inference, config)
        self._asked_for: float | None = None  # captured, of the question whose answer counts
        self._waiting_since: float | None = None
        self.reset()

    def reset(self) -> None:
        """Forget every chunk, and the answer to a question that is still open."""
        self._chunks: list[_Trajectory] = []  # the oldest first; the last is in force
        self._ready: _Trajectory | None = None  # arrived, waits for minimum_steps
        self._before: _Trajectory | None = None  # what is being blended out of
        self._switched = 0.0
        self._asked_for = None
        self._waiting_since = None

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show what the robot sees; the policy is asked where it is free and its turn has come."""
        if self._inference.busy:
            if self._waiting_since is None:
                self._waiting_since = now  # asked before a reset: the wait begins anew
            return
        latest = self._asked_for
        if latest is not None and (captured - latest) * self._rate + 0.5 < self.execute_steps:
            return
        self._inference.submit(observation, captured)
        self._asked_for, self._waiting_since = captured, now

    def action(self, now: float) -> Proposal | None:
        """What to do now; None before the first chunk and past the end of the last.

        Raises:
            PolicyError: the policy died, took too long, or predicted what is no number.
        """
        self._collect(now)
        if self._ready is not None and (
            not self._chunks or (now - self._switched) * self._rate + 0.5 >= self._keep_steps
        ):
            self._before = self._chunks[-1] if self._chunks else None
            self._chunks.append(self._ready)
            self._switched, self._ready = now, None
        if self._coefficient is not None:
            return self._ensembled(now, self._coefficient)
        return self._blended(now)

    def _collect(self, now: float) -> None:
        answer = self._inference.poll()
        if answer is not None and answer.captured == self._asked_for:
            chunk = self._checked(answer)
            # The first chunk is for an arm that rested until it came: nothing of it is past.
            begin = answer.captured if self._chunks else now
            self._ready = _Trajectory(answer.captured, begin, chunk, self._rate)
        if not self._inference.busy:
            self._waiting_since = None
        elif self._waiting_since is not None and now - self._waiting_since > self._max_answer_time:
            raise PolicyError(
                f"the policy has not answered for {now - self._waiting_since:.2f} s "
                f"(max_answer_time is {self._max_answer_time} s)"
            )

    def _checked(self, answer: Answer) -> np.ndarray:
        """Let nothing else than a chunk of finite numbers in."""
        if (chunk := answer.chunk) is None:
            raise PolicyError(f"the policy failed: {answer.error}")
        schema = self._inference.schema
        expected = (self._inference.chunk_length, schema.action_size)
        if chunk.shape != expected:
            raise PolicyError(f"the policy predicted a chunk of {chunk.shape}, not {expected}")
        if not (finite := np.isfinite(chunk)).all():
            bad = [schema.action_names[i] for i in np.flatnonzero(~finite.all(axis=0))]
            raise PolicyError(f"the policy predicted no finite number for {', '.join(bad)}")
        return np.array(chunk)

    def _blended(self, now: float) -> Proposal | None:
        if not self._chunks:
            return None
        newest = self._chunks[-1]
        self._chunks = [newest]
        action = newest.at(now, self._jumps, self._between)
        if action is None:
            return None
        age = now - newest.captured
        if self._before is not None:
            passed = (now - self._switched) * self._rate
            weight = (passed + 1) / (self._blend_steps + 1)
            earlier = self._before.at(now, self._jumps, self._between)
            if weight >= 1 or earlier is None or now - self._before.captured > self._max_age:
                self._before = None
            else:
                mixed = earlier + weight * (action - earlier)
                action = np.where(self._jumps, action, mixed)
        return Proposal(action, age)

    def _ensembled(self, now: float, coefficient: float) -> Proposal | None:
        said = [
            (now - chunk.captured, action)
            for chunk in self._chunks
            if (action := chunk.at(now, self._jumps, self._between)) is not None
            and now - chunk.captured <= self._max_age
        ]
        self._chunks = self._chunks[-len(said) :] if said else []
        if not said:
            return None
        exponents = -coefficient * np.arange(len(said))  # 0 is the oldest
        weights = np.exp(exponents - exponents.max())
        mean = weights @ np.stack([action for _, action in said]) / weights.sum()
        return Proposal(np.where(self._jumps, said[-1][1], mean), said[0][0])


def max_action_age(inference: Inference, config: RobotConfig) -> float:
    """The age in seconds that no action may exceed: the owner's, else the greatest there can be."""
    # the first chunk begins when it comes, which is at most max_answer_time after its images
    greatest = inference.chunk_length / inference.schema.rate + config.safety.max_answer_time
    return min(config.safety.max_action_age or greatest, greatest)
