"""The config of a robot, which its owner writes as a TOML or JSON file; docs/robot.md shows one.

Every key is optional and every unknown one is refused: a misspelt limit must not pass for one that
is in force.
"""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from act_policy.action_kinds import ActionKind
from act_policy.errors import UserError

Kind = ActionKind
ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True)
class JointConfig:
    """One dimension of the action; where a field is None, the demonstrations decide.

    kind: position (a target in the joint's own units), switch (a position that may jump: a
        gripper, a valve), velocity, or displacement (a movement per step of the policy). By
        default decided by the unit and the name, see `act_policy.action_kinds.declared_kind`;
        where these do not say it, nothing moves until this does.
    unit: of the command; by default the policy's. Giving it ends every doubt about the unit.
    measured: the dimension of the state that measures it; by default the one of the same name.
    low, high: of the command. max_speed: of the command, in units per second.
    max_step: how far the command may lie from the measured position.
    approach_speed: of the soft start and of parking, in units per second.
    wraps: (from, to) of an angle that jumps from one to the other, such as (-180, 180).
    park: where a position goes slowly after a fault, or on the operator's word; within its limits.
        None stays where it is.
    """

    kind: Kind | None = None
    unit: str | None = None
    measured: str | None = None
    low: float | None = None
    high: float | None = None
    max_speed: float | None = None
    max_step: float | None = None
    approach_speed: float | None = None
    wraps: tuple[float, float] | None = None
    park: float | None = None


@dataclass(frozen=True)
class SafetyConfig:
    """When the loop takes the arm away from the policy; seconds throughout.

    max_action_age: from the capture of the images to the command; None is a chunk's length and
        max_answer_time.
    max_answer_time: the longest that a policy may take to answer.
    max_starved_time: how long a running arm may rest because no action is there; a tenth of the
        time with actions is taken off, so that many short rests count as well.
    max_tick_time: the longest that one turn of the loop may take, with the robot's own calls.
    slowest_rate: of the loop's looks at the robot, as a share of the policy's rate or a lower
        motor_rate, over two seconds without the longest turn among them; 0 does not check.
    max_image_age: how long before it was asked a robot may say that its images were taken.
    frozen_camera_time: how long a camera may repeat identical images; 0 does not compare them.
    slowest_camera: of the looks at a camera, the share that must find a new image, over two
        seconds; 0 does not check.
    odd_image_time: how long brightness or contrast may lie outside the demonstrated range; 0 does
        not check. A black image is a fault at once unless this is 0.
    approach_time: how long the soft start may take.
    hold_time: how long a hold lasts before `release`; None holds until the operator ends it.
    start_outside: how far outside the demonstrated range a joint may be at the start, as a
        fraction of its scale (see `ActionSpace.scale`).
    start_distance: how far from the arm the first target may be without a soft start, as a
        fraction of the demonstrated range.
    leap_distance: how much further than max_speed allows a joint may be measured than one
        observation before, as a fraction of its scale.
    tracking_error: how far the places where the arm was during the last tracking_time may differ
        from those it was sent to, as a fraction of the joint's scale; see `MotionWatch`.
    tracking_time: how long the arm may not follow; 0 does not check.
    odd_action: how far outside the demonstrated range the policy's action may lie for longer than
        odd_action_time, as a fraction of the joint's scale.
    odd_action_time: 0 does not check.
    failed_reads: how many observations in a row the driver may fail to give.
    """

    max_action_age: float | None = None
    max_answer_time: float = 1.0
    max_starved_time: float = 0.5
    max_tick_time: float = 0.5
    slowest_rate: float = 0.9
    max_image_age: float = 0.3
    frozen_camera_time: float = 1.0
    slowest_camera: float = 0.25
    odd_image_time: float = 1.0
    approach_time: float = 30.0
    hold_time: float | None = None
    start_outside: float = 0.2
    start_distance: float = 0.05
    leap_distance: float = 0.1
    tracking_error: float = 0.2
    tracking_time: float = 1.0
    odd_action: float = 0.5
    odd_action_time: float = 1.0
    failed_reads: int = 1


@dataclass(frozen=True)
class TimingConfig:
    """How chunks become motion; steps are those of the policy.

    motor_rate: commands per second; None is the policy's rate.
    execute_steps: the fewest between two questions to the policy; None is 1 when ensembling, else
        the policy's own, at most half a chunk, else half a chunk. The rest of the chunk must
        outlast the policy's answer, or the arm waits for it.
    blend_steps: over which one chunk passes into the next, and the arm out of rest; 0 switches at
        once. An ensemble is blended out of rest only.
    ensemble_coefficient: temporal ensembling over all chunks in force, m in exp(-m i), where i is
        the steps since the oldest; None does not, unless execute_steps is None as well and the
        policy's own execution does.
    threads: of the process in which the policy runs.
    """

    motor_rate: float | None = None
    execute_steps: int | None = None
    blend_steps: int = 4
    ensemble_coefficient: float | None = None
    threads: int = 2


