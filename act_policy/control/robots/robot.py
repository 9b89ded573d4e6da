"""What the loop needs of a robot: four methods, the same as LeRobot's, with names and a moment."""

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Schema


class Reading(NamedTuple):
    """What a robot perceives, under its own names.

    captured: when the images were taken, in seconds of the loop's clock (`time.monotonic`).
    images: camera -> uint8 (h, w, 3) RGB.
    joints: every measured value.
    """

    captured: float
    images: Mapping[str, np.ndarray]
    joints: Mapping[str, float]


@runtime_checkable
class Robot(Protocol):
    """An arm with its cameras. No method may block for longer than a tick."""

    def connect(self) -> None:
        """Make it ready; nothing moves."""

    def get_observation(self) -> Reading:
        """What it perceives now."""

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, float] | None:
        """Carry out a command, by name; returns what was really sent where the two differ."""

    def disconnect(self) -> None:
        """Leave it safe; the loop sends nothing afterwards."""


class LeRobotRobot:
    """Any object with the methods of LeRobot's `Robot`, as a Robot: SO-100, SO-101, Koch, ...

    LeRobot's names stay: a joint is `shoulder_pan.pos`, a camera is `front`. It gives no moment of
    capture, so the moment before its observation is asked for is taken: with cameras that hand out
    their latest frame the images may be one frame older.

    Args:
        robot: has connect, get_observation, send_action, disconnect, observation_features and
            action_features.
        clock: the loop's.
    """

    def __init__(self, robot: Any, clock: Callable[[], float] = time.monotonic):
        self._robot, self._clock = robot, clock

    @property
    def action_names(self) -> tuple[str, ...]:
        """What send_action takes."""
        return tuple(self._robot.action_features)

    def connect(self) -> None:
        """Connect; LeRobot may ask for a calibration on the terminal."""
        self._robot.connect()

    def get_observation(self) -> Reading:
        """Split LeRobot's flat dictionary into images and joints."""
        captured = self._clock()
        images: dict[str, np.ndarray] = {}
        joints: dict[str, float] = {}
        observed = self._robot.get_observation()
        for name, feature in self._robot.observation_features.items():
            if name not in observed:
                raise UserError(
                    f"robot: its observation has no {name}, which its observation_features name "
                    f"(found {', '.join(sorted(observed))})"
                )
            if isinstance(feature, tuple):
                images[name] = np.asarray(observed[name])
            else:
                joints[name] = float(observed[name])
        return Reading(captured, images, joints)

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, float] | None:
        """Pass on; LeRobot answers with what it sent, which its own limits may have changed."""
        sent: Mapping[str, float] | None = self._robot.send_action(dict(action))
        return sent

    def disconnect(self) -> None:
        """Disconnect; most of LeRobot's arms then go limp, see docs/robot.md."""
        self._robot.disconnect()


def observed(robot: Robot) -> Reading:
    """What a robot perceives now; UserError where its driver fails."""
    try:
        return robot.get_observation()
    except UserError:
        raise
    except Exception as error:  # of the driver, which may raise anything
        raise UserError(f"the robot's observation failed: {error!r}") from error


def load_robot(spec: str, schema: Schema) -> Robot:
    """Call the owner's `MODULE:FUNCTION` with the policy's schema.

    The module is looked for in the present folder, too. What the function returns is a Robot, or
    an object of LeRobot's, which is told by its observation_features.

    Raises:
        UserError: there is no such function, or what it returns is no robot.
    """
    made = load_hook(spec, "robot")(schema)
    if hasattr(made, "observation_features"):
        made = LeRobotRobot(made)
    methods = [name for name in vars(Robot) if not name.startswith("_")]
    if missing := [name for name in methods if not callable(getattr(made, name, None))]:
        raise UserError(
            f"robot {spec}: what it returned ({type(made).__name__}) has no {', '.join(missing)}; "
            "expected a Robot (act_policy/control/robots/robot.py), or one of LeRobot's"
        )
    robot: Robot = made
    return robot


def load_hook(spec: str, option: str) -> Callable[..., Any]:
    """Import the owner's `MODULE:FUNCTION`.

    Raises:
        UserError: there is none.
    """
    module_name, _, function = spec.partition(":")
    if not module_name or not function:
        raise UserError(f"{option} {spec}: expected MODULE:FUNCTION, such as my_robot:make")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        hook: Callable[..., Any] = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{option} {spec}: cannot be imported: {error}") from None
    if not callable(hook):
        raise UserError(f"{option} {spec}: is no function")
    return hook
