"""Random lives of an arm with a base, tick by tick, and what must hold at every tick of each.

A life is a list of moments: something happens, then some ticks pass. `live` raises AssertionError
where a command is not finite, out of range, faster than its mode allows, or moves after a stop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from act_policy import Observation, Schema
from act_policy.control.chunks.asynchronous import Answer, AsynchronousExecutor, Proposal
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.config import config_from_dict
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.control.safety.supervisor import Mode
from act_policy.types import Camera
from tests.control.loop_for_tests import CHUNK_LENGTH, Clock, LateInference

SCHEMA = Schema(
    cameras=(Camera("front", 4, 6),),
    state_names=("shoulder.pos", "wrist.pos", "gripper.pos"),
    state_units=("rad", "deg", "0..1"),
    action_names=("shoulder.pos", "wrist.pos", "gripper.pos", "x.vel", "slide"),
    action_units=("rad", "deg", "0..1", "", "cm/step"),
    rate=10.0,
)
STATE = np.array([-1.0, -170.0, 0.0]), np.array([1.0, 170.0, 1.0])
ACTION = np.array([-1.0, -170.0, 0.0, -0.5, -2.0]), np.array([1.0, 170.0, 1.0, 0.5, 2.0])
RANGES = DemonstratedRanges(*STATE, *ACTION, images={})
MIDDLE, HALF = (ACTION[0] + ACTION[1]) / 2, (ACTION[1] - ACTION[0]) / 2

CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {
        "joints": {
            "shoulder.pos": {"park": -0.5, "max_speed": 1.0, "max_step": 0.3},
            "wrist.pos": {"wraps": [-180, 180], "approach_speed": 30},
            "x.vel": {"max_speed": 0.4},
        }
    },
    {
        "joints": {"shoulder.pos": {"low": -0.4, "high": 0.4, "park": 0.3}},
        "safety": {"failed_reads": 0, "tracking_time": 0, "odd_action_time": 0},
        "timing": {"ensemble_coefficient": 0.1, "execute_steps": 2},
    },
    {
        "joints": {"slide": {"kind": "velocity", "max_speed": 3}, "gripper.pos": {"park": 1.0}},
        "safety": {"hold_time": 3.0},
        "timing": {"motor_rate": 30, "blend_steps": 2},
    },
)


class Moment(NamedTuple):
    """Something that happens, how strongly (0 to 1), and the ticks that pass afterwards."""

    name: str
    value: float
    ticks: int


class Sent(NamedTuple):
    """A command as the arm got it, and what the supervisor was about."""

    command: np.ndarray
    mode: Mode
    parking: bool
    taken: bool


class MovingArm:
    """Joints that follow their commands late; its faults are switched by what happens."""

    def __init__(self, clock: Clock):
        self.clock = clock
        self.joints = np.array([0.1, 10.0, 0.5])
        self.offset = np.zeros(3)
        self.stalled = self.black = self.frozen = False
        self.read_failures = self.send_failures = 0
        self.blocks = 0.0
        self.seen = self.joints.astype(np.float32)  # of the last reading that succeeded
        self.sent: list[Sent] = []
        self.supervisor: Any = None
        self._random = np.random.default_rng(0)
        self._image = np.zeros((4, 6, 3), np.uint8)

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def get_observation(self) -> Reading:
        if self.read_failures > 0:
            self.read_failures -= 1
            raise ConnectionError("no status packet")
        if not self.frozen:
            self._image = self._random.integers(90, 110, (4, 6, 3), dtype=np.uint8)
        measured = self.joints + self.offset
        if np.isfinite(measured).all():
            self.seen = measured.astype(np.float32)
        names = dict(zip(SCHEMA.state_names, map(float, measured), strict=True))
        return Reading(self.clock.now, {"front": self._image * (not self.black)}, names)

    def send_action(self, action: Mapping[str, float]) -> None:
        command = np.array([action[name] for name in SCHEMA.action_names])
        taken = self.send_failures == 0
        self.sent.append(Sent(command, self.supervisor.mode, self.supervisor.parking, taken))
        self.clock.now += self.blocks
        self.blocks = 0.0
        if not taken:
            self.send_failures -= 1
            raise ConnectionError("port is in use")
        if not self.stalled:
            self.joints += 0.6 * (command[:3] - self.joints)


class Policy(LateInference):
    """Chunks of the given manner; it may be late, break or die."""

    schema = SCHEMA

    def __init__(self, clock: Clock):
        super().__init__(clock, self.make)
        self.manner, self.value = "still", 0.5
        self.dies = False
        self._random = np.random.default_rng(1)

    def make(self, observation: Observation[np.ndarray]) -> np.ndarray:
        here = np.array([*observation.state, 0.0, 0.0])
        place = MIDDLE + (2 * self.value - 1) * HALF
        chunk = np.tile(here if self.manner == "still" else place, (CHUNK_LENGTH, 1))
        if self.manner == "noise":
            chunk = MIDDLE + HALF * self._random.uniform(-1, 1, chunk.shape)
        elif self.manner == "swing":
            phase = 2 * np.pi * np.arange(CHUNK_LENGTH)[:, None] / CHUNK_LENGTH
            chunk = MIDDLE + self.value * HALF * np.sin(phase)
        elif self.manner == "huge":
            chunk = chunk + 1e4 * (self.value - 0.5)
        elif self.manner == "broken":
            chunk[3, 0] = np.nan
        return chunk

    def poll(self) -> Answer | None:
        if self.dies:
            raise PolicyError("the policy's process died")
        return super().poll()


class Leader:
    """The operator's device."""

    def __init__(self) -> None:
        self.action: np.ndarray | None = MIDDLE

    def get_action(self) -> dict[str, float]:
        if self.action is None:
            raise OSError("unplugged")
        return dict(zip(SCHEMA.action_names, map(float, self.action), strict=True))