@dataclass(frozen=True)
class RobotConfig:
    """The whole file of a robot.

    joints: by the policy's name of an action.
    cameras, state, actions: the policy's name -> the robot's, where the two differ.
    ignore: what the robot has and the policy does not use.
    """

    joints: Mapping[str, JointConfig] = field(default_factory=dict)
    cameras: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    safety: SafetyConfig = field(default_factory=SafetyConfig)
    timing: TimingConfig = field(default_factory=TimingConfig)


def read_config(path: str | Path) -> RobotConfig:
    """Read a .toml or .json file.

    Raises:
        UserError: it cannot be read, or a key or a value in it is not one of the above.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        plain = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UserError(f"config {path}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # of both parsers
        raise UserError(f"config {path}: cannot be parsed: {error}") from None
    return config_from_dict(plain, str(path))


def config_from_dict(plain: Mapping[str, Any], where: str = "config") -> RobotConfig:
    """Build a config from plain values; raises UserError like `read_config`."""
    config = build_from_plain(RobotConfig, plain, where)
    for name, joint in config.joints.items():
        _check_joint(f"{where}: joints.{name}", joint)
    safety, timing = f"{where}: safety", f"{where}: timing"
    times = ("max_action_age", "max_answer_time", "max_starved_time", "max_tick_time")
    _check_numbers(safety, config.safety, times)
    _check_numbers(safety, config.safety, ("max_image_age", "approach_time", "hold_time"))
    _check_numbers(timing, config.timing, ("motor_rate", "execute_steps", "threads"))
    shares = (
        *("slowest_rate", "slowest_camera", "start_outside", "start_distance"),
        *("leap_distance", "tracking_error", "odd_action"),
    )
    _check_numbers(safety, config.safety, shares, zero=True)
    off = ("frozen_camera_time", "odd_image_time", "tracking_time", "odd_action_time")
    _check_numbers(safety, config.safety, (*off, "failed_reads"), zero=True)
    _check_numbers(timing, config.timing, ("blend_steps",), zero=True)
    return config


def _check_joint(where: str, joint: JointConfig) -> None:
    if joint.low is not None and joint.high is not None and not joint.low < joint.high:
        raise UserError(
            f"{where}: low is {joint.low} and high is {joint.high}; expected low < high"
        )
    _check_numbers(where, joint, ("max_speed", "max_step", "approach_speed"))
    low = -math.inf if joint.low is None else joint.low
    high = math.inf if joint.high is None else joint.high
    if joint.park is not None and not low <= joint.park <= high:
        raise UserError(f"{where}.park is {joint.park}; expected a place from {low} to {high}")
    if joint.wraps is not None and not joint.wraps[0] < joint.wraps[1]:
        raise UserError(f"{where}.wraps is {list(joint.wraps)}; expected [from, to], from < to")


def _check_numbers(where: str, table: object, names: Sequence[str], zero: bool = False) -> None:
    """Raise UserError unless each number that is given is positive, or `zero` where allowed."""
    for name in names:
        value = getattr(table, name)
        if value is not None and not (value > 0 or (zero and value == 0)):
            expected = "0 or more" if zero else "a positive number"
            raise UserError(f"{where}.{name} is {value}; expected {expected}")


def build_from_plain(wanted: type[ConfigT], plain: Any, where: str) -> ConfigT:
    """Build a dataclass from plain values by its annotations, or raise UserError."""
    if not isinstance(plain, Mapping):
        raise UserError(f"{where}: found {plain!r}, expected a table")
    hints = get_type_hints(wanted)
    if unknown := sorted(set(plain) - set(hints)):
        raise UserError(
            f"{where}: unknown {', '.join(unknown)}; expected some of {', '.join(sorted(hints))}"
        )
    values = {name: _value(hints[name], value, f"{where}: {name}") for name, value in plain.items()}
    return wanted(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    """Take a plain value as the annotated type of a field, or raise UserError."""
    if hasattr(hint, "__dataclass_fields__"):
        return build_from_plain(hint, value, where)
    if get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: found {value!r}, expected a table")
        of = get_args(hint)[1]
        return {str(key): _value(of, item, f"{where}.{key}") for key, item in value.items()}
    options = [option for option in get_args(hint) if option is not type(None)]
    if get_origin(hint) is Literal:
        if value not in options:
            raise UserError(f"{where}: found {value!r}, expected one of {', '.join(options)}")
        return value
    if get_origin(hint) is tuple:
        of, count = options[0], 0 if options[-1] is Ellipsis else len(options)
        if not isinstance(value, list | tuple) or (count and len(value) != count):
            raise UserError(
                f"{where}: found {value!r}, expected a list{f' of {count}' * bool(count)}"
            )
        return tuple(_value(of, item, where) for item in value)
    if hint in (float, int, str):
        wanted = {float: (int, float), int: (int,), str: (str,)}[hint]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise UserError(f"{where}: found {value!r}, expected {hint.__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{where}: found {value!r}, expected a finite number")
        return hint(value)
    return _value(options[0], value, where)  # one type or None
