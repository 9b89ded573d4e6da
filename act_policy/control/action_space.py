"""The kind of each dimension of the action, and the limits within which a command may move it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from act_policy.action_kinds import declared_kind
from act_policy.control.config import JointConfig, Kind, RobotConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.errors import UserError
from act_policy.types import Schema

# Limits derived from the demonstrations' ranges where the owner's file gives none. They tell what
# was done, not what is safe: weaker than real limits, and reported as such.
LIMIT_MARGIN = 0.05  # of the range, on either side
RANGES_PER_SECOND = 2.0
SWITCH_RANGES_PER_SECOND = 5.0  # faster than grippers are, and no jump
STEP_OF_RANGE = 0.5
APPROACH_RANGES_PER_SECOND = 0.1
SMALLEST_RANGE = 1e-2  # a joint that never moved still gets a limit that noise does not touch
SMALLEST_SCALE = 0.1  # of the widest range in the same unit
_NOT_ARRAYS = {"name", "kind", "measured", "source", "spread", "usual"}


class LimitSources(NamedTuple):
    """Where the limits of one dimension come from, each by its name.

    given: those in the owner's file.
    demonstrated: those that are only what the demonstrations did.
    relative: whether these are the ranges of the states, to which the action is relative.
    """

    given: tuple[str, ...]
    demonstrated: tuple[str, ...]
    relative: bool


@dataclass(frozen=True)
class ActionSpace:
    """Kind and limits per dimension of the action; arrays are (a,), infinite without a limit.

    measured: index into the state, -1 where nothing measures the dimension.
    scale: what counts as a large movement: the demonstrated range; of a joint that hardly moved, a
        tenth of the widest range in its unit.
    awaited: bool, positions for which the soft start waits. One that hardly moved may, by limits
        derived from that, be too slow to get inside its range in time: it creeps there meanwhile.
    odd_low, odd_high: no policy that works asks for more (`safety.odd_action`).
    wrap_low, period: of angles that wrap; period is infinite for all others.
    park: where a hold goes; NaN where it stays.
    sources: where the limits of each dimension come from.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    kinds: tuple[Kind, ...]
    measured: np.ndarray
    low: np.ndarray
    high: np.ndarray
    max_speed: np.ndarray
    max_step: np.ndarray
    approach_speed: np.ndarray
    start_distance: np.ndarray
    scale: np.ndarray
    awaited: np.ndarray
    odd_low: np.ndarray
    odd_high: np.ndarray
    wrap_low: np.ndarray
    period: np.ndarray
    park: np.ndarray
    sources: tuple[LimitSources, ...]

    @property
    def positions(self) -> np.ndarray:
        """Bool (a,): a command is a place to go to; elsewhere it is a motion, and 0 is rest."""
        return np.array([kind in ("position", "switch") for kind in self.kinds])

    @property
    def jumps(self) -> np.ndarray:
        """Bool (a,): never blended or interpolated, since the mean of two values is neither."""
        switches = np.array([kind == "switch" for kind in self.kinds])
        return np.asarray(switches | np.isfinite(self.period))

    def difference(self, target: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """From origin to target (..., a), the short way round where an angle wraps."""
        change = target - origin
        wraps = np.isfinite(self.period)
        half = self.period[wraps] / 2
        change[..., wraps] = (change[..., wraps] + half) % self.period[wraps] - half
        return np.asarray(change)

    def wrap(self, command: np.ndarray) -> np.ndarray:
        """The same command with each wrapping angle inside its interval."""
        command, wraps = command.copy(), np.isfinite(self.period)
        low, period = self.wrap_low[wraps], self.period[wraps]
        command[wraps] = (command[wraps] - low) % period + low
        return command

    def measure(self, state: np.ndarray) -> np.ndarray:
        """The measured position of every dimension (a,); NaN where nothing measures it."""
        values = np.append(np.asarray(state, np.float64), np.nan)
        return np.where(self.positions, values[self.measured], np.nan)


def build_action_space(
    schema: Schema, ranges: DemonstratedRanges, config: RobotConfig
) -> ActionSpace:
    """Combine the owner's limits with those of the demonstrations where the config gives none.

    Raises:
        UserError: a dimension has no limits, a position has nothing that measures it, or the file
            names a dimension that the policy does not have.
    """
    if unknown := sorted(set(config.joints) - set(schema.action_names)):
        raise UserError(
            f"config: joints {', '.join(unknown)} are none of the policy's actions, "
            f"{', '.join(schema.action_names)}"
        )
    dimensions = [
        _dimension(schema, i, ranges, config.joints.get(name, JointConfig()), config)
        for i, name in enumerate(schema.action_names)
    ]
    kinds = tuple(d["kind"] for d in dimensions)
    each = zip(schema.action_names, kinds, strict=True)
    stepwise = [name for name, kind in each if kind == "displacement"]
    rate = config.timing.motor_rate
    if stepwise and rate is not None and rate != schema.rate:
        raise UserError(
            f"timing.motor_rate={rate}: {', '.join(stepwise)} move by an amount per step of the "
            f"policy, {schema.rate} per second; leave motor_rate out"
        )

    units = tuple(
        config.joints.get(name, JointConfig()).unit or unit for name, unit in schema.actions
    )
    spreads: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kind, unit, dimension in zip(kinds, units, dimensions, strict=True):
        spreads[kind, unit].append(dimension["spread"])
    widest = np.array([max(spreads[alike]) for alike in zip(kinds, units, strict=True)])
    scale = np.maximum([d["spread"] for d in dimensions], SMALLEST_SCALE * widest)
    usual_low, usual_high = np.array([d["usual"] for d in dimensions], np.float64).T
    odd = config.safety.odd_action * scale
    max_speed = np.array([d["max_speed"] for d in dimensions], np.float64)
    place = np.array([kind in ("position", "switch") for kind in kinds])
    far = config.safety.start_outside * scale  # from its range, where a start is allowed
    return ActionSpace(
        names=schema.action_names,
        units=units,
        kinds=kinds,
        scale=scale,
        awaited=place & ~(far > max_speed * config.safety.approach_time),
        approach_speed=_approach_speeds(dimensions, scale, config),
        odd_low=usual_low - odd,
        odd_high=usual_high + odd,
        measured=np.array([d["measured"] for d in dimensions]),
        sources=tuple(d["source"] for d in dimensions),
        **{
            field: np.array([d[field] for d in dimensions], np.float64)
            for field in dimensions[0].keys() - _NOT_ARRAYS
        },
    )


def _approach_speeds(
    dimensions: Sequence[Mapping[str, Any]], scale: np.ndarray, config: RobotConfig
) -> np.ndarray:
    """The owner's, or a tenth of the demonstrated range per second.

    A joint that hardly moved is as fast as its scale and a known maximum allow.
    """
    speeds = []
    for dimension, large in zip(dimensions, scale, strict=True):
        given = config.joints.get(dimension["name"], JointConfig()).approach_speed
        usual = APPROACH_RANGES_PER_SECOND * dimension["spread"]
        most = min(
            APPROACH_RANGES_PER_SECOND * large,
            dimension["max_speed"] * APPROACH_RANGES_PER_SECOND / RANGES_PER_SECOND,
        )
        speeds.append(given or max(usual, most))
    return np.array(speeds, np.float64)


def _dimension(
    schema: Schema, index: int, ranges: DemonstratedRanges, joint: JointConfig, config: RobotConfig
) -> dict[str, Any]:
    """One dimension's fields of ActionSpace."""
    name, unit = schema.action_names[index], joint.unit or schema.action_units[index]
    kind = joint.kind or kind_of(name, unit)
    position = kind in ("position", "switch")
    measured = joint.measured or name
    if measured in schema.state_names:
        place = schema.state_names.index(measured)
    elif joint.measured is not None or kind == "position":
        raise UserError(
            f"config: action {name} is a {kind}, but the policy's state has no {measured} to "
            f"measure it (found {', '.join(schema.state_names)}); name it by "
            f'joints."{name}".measured, or say what {name} is by joints."{name}".kind'
        )
    else:
        place = -1
    if (joint.max_step or np.inf) < np.inf and (place < 0 or not position):
        raise UserError(
            f'config: joints."{name}".max_step is {joint.max_step}, but {name} is a {kind} whose '
            "position nothing measures; leave it out, or give max_speed"
        )

    low, high = float(ranges.action_low[index]), float(ranges.action_high[index])
    usual = low, high
    spread = max(high - low, SMALLEST_RANGE)  # NaN where the demonstrations are not known
    wraps = joint.wraps
    low, high = low - LIMIT_MARGIN * spread, high + LIMIT_MARGIN * spread
    if wraps is not None:  # the range of an angle that wraps says nothing
        low, high, spread = -np.inf, np.inf, wraps[1] - wraps[0]
    if not position:  # a motion is held at 0, whatever was demonstrated (NaN stays NaN)
        low, high = float(np.minimum(low, 0.0)), float(np.maximum(high, 0.0))
    low = low if joint.low is None else joint.low
    high = high if joint.high is None else joint.high
    if not position and (low > 0 or high < 0):
        raise UserError(
            f'config: joints."{name}" is a {kind} from {low} to {high} {unit}; the range must '
            "contain 0, at which a fault holds it"
        )
    if not low < high:
        raise UserError(
            f"config: action {name} has no limits: the policy does not say the demonstrations' "
            f'range; give joints."{name}".low and .high in {unit}'
        )
    if not np.isfinite(spread):
        spread, usual = high - low, (low, high)
    if wraps is not None:
        usual = -np.inf, np.inf
    if (park := joint.park) is not None and not position:
        raise UserError(
            f'config: joints."{name}".park is {park:g}, but {name} is a {kind}, which rests at 0; '
            "leave it out"
        )
    if park is not None and not low <= park <= high:
        raise UserError(
            f'config: joints."{name}".park is {park:g} {unit}, outside its limits of {low:.4g} to '
            f"{high:.4g}"
        )
    speed = {"position": RANGES_PER_SECOND, "switch": SWITCH_RANGES_PER_SECOND}.get(kind, np.inf)
    limits = {
        "low": low,
        "high": high,
        "max_speed": joint.max_speed or speed * spread,
        "max_step": joint.max_step or (STEP_OF_RANGE * spread if kind == "position" else np.inf),
    }
    given = tuple(field for field in limits if getattr(joint, field) is not None)
    rest = tuple(f for f, limit in limits.items() if f not in given and np.isfinite(limit))
    return {
        "name": name,
        "kind": kind,
        "measured": place if position else -1,
        **limits,
        "start_distance": config.safety.start_distance * spread,
        "wrap_low": wraps[0] if wraps else 0.0,
        "period": wraps[1] - wraps[0] if wraps else np.inf,
        "park": np.nan if park is None else park,
        "spread": spread,
        "usual": usual,
        "source": LimitSources(given, rest, name in ranges.relative_actions),
    }


def kind_of(name: str, unit: str) -> Kind:
    """Return the kind of a dimension by its unit and name.

    Where they do not say it, it is a position here and a doubt in `doubts.find_doubts`.
    """
    return declared_kind(name, unit) or "position"
