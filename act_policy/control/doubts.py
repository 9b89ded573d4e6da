"""What must be known of every dimension before it moves: its kind and its unit.

A command of 0.1 is a place, a speed or a movement, in degrees or in radians; the arm cannot tell.
The owner's file is believed; unit, name and demonstrations must agree wherever it is silent.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from act_policy.action_kinds import ShownKind, contradicts, declared_kind
from act_policy.control.config import JointConfig, RobotConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.types import Schema

DEGREES = frozenset({"deg", "degree", "degrees", "°"})
RADIANS = frozenset({"rad", "radian", "radians"})

MOST_RADIANS = 4 * math.pi
"""A joint of more than two turns either way is thought to be in degrees."""

MOST_RATIO = 20.0
"""Limits this much wider or narrower than the demonstrations are thought to be in another unit:
between degrees and radians it is 57, between -100 to 100 and radians about as much."""


class DoubtKind(StrEnum):
    """Each way in which a dimension is not known."""

    UNKNOWN_KIND = "unknown kind"
    CONTRADICTED_KIND = "contradicted kind"
    OTHER_UNIT_MEASURED = "other unit measured"
    UNIT_AND_DEMONSTRATIONS = "unit and demonstrations differ"
    LIMITS_AND_UNIT = "limits and unit differ"
    LIMITS_AND_DEMONSTRATIONS = "limits and demonstrations differ"


class Doubt(NamedTuple):
    """What is not known of some dimensions, and what to write to make it known."""

    kind: DoubtKind
    names: tuple[str, ...]
    sentence: str


def find_doubts(
    schema: Schema, ranges: DemonstratedRanges, config: RobotConfig
) -> tuple[Doubt, ...]:
    """Return what forbids every motion until the owner's file says it; empty if all is known."""
    dimensions = [_Dimension(schema, ranges, config, index) for index in range(schema.action_size)]
    return (*_doubt_kinds(dimensions), *_doubt_units(dimensions))


class _Dimension:
    """One dimension of the action: what is said of it, and what was demonstrated."""

    def __init__(self, schema: Schema, ranges: DemonstratedRanges, config: RobotConfig, index: int):
        self.name = schema.action_names[index]
        joint = config.joints.get(self.name, JointConfig())
        self.kind_given, self.unit_given = joint.kind is not None, joint.unit is not None
        self.unit = joint.unit or schema.action_units[index]
        self.kind = joint.kind or declared_kind(self.name, self.unit)
        self.shown: ShownKind = ranges.action_kinds[index] if ranges.action_kinds else ""
        self.low, self.high = float(ranges.action_low[index]), float(ranges.action_high[index])
        self.limits = (joint.low, joint.high)
        measured = joint.measured or self.name
        self.measured_unit = ""
        if measured in schema.state_names:
            self.measured_unit = schema.state_units[schema.state_names.index(measured)]

    @property
    def place(self) -> bool:
        return self.kind in ("position", "switch")

    @property
    def ratio(self) -> float:
        """The owner's range in units of the demonstrated one; NaN where one is not known."""
        low, high = self.limits
        if low is None or high is None or not self.place or not self.high - self.low > 0:
            return math.nan
        return (high - low) / (self.high - self.low)


def _doubt_kinds(dimensions: Sequence[_Dimension]) -> list[Doubt]:
    doubts = []
    for dimension in dimensions:
        name, unit = dimension.name, dimension.unit
        key = f'joints."{name}".kind'
        if not dimension.kind:
            shown = f"; its demonstrations show a {dimension.shown}" * bool(dimension.shown)
            sentence = (
                f"action {name}: neither its unit ({unit or 'unknown'}) nor its name says whether "
                f"it is a position, a switch, a velocity or a displacement{shown}; say it by {key}"
            )
            doubts.append(Doubt(DoubtKind.UNKNOWN_KIND, (name,), sentence))
        elif not dimension.kind_given and contradicts(dimension.kind, dimension.shown):
            sentence = (
                f"action {name}: unit ({unit or 'unknown'}) and name say that it is a "
                f"{dimension.kind}, its demonstrations show a {dimension.shown}; say what it is "
                f"by {key}"
            )
            doubts.append(Doubt(DoubtKind.CONTRADICTED_KIND, (name,), sentence))
    return doubts


