"""What the numbers of an action are: what a file says by unit and name, and what its data show.

A command of 0.1 is a place to one motor, a speed to another and a movement to a third. Nothing
may move before this is known, and files often do not say it.
"""

import math
import re
from typing import Literal

ActionKind = Literal["position", "switch", "velocity", "displacement"]
"""position: where to go. switch: a position that may jump, such as a gripper's.
velocity: units per second. displacement: units per step of the policy."""

DeclaredKind = ActionKind | Literal[""]
"""The kind by unit and name; "" where they do not say it, or contradict each other."""

ShownKind = Literal["position", "target", "velocity", "displacement", "motion", ""]
"""What demonstrations show of an action, by the state that follows it.

target: the state follows it, and nothing says whether that state is a position or a velocity.
motion: the change of the state follows it, by a factor that fits neither a step nor a second.
"": the data cannot tell.
"""

_FITS: dict[str, tuple[ShownKind, ...]] = {
    "position": ("position", "target"),
    "velocity": ("velocity", "target", "motion"),
    "displacement": ("displacement", "motion"),
}
"""A switch is missing: a gripper may be told to open by a position, a speed or a movement."""

_TIME = r"(?:s|sec|secs|second|seconds|min|minute|minutes|h|hr|hour|hours|ms)"
_STEP = r"(?:time ?steps?|steps?|frames?|ticks?|cycles?|dt)"
_PER_TIME = re.compile(rf"/ ?{_TIME}$|(?<![a-z]){_TIME} ?\^? ?-1$")
_SPEEDS = {"mps", "rps", "rpm", "dps", "kmh", "kph", "mph"}
_PER_STEP = re.compile(rf"/ ?{_STEP}$|(?<![a-z]){_STEP} ?\^? ?-1$")
_PER_TIME_SQUARED = re.compile(rf"/ ?{_TIME} ?(?:\^? ?2|/ ?{_TIME})$|{_TIME} ?\^? ?-2$")
_FORCES = re.compile(
    r"^(?:n|nm|n ?\*? ?m|newtons?( meters?)?|k?gf?|m?a|amps?|amperes?|m?v|volts?|w|watts?|pwm)$"
)

_SIZES = {
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), 1.0),
    **dict.fromkeys(("cm", "centimeter", "centimeters", "centimetre", "centimetres"), 0.01),
    **dict.fromkeys(("mm", "millimeter", "millimeters", "millimetre", "millimetres"), 0.001),
    **dict.fromkeys(("rad", "radian", "radians"), 1.0),
    **dict.fromkeys(("deg", "degree", "degrees", "°"), math.pi / 180),
}

_VELOCITY_WORDS = {"vel", "velocity", "velocities", "speed", "qvel", "qdot", "dq"}
_VELOCITY_WORDS |= {"vx", "vy", "vz", "vtheta", "vyaw"}
_DISPLACEMENT_WORDS = {"delta", "deltas", "displacement"}
_POSITION_WORDS = {"pos", "position", "positions", "qpos", "q"}
_SWITCH_WORDS = {"gripper", "grippers"}
_TURNS = {"roll", "pitch", "yaw", "rotate", "rotation", "wrist", "twist", "tilt", "pan"}
_AXES = {"x", "y", "z", "rx", "ry", "rz", "roll", "pitch", "yaw", "theta", "ee"}


def declared_kind(name: str, unit: str) -> DeclaredKind:
    """Return the kind that a dimension's unit and name declare.

    Units: "m/s", "rad/sec", "deg per s", "m s^-1", "rpm", "cm/step", "mm per frame", ...
    Names: "x.vel", "base_linear_velocity", "delta_x", "shoulder_pan.pos", "left_gripper", ...
    """
    by_unit, by_name = _kind_of_unit(unit), _kind_of_name(name)
    if by_unit == "position":  # the unit of a movement, too; not of a velocity
        return "" if by_name == "velocity" else by_name or "position"
    if by_unit is None:  # a force, an acceleration
        return ""
    if by_unit and by_name in ("", "switch", by_unit):
        return by_unit
    return by_name if not by_unit else ""


def contradicts(declared: DeclaredKind, shown: ShownKind) -> bool:
    """Whether the data show that an action is not what its file says."""
    return bool(shown) and declared in _FITS and shown not in _FITS[declared]


def stem(name: str) -> str:
    """Return a name without the words that say its kind: "delta_x" and "x.pos" are both "x"."""
    kinds = _VELOCITY_WORDS | _DISPLACEMENT_WORDS | _POSITION_WORDS
    return "_".join(word for word in _words(name) if word not in kinds)


def unit_size(unit: str) -> float | None:
    """Return a unit, or that of a movement, in metres or radians; None for any other."""
    plain = _PER_STEP.sub("", _PER_TIME.sub("", _plain(unit))).strip()
    return _SIZES.get(plain)


def _kind_of_unit(unit: str) -> DeclaredKind | None:
    """None for a unit of something else; "" for none; a plain unit is that of a position."""
    plain = _plain(unit)
    if plain in ("", "?", "-", "unknown", "none", "n/a"):
        return ""
    if _PER_TIME_SQUARED.search(plain) or _FORCES.match(plain):
        return None
    if _PER_TIME.search(plain) or plain in _SPEEDS:
        return "velocity"
    return "displacement" if _PER_STEP.search(plain) else "position"


def _plain(unit: str) -> str:
    """Spell a unit in one way: "deg/s", "m s -1", "cm/step"."""
    plain = unit.lower().replace("⁻", "-").replace("¹", "1").replace("²", "2").replace("**", "^")
    plain = re.sub(r"[\s_·.()]+", " ", plain).strip()
    return re.sub(r"(?: |(?<=°))?\bper\b ?", "/", plain)


def _kind_of_name(name: str) -> DeclaredKind:
    words = _words(name)
    ends = [word for word in words if word not in _AXES] or words
    if _VELOCITY_WORDS.intersection(words):
        return "velocity"
    if ends and (ends[0] in _DISPLACEMENT_WORDS or ends[-1] in _DISPLACEMENT_WORDS):
        return "displacement"
    if _SWITCH_WORDS.intersection(words) and not (_TURNS | _AXES).intersection(words):
        return "switch"
    return "position" if ends and ends[-1] in _POSITION_WORDS else ""


def _words(name: str) -> list[str]:
    """Split at anything but letters, and between the words of camelCase."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
