"""A robot, a policy and a clock that tests move by hand: nothing sleeps."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from act_policy import Observation, Schema
from act_policy.control.action_space import ActionSpace, build_action_space
from act_policy.control.chunks.asynchronous import Answer, AsynchronousExecutor
from act_policy.control.config import RobotConfig, config_from_dict
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.execution import Execution
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera

SCHEMA = Schema(
    cameras=(Camera("front", 4, 6), Camera("wrist", 4, 6)),
    state_names=("shoulder", "gripper"),
    state_units=("rad", "0..1"),
    action_names=("shoulder", "gripper", "base"),
    action_units=("rad", "0..1", "m/s"),
    rate=10.0,
)
CHUNK_LENGTH = 10
RANGES = DemonstratedRanges(
    state_low=np.array([-1.0, 0.0]),
    state_high=np.array([1.0, 1.0]),
    action_low=np.array([-1.0, 0.0, -0.5]),
    action_high=np.array([1.0, 1.0, 0.5]),
    images={},
)


def statistics_of(
    state: tuple[list[Any], list[Any]], action: tuple[list[Any], list[Any]], *relative: str
) -> Statistics:
    """Statistics of which only the ends (min, max) of the ranges matter."""
    fields = [
        FieldStatistics(*(np.array(values, np.float64) for values in (low, high, low, high)))
        for low, high in (state, action)
    ]
    return Statistics(fields[0], fields[1], step_count=1, relative_actions=relative)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def hold_still(observation: Observation[np.ndarray]) -> np.ndarray:
    """Everything stays where it is."""
    return np.tile([*observation.state, 0.0], (CHUNK_LENGTH, 1))


def towards(shoulder: float, base: float = 0.0) -> Any:
    """A policy that wants the shoulder there at once, and the base to roll."""

    def predict(observation: Observation[np.ndarray]) -> np.ndarray:
        return np.tile([shoulder, observation.state[1], base], (CHUNK_LENGTH, 1))

    return predict


def rolling(observation: Observation[np.ndarray]) -> np.ndarray:
    """The arm stays where it is, the base rolls at 0.3."""
    return np.tile([*observation.state, 0.3], (CHUNK_LENGTH, 1))


class LateInference:
    """Answers after a delay of the given clock."""

    schema = SCHEMA
    chunk_length = CHUNK_LENGTH
    execution = Execution()

    def __init__(
        self,
        clock: Clock,
        predict: Callable[[Observation[np.ndarray]], np.ndarray] = hold_still,
        delay: float = 0.0,
    ):
        self.clock, self.predict, self.delay = clock, predict, delay
        self.asked: list[float] = []
        self._open: tuple[float, Answer] | None = None

    @property
    def busy(self) -> bool:
        return self._open is not None

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        assert not self.busy
        self.asked.append(captured)
        answer = Answer(captured, np.array(self.predict(observation), np.float32))
        self._open = (self.clock.now + self.delay, answer)

    def poll(self) -> Answer | None:
        if self._open is None or self.clock.now < self._open[0] - 1e-9:
            return None
        answer, self._open = self._open[1], None
        return answer


class Arm:
    """A Robot whose joints are at once where they are sent; images differ at every look."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.joints = {"shoulder": 0.2, "gripper": 0.5}
        self.sent: list[dict[str, float]] = []
        self.cameras = ["front", "wrist"]
        self.change: Callable[[np.ndarray], np.ndarray] = lambda image: image
        self._random = np.random.default_rng(0)

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def get_observation(self) -> Reading:
        images = {
            name: self.change(self._random.integers(90, 110, (4, 6, 3), dtype=np.uint8))
            for name in self.cameras
        }
        return Reading(self.clock.now, images, dict(self.joints))

    def send_action(self, action: Mapping[str, float]) -> None:
        self.sent.append(dict(action))
        self.joints.update({name: action[name] for name in self.joints})


def space_of(config: RobotConfig | None = None) -> ActionSpace:
    return build_action_space(SCHEMA, RANGES, config or RobotConfig())


class Bench:
    """The whole loop on the arm; `run` lets it tick."""

    def __init__(
        self,
        predict: Callable[[Observation[np.ndarray]], np.ndarray] = hold_still,
        delay: float = 0.0,
        config: Mapping[str, Any] | None = None,
        **others: Any,
    ):
        self.clock = Clock()
        self.config = config_from_dict(config or {})
        self.arm = Arm(self.clock)
        self.events = EventLog()
        self.operator = OperatorInput()
        self.inference = LateInference(self.clock, predict, delay)
        contract = Contract(SCHEMA, RANGES, self.config)
        executor = AsynchronousExecutor(self.inference, contract.space, self.config)
        self.loop = ControlLoop(self.arm, contract, executor, self.events, **others)
        self.supervisor = self.loop.supervisor

    def run(self, ticks: int) -> list[dict[str, float]]:
        """Tick so often; return what was sent meanwhile."""
        before = len(self.arm.sent)
        for _ in range(ticks):
            self.loop.tick(self.clock.now, self.operator)
            self.clock.now += self.loop.period
        return self.arm.sent[before:]

    def start(self, ticks: int = 3) -> list[dict[str, float]]:
        """The operator lets it go, and it runs a little."""
        self.operator.key("\n")
        return self.run(ticks)
