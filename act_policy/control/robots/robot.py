"""The four methods that the loop needs of a robot, LeRobot's own, and how robots are loaded."""

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Schema

ResultT = TypeVar("ResultT")


class Reading(NamedTuple):
    """The values of a robot's sensors, under its own names.

    captured: the moment that the reading shows, in seconds of the loop's clock (`time.monotonic`).
    images: camera -> uint8 (h, w, 3) RGB.
    joints: every measured value.
    image_times: camera -> when its image was taken, by the same clock; where a robot does not know
        it of a camera, `captured` counts.
    """

    captured: float
    images: Mapping[str, np.ndarray]
    joints: Mapping[str, float]
    image_times: Mapping[str, float] = MappingProxyType({})


@runtime_checkable
class Robot(Protocol):
    """An arm with its cameras. No method may block for longer than a tick."""

    def connect(self) -> None:
        """Make it ready; nothing moves."""

    def get_observation(self) -> Reading:
        """Read the sensors."""

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, float] | None:
        """Carry out a command, by name; return what was really sent where the two differ."""

    def disconnect(self) -> None:
        """Leave it safe; the loop sends nothing afterwards."""


class LeRobotRobot:
    """Any object with the methods of LeRobot's `Robot`, as a Robot: SO-100, SO-101, Koch, ...

    LeRobot's names stay: a joint is `shoulder_pan.pos`, a camera is `front`. Its cameras note when
    they took their latest frame, in later versions; where they do not, the moment before the call
    counts, and images may be one frame older.

    Args:
        robot: has connect, get_observation, send_action, disconnect, observation_features and
            action_features.
    """

    def __init__(self, robot: Any, clock: Callable[[], float] = time.monotonic):
        self.robot, self._clock = robot, clock

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names that send_action takes."""
        return tuple(self.robot.action_features)

    def connect(self) -> None:
        """Connect; LeRobot may ask for a calibration on the terminal."""
        self.robot.connect()

    def get_observation(self) -> Reading:
        """Split LeRobot's flat dictionary into images and joints."""
        captured, shift = self._clock(), self._clock() - time.perf_counter()  # LeRobot's clock
        images: dict[str, np.ndarray] = {}
        joints: dict[str, float] = {}
        frames = _latest_frames(self.robot)  # a camera's thread may take another one meanwhile
        observation = self.robot.get_observation()
        frames += _latest_frames(self.robot)
        for name, feature in self.robot.observation_features.items():
            if name not in observation:
                raise UserError(
                    f"robot: its observation has no {name}, which its observation_features name "
                    f"(found {', '.join(sorted(observation))})"
                )
            if isinstance(feature, tuple):
                images[name] = np.asarray(observation[name])
            else:
                joints[name] = float(observation[name])
        times = {
            name: moment + shift
            for name, frame, moment in frames
            if frame is observation.get(name)  # else nobody knows of which frame that was
        }
        return Reading(captured, images, joints, times)

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, float] | None:
        """Pass a command on; return what LeRobot sent, which its own limits may have changed."""
        return cast(Mapping[str, float] | None, self.robot.send_action(dict(action)))

    def disconnect(self) -> None:
        """Disconnect; most of LeRobot's arms then go limp, see docs/robot.md."""
        self.robot.disconnect()


def _latest_frames(robot: Any) -> list[tuple[str, Any, float]]:
    """Each camera's latest frame and when it was taken, where LeRobot's cameras note it.

    Source: huggingface/lerobot, `lerobot/cameras`: `latest_frame`, which RealSense cameras call
    `latest_color_frame`, and `latest_timestamp`, set together under `frame_lock`.
    """
    found = []
    cameras = getattr(robot, "cameras", None)
    for name, camera in cameras.items() if isinstance(cameras, Mapping) else ():
        with getattr(camera, "frame_lock", None) or nullcontext():
            moment = getattr(camera, "latest_timestamp", None)
            frame = getattr(camera, "latest_frame", getattr(camera, "latest_color_frame", None))
        if isinstance(moment, float) and frame is not None:
            found.append((name, frame, moment))
    return found


def call_owner(what: str, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Call code of the owner or a driver; whatever it raises becomes a UserError that says what."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} failed: {error!r}") from error


class RobotReader:
    """Reads a robot's sensors, and lets pass that its driver fails a few times in a row.

    Args:
        tolerated: how many failures in a row.
    """

    def __init__(self, robot: Robot, tolerated: int):
        self._robot, self._tolerated = robot, tolerated
        self._in_a_row = 0
        self.failures = 0
        self.reason = ""  # of the last failure

    def read(self) -> Reading | None:
        """Return what is measured now; None where the driver failed and that is tolerated.

        Raises:
            UserError: it failed too often.
        """
        try:
            reading = call_owner("the robot's observation", self._robot.get_observation)
        except UserError as error:
            self.failures += 1
            self._in_a_row += 1
            self.reason = str(error)
            if self._in_a_row > self._tolerated:
                raise
            return None
        self._in_a_row = 0
        return reading

    def read_patiently(self) -> Reading:
        """Return what is measured, after as many failures as are tolerated; raises UserError."""
        while (reading := self.read()) is None:
            pass
        return reading


def load_robot(spec: str, schema: Schema) -> Robot:
    """Call the owner's `MODULE:FUNCTION` with the policy's schema.

    The module may be in the working directory. The function returns a Robot, or one of LeRobot's
    robots, which are recognised by their observation_features.

    Raises:
        UserError: there is no such function, or it does not return a robot.
    """
    robot = call_owner(f"robot {spec}", load_hook(spec, "robot"), schema)
    if hasattr(robot, "observation_features"):
        robot = LeRobotRobot(robot)
    methods = [name for name in vars(Robot) if not name.startswith("_")]
    if missing := [name for name in methods if not callable(getattr(robot, name, None))]:
        raise UserError(
            f"robot {spec}: what it returned ({type(robot).__name__}) has no {', '.join(missing)}; "
            "expected a Robot (act_policy/control/robots/robot.py), or one of LeRobot's"
        )
    return cast(Robot, robot)


def load_hook(spec: str, option: str) -> Callable[..., Any]:
    """Import the owner's `MODULE:FUNCTION`.

    Raises:
        UserError: there is none.
    """
    module_name, _, function = spec.partition(":")
    if not module_name or not function:
        raise UserError(f"{option} {spec}: expected MODULE:FUNCTION, such as my_robot:make")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # last: a file random.py there must not hide the standard library's
    try:
        hook: Callable[..., Any] = getattr(importlib.import_module(module_name), function)
    except (ImportError, AttributeError) as error:
        where = ""
        if isinstance(error, ModuleNotFoundError) and error.name == module_name:
            where = f"; start the command in the folder of {module_name}.py, which is not {here}"
        raise UserError(f"{option} {spec}: cannot be imported: {error}{where}") from None
    except Exception as error:  # of the owner's module, which may raise anything
        raise UserError(f"{option} {spec}: cannot be imported: {error!r}") from error
    if not callable(hook):
        raise UserError(f"{option} {spec}: is not a function")
    return hook