class Bench:
    """The whole loop; `tick` lets it turn once and looks at what it did."""

    def __init__(self, config: Mapping[str, Any]):
        self.clock = Clock()
        self.arm, self.policy, self.leader = MovingArm(self.clock), Policy(self.clock), Leader()
        self.events, self.operator = EventLog(), OperatorInput()
        robot = config_from_dict(config)
        contract = Contract(SCHEMA, RANGES, robot)
        executor = AsynchronousExecutor(self.policy, contract.space, robot)
        self.loop = ControlLoop(
            *(self.arm, contract, executor, self.events),
            device=self.leader,
            release=lambda: None,
        )
        self.space, self.supervisor = contract.space, self.loop.supervisor
        self.arm.supervisor = self.supervisor
        self.wanted: np.ndarray | None = None
        supervise = self.supervisor.command

        def command(now: float, proposal: Proposal | None, position: np.ndarray) -> Any:
            self.wanted = None if proposal is None else proposal.action
            return supervise(now, proposal, position)

        self.supervisor.command = command  # type: ignore[method-assign]
        self.last = np.full(5, np.nan)  # command that the arm took
        self.go = self.stops = False

    def tick(self) -> None:
        before, events, sent = self.supervisor.mode, len(self.events.events), len(self.arm.sent)
        self.loop.tick(self.clock.now, self.operator, self.clock)
        kinds = [event.kind for event in self.events.events[events:]]
        held = self.supervisor.mode is Mode.HOLDING and before is not Mode.HOLDING
        if "start" in kinds or "resume" in kinds:
            assert self.go, "it moved, and nobody had said so since the fault"
            here = np.array([*self.arm.seen.astype(np.float64), np.nan, np.nan])
            self.last = np.where(np.isfinite(here), here, self.last)
            self.go = False
        if before in (Mode.APPROACHING, Mode.RUNNING) and held:
            assert "resume" not in kinds
            self.go = False
        if self.stops:
            assert not self.supervisor.moving, "a stop did not stop"
            assert not self.supervisor.parking, "a stop parks"
            self.go = self.stops = False
        self.look(self.arm.sent[sent:])
        self.clock.now += self.loop.period

    def look(self, sent: Sequence[Sent]) -> None:
        """Check the commands of one tick."""
        assert len(sent) <= 1
        for command, mode, parking, taken in sent:
            assert mode not in (Mode.WAITING, Mode.RELEASED)
            self.check(command, mode, parking)
            if taken:
                self.last = command

    def check(self, command: np.ndarray, mode: Mode, parking: bool) -> None:
        space, period = self.space, self.loop.period
        assert np.isfinite(command).all()
        low, high = np.fmin(space.low, self.last), np.fmax(space.high, self.last)
        assert (command >= low - 1e-6).all(), "below its range"
        assert (command <= high + 1e-6).all(), "above its range"
        way = np.abs(np.nan_to_num(space.difference(command, self.last)))
        fastest = {
            Mode.RUNNING: space.max_speed,
            Mode.APPROACHING: space.approach_speed,
            Mode.HOLDING: space.approach_speed * np.isfinite(space.park) * parking,
        }[mode]
        places = space.positions
        assert (way <= fastest * period + 1e-5 * (1 + np.abs(command)))[places].all(), "too fast"
        if mode is Mode.RUNNING:
            assert ((way <= fastest * period + 1e-6) | (command == 0))[~places].all(), "too fast"
            here = space.measure(self.arm.seen)
            behind = np.abs(space.difference(command, here))
            before = np.abs(space.difference(self.last, here))
            far = behind > np.fmax(space.max_step, before) + 1e-4
            assert not far.any(), "further from the measured position than max_step"
            if self.wanted is not None:
                wanted, straight = self.wanted, places & ~np.isfinite(space.period)
                between = (command - self.last) * (wanted - command) >= -1e-6 * (1 + wanted**2)
                assert (between | np.isnan(self.last))[straight].all(), "turned back"
        else:
            assert (command[~places] == 0).all(), "a motion does not rest"


