"""Chunks that arrive late, in lock step: the policy's answer takes a number of control steps.

    asynchronous    the arm goes on meanwhile, by the executor of the robot's own loop
    stop and wait   the arm rests until the answer is there

Nothing moves before the first answer, as on the robot, so an episode begins with it.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from act_policy.control.action_space import ActionSpace
from act_policy.control.chunks.asynchronous import Answer, AsynchronousExecutor
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import ChunkPolicy, prefix_length
from act_policy.control.config import TimingConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.robots.contract import Contract
from act_policy.errors import UserError, check_whole_number
from act_policy.execution import Execution
from act_policy.images.resize import fit_images
from act_policy.sim.simulated_robot import simulated_config
from act_policy.types import Observation, Schema


@dataclass(frozen=True)
class Delay:
    """How late answers are, and what the arm does meanwhile.

    steps: control steps from a question to its answer; (fewest, most) draws each from this range.
    stop_and_wait: the arm rests until the answer is there.
    blend_steps: over which one chunk passes into the next while the arm moves; None is the number
        of the robot's loop, and 0 where answers are not late.

    Raises:
        UserError: impossible numbers, or some that exclude each other.
    """

    steps: int | tuple[int, int] = 0
    stop_and_wait: bool = False
    blend_steps: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.steps, list):  # as configs have it
            object.__setattr__(self, "steps", tuple(self.steps))
        ends = self.steps if isinstance(self.steps, tuple) else (self.steps,)
        if len(ends) not in (1, 2) or list(ends) != sorted(ends):
            raise UserError(
                f"delay={self.steps}: expected a number of steps, or [FEWEST,MOST] of them"
            )
        for end in ends:
            check_whole_number("delay", end, 0)
        if not isinstance(self.stop_and_wait, bool):
            raise UserError(f"stop_and_wait={self.stop_and_wait}: expected true or false")
        if self.blend_steps is not None:
            check_whole_number("blend_steps", self.blend_steps, 0)
            if self.stop_and_wait:
                raise UserError(
                    f"blend_steps={self.blend_steps}: the arm waits with stop_and_wait=true, "
                    "so chunks do not overlap; leave one of the two out"
                )

    @property
    def ends(self) -> tuple[int, int]:
        """Fewest and most steps."""
        return self.steps if isinstance(self.steps, tuple) else (self.steps, self.steps)

    @property
    def timing(self) -> TimingConfig:
        """The robot's config of such an execution, as far as it is fixed here."""
        if self.waits:
            return TimingConfig(blend_steps=0)
        own = TimingConfig()
        return own if self.blend_steps is None else replace(own, blend_steps=self.blend_steps)

    @property
    def waits(self) -> bool:
        """Whether the world, or the arm, waits for each chunk."""
        return self.stop_and_wait or (self.ends == (0, 0) and not self.blend_steps)