def _doubt_units(dimensions: Sequence[_Dimension]) -> list[Doubt]:
    doubts = []
    places = [d for d in dimensions if d.place and not d.unit_given]
    for dimension in places:
        name, unit, low, high = dimension.name, dimension.unit, dimension.low, dimension.high
        say = f'if its unit is right, say it by joints."{name}".unit'
        other = dimension.measured_unit
        if unit and other and _plain(unit) != _plain(other):
            sentence = f"action {name} is in {unit}, what measures it in {other}; {say}"
            doubts.append(Doubt(DoubtKind.OTHER_UNIT_MEASURED, (name,), sentence))
        if _plain(unit) in RADIANS and max(-low, high) > MOST_RADIANS:
            sentence = (
                f"action {name} is in {unit}, and was demonstrated from {low:.4g} to {high:.4g}, "
                f"which looks like degrees; {say}"
            )
            doubts.append(Doubt(DoubtKind.UNIT_AND_DEMONSTRATIONS, (name,), sentence))
        largest = max((abs(limit) for limit in dimension.limits if limit is not None), default=0.0)
        if _plain(unit) in RADIANS and MOST_RADIANS < largest < math.inf:
            sentence = (
                f"config: a limit of {name} is {largest:g}, which looks like degrees; the policy "
                f"commands it in {unit}; {say}"
            )
            doubts.append(Doubt(DoubtKind.LIMITS_AND_UNIT, (name,), sentence))
    degrees = [d for d in places if _plain(d.unit) in DEGREES and math.isfinite(d.high - d.low)]
    if len(degrees) > 1 and 0.1 < max(max(-d.low, d.high) for d in degrees) <= math.pi:
        names = tuple(d.name for d in degrees)
        sentence = (
            f"actions {', '.join(names)} are in degrees, and none was demonstrated beyond "
            f'{math.pi:.3g}, which looks like radians; if the unit is right, say it by joints."..."'
            ".unit"
        )
        doubts.append(Doubt(DoubtKind.UNIT_AND_DEMONSTRATIONS, names, sentence))
    return doubts + _doubt_limits(places)


def _doubt_limits(places: Sequence[_Dimension]) -> list[Doubt]:
    """Compare the owner's ranges with the demonstrated ones: both are in the policy's unit.

    One range that is far too narrow is enough; wide ones are only odd if all of them are, since a
    joint may hardly have moved in the demonstrations.
    """
    known = [d for d in places if math.isfinite(d.ratio)]
    odd = [d for d in known if d.ratio < 1 / MOST_RATIO]
    if known and min(d.ratio for d in known) > MOST_RATIO:
        odd = known
    return [
        Doubt(
            DoubtKind.LIMITS_AND_DEMONSTRATIONS,
            (d.name,),
            f"config: {d.name} may move from {d.limits[0]:g} to {d.limits[1]:g}, demonstrated was "
            f"{d.low:.4g} to {d.high:.4g}: these look like different units; give the limits in the "
            f'policy\'s own unit, and if they are, name it by joints."{d.name}".unit',
        )
        for d in odd
    ]


def guess_unit(value: float, low: float, high: float) -> str:
    """Say in which unit a value (that is outside a range) would be inside; "" if in none."""
    if low <= math.degrees(value) <= high:
        return "; in radians that would be inside a range in degrees"
    if abs(value) > 5 * max(-low, high) and low <= math.radians(value) <= high:
        return "; in degrees that would be inside a range in radians"
    return ""


def near_zero(state: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether a pose (s,) is so close to 0 that degrees, radians and -100 to 100 look alike."""
    large = np.maximum(-low, high) > MOST_RADIANS
    return bool(large.any() and (np.abs(state[large]) <= math.pi).all())


def _plain(unit: str) -> str:
    return unit.strip().lower()