def _press(key: str) -> Callable[[Bench, float], None]:
    def press(bench: Bench, value: float) -> None:
        bench.operator.key(key)
        bench.go |= key == "\n"
        bench.stops |= key == " "

    return press


def _set(part: str, name: str, value: Any) -> Callable[[Bench, float], None]:
    return lambda bench, _: setattr(getattr(bench, part), name, value)


def _behave(manner: str) -> Callable[[Bench, float], None]:
    def behave(bench: Bench, value: float) -> None:
        bench.policy.manner, bench.policy.value = manner, value

    return behave


def _leap(bench: Bench, value: float) -> None:
    bench.arm.offset = (2 * value - 1) * np.array([2.0, 300.0, 1.0])


def _push(bench: Bench, value: float) -> None:
    bench.arm.joints += (2 * value - 1) * np.array([0.5, 60.0, 0.2])


def _pass_time(bench: Bench, value: float) -> None:
    bench.clock.now += 2 * value**3


def _block(bench: Bench, value: float) -> None:
    bench.arm.blocks = 2 * value**3


def _delay(bench: Bench, value: float) -> None:
    bench.policy.delay = 2 * value**2


def _lead(bench: Bench, value: float) -> None:
    bench.leader.action = MIDDLE + (6 * value - 3) * HALF


def _fail_reads(bench: Bench, value: float) -> None:
    bench.arm.read_failures = 1 + int(3 * value)


def _fail_sends(bench: Bench, value: float) -> None:
    bench.arm.send_failures = 1 + int(5 * value)


def _mend(bench: Bench, value: float) -> None:
    """All faults are over."""
    arm = bench.arm
    arm.stalled = arm.black = arm.frozen = bench.policy.dies = False
    arm.offset, bench.policy.delay = np.zeros(3), 0.0
    bench.policy.manner = "still"


HAPPENINGS: dict[str, Callable[[Bench, float], None]] = {
    "nothing": lambda bench, value: None,
    "go": _press("\n"),
    "stop": _press(" "),
    "park": _press("p"),
    "hand over": _press("t"),
    "encoder leaps": _leap,
    "encoder is broken": _set("arm", "offset", np.array([np.nan, 0, 0])),
    "encoder is right": _set("arm", "offset", np.zeros(3)),
    "arm is pushed": _push,
    "arm stalls": _set("arm", "stalled", True),
    "arm is free": _set("arm", "stalled", False),
    "reads fail": _fail_reads,
    "sends fail": _fail_sends,
    "send blocks": _block,
    "time passes": _pass_time,
    "camera is black": _set("arm", "black", True),
    "camera freezes": _set("arm", "frozen", True),
    "policy stays": _behave("still"),
    "policy goes": _behave("place"),
    "policy swings": _behave("swing"),
    "policy jumps": _behave("noise"),
    "policy is out of its mind": _behave("huge"),
    "policy is broken": _behave("broken"),
    "policy is late": _delay,
    "policy dies": _set("policy", "dies", True),
    "leader moves": _lead,
    "leader is gone": _set("leader", "action", None),
    "all is well": _mend,
}


def live(config: Mapping[str, Any], moments: Sequence[Moment]) -> Bench:
    """Live a life to its end, the last hold included; AssertionError at the first wrong tick."""
    bench = Bench(config)
    for moment in moments:
        HAPPENINGS[moment.name](bench, moment.value)
        for _ in range(moment.ticks):
            bench.tick()
    moved, sent = bench.supervisor.moving, len(bench.arm.sent)
    bench.loop.hold(bench.clock.now)
    last = bench.arm.sent[sent:]
    for one in last[:1]:
        bench.look([one])
        assert moved or one.mode is not Mode.APPROACHING
        assert not one.parking or not moved
    return bench


def random_life(seed: int) -> tuple[dict[str, Any], list[Moment]]:
    """The config and the moments of a seed."""
    random = np.random.default_rng(seed)
    config = CONFIGS[random.integers(len(CONFIGS))]
    names = list(HAPPENINGS)
    likely = np.array([8.0 if name in ("go", "all is well") else 1.0 for name in names])
    moments = [Moment("nothing", 0.0, 2), Moment("go", 0.0, 4)]
    for name in random.choice(names, random.integers(5, 40), p=likely / likely.sum()):
        ticks = int(random.choice([0, 1, 2, 5, 15, 40]))
        moments.append(Moment(str(name), float(random.uniform()), ticks))
    return config, moments