@runtime_checkable
class EpisodeExecutor(Protocol):
    """Chooses the actions of one episode.

    schema: of the policy.
    execution: the one in force.
    captured: for each action, the step whose images the newest chunk in it was made from.
    """

    schema: Schema
    execution: Execution
    captured: list[int]

    def select_action(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the action (a,) of this step."""


def make_executor(
    policy: ChunkPolicy,
    execute_steps: int | None,
    ensemble_coefficient: float | None,
    delay: Delay,
    seed: int,
) -> EpisodeExecutor:
    """Make the executor of one episode; the seed draws the delays.

    Raises:
        UserError: the settings do not fit each other or the policy.
    """
    answers = _Answers(delay, seed)
    if delay.waits:
        executor = ChunkExecutor(policy, execute_steps, ensemble_coefficient)
        return WaitingExecutor(executor, answers)
    timing = replace(
        delay.timing, execute_steps=execute_steps, ensemble_coefficient=ensemble_coefficient
    )
    return DelayedExecutor(policy, timing, answers)


def gradual_dimensions(schema: Schema) -> np.ndarray:
    """Bool (a,): which actions pass gradually from one chunk into the next; see `ActionSpace`."""
    return ~_space(schema, TimingConfig()).jumps


class WaitingExecutor:
    """Executes chunks one after the other; the arm rests as long as an answer takes."""

    def __init__(self, executor: ChunkExecutor, answers: "_Answers"):
        self._executor, self._answers = executor, answers
        self.schema, self.execution = executor.policy.schema, executor.execution
        self._space = _space(executor.policy.schema, TimingConfig()) if answers.late else None
        self._next: np.ndarray | None = None  # the first action of an answer that is not there yet
        self._rests, self._asked = 0, 0
        self._last = np.empty(0)
        self.captured: list[int] = []

    def select_action(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the action of this step."""
        if self._next is None:
            asks = self._executor.asks
            self._next = self._executor.select_action(observation)
            if asks:
                self._asked = len(self.captured)
                self._rests = self._answers.draw() if self.captured else 0
        if self._rests and self._space is not None:
            self._rests -= 1
            action = _rest(self._space, self._last).astype(self._next.dtype)
            self.captured.append(self.captured[-1])
        else:
            action, self._next = self._next, None
            self.captured.append(self._asked)
        self._last = action
        return action


class DelayedExecutor:
    """The robot's asynchronous executor; every call is one control step."""

    def __init__(self, policy: ChunkPolicy, timing: TimingConfig, answers: "_Answers"):
        config = simulated_config(policy.schema, timing)
        # the delay is what was asked for, however long
        config = replace(config, safety=replace(config.safety, max_answer_time=np.inf))
        self._space = _space(policy.schema, timing)
        self._inference = LateInference(policy, answers)
        self._executor = AsynchronousExecutor(self._inference, self._space, config)
        self.schema, self._rate = policy.schema, policy.schema.rate
        asked_for = policy.execution.unless(timing.execute_steps, timing.ensemble_coefficient)
        coefficient = self._executor.ensemble_coefficient
        steps = self._executor.execute_steps if coefficient is None else None
        self.execution = replace(asked_for, execute_steps=steps, ensemble_coefficient=coefficient)
        self._last: np.ndarray | None = None
        self.captured: list[int] = []

    def select_action(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the action of this step; the arm rests where there is none."""
        inference, executor = self._inference, self._executor
        executor.observe(observation, self._now, self._now)
        proposal = executor.action(self._now)
        while proposal is None and self._last is None:  # nothing moves before the first chunk
            inference.step += 1
            proposal = executor.action(self._now)
        if proposal is None:
            assert self._last is not None
            action = _rest(self._space, self._last)
            self.captured.append(self.captured[-1])
        else:
            action = proposal.action
            seen = inference.answered
            if executor.ensemble_coefficient is None:  # a chunk that is there may wait its turn
                seen = round((self._now - proposal.age) * self._rate)
            waited = inference.step - len(self.captured)  # for the first chunk
            self.captured.append(max(0, seen - waited))
        self._last = action
        inference.step += 1
        return action.astype(np.float32)

    @property
    def _now(self) -> float:
        return self._inference.step / self._rate


class LateInference:
    """An `Inference` whose answers come a number of control steps after their questions.

    step: the present one, which its owner counts.
    answered: the step whose images the last answer was made from.
    """

    def __init__(self, policy: ChunkPolicy, answers: "_Answers"):
        self.schema, self.chunk_length = policy.schema, policy.chunk_length
        self.execution, self.prefix_length = policy.execution, prefix_length(policy)
        self.step = self.answered = 0
        self._policy, self._answers = policy, answers
        self._open: tuple[int, int, Answer] | None = None  # asked in step, due in step

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._open is not None

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        """Ask now."""
        chunk = self._policy.predict_chunk(fit_images(observation, self.schema))
        self._open = self.step, self.step + self._answers.draw(), Answer(captured, chunk)

    def poll(self) -> Answer | None:
        """The answer, once it is due."""
        if self._open is None or self.step < self._open[1]:
            return None
        (self.answered, _, answer), self._open = self._open, None
        return answer


class _Answers:
    """Draws how many steps late each answer is."""

    def __init__(self, delay: Delay, seed: int):
        self._ends = delay.ends
        self._random = np.random.default_rng([seed, 5])

    @property
    def late(self) -> bool:
        return self._ends[1] > 0

    def draw(self) -> int:
        fewest, most = self._ends
        return int(self._random.integers(fewest, most + 1))


def _space(schema: Schema, timing: TimingConfig) -> ActionSpace:
    schema = replace(schema, tasks=())  # they limit nothing
    config = simulated_config(schema, timing)
    return Contract(schema, DemonstratedRanges.from_statistics(schema, None), config).space


def _rest(space: ActionSpace, last: np.ndarray) -> np.ndarray:
    """Positions stay where they were sent, motions are 0, as the robot's supervisor has it."""
    return np.where(space.positions, last, 0.0)
