"""A fake SO-101 and a fake LeKiwi base with LeRobot's robot interface, and `faults` on request.

ROBOT_LOG=FILE gets a JSON line per call. `drive` sets it.
"""

import json
import os
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.types import Schema
from tests.control.campaign.faults import Faults

SO101_JOINTS = (
    *("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"),
)
FOLLOW_TIME = 0.05
"""Seconds in which a position covers the way to its command."""

FAULTS = Faults()


class FakeArm:
    """Joints that follow commands, cameras that show noise, and faults."""

    is_connected = True

    def __init__(self, schema: Schema, cameras: dict[str, tuple[int, int]] | None = None):
        self.cameras = cameras or {c.name: (c.height, c.width) for c in schema.cameras}
        self.joints, self.actions = list(schema.state_names), list(schema.action_names)
        self.position = {n: 50.0 if n.endswith("gripper.pos") else 0.0 for n in self.joints}
        self.command: dict[str, float] = {}
        self.kept: dict[str, dict[str, Any]] = {}
        self.random = np.random.default_rng(0)
        self.looks = 0
        self.then = self.frame_at = time.monotonic()
        self.torque = False
        self.bus = self  # LeRobot's motors are switched by `robot.bus.disable_torque()`
        self.log = Path(os.environ.get("ROBOT_LOG", os.devnull))
        self.log.write_text("")

    def write(self, what: str, **more: Any) -> None:
        line = json.dumps({"t": round(time.monotonic(), 4), "what": what, **more})
        with self.log.open("a") as file:
            file.write(line + "\n")

    @property
    def observation_features(self) -> dict[str, Any]:
        features: dict[str, Any] = dict.fromkeys(self.joints, float)
        features |= {c: (h, w, 3) for c, (h, w) in self.cameras.items()}
        if FAULTS.on("renamed"):
            features["frontal"] = features.pop(next(iter(self.cameras)))
        return features

    @property
    def action_features(self) -> dict[str, Any]:
        names: Iterable[str] = reversed(self.actions) if FAULTS.on("order") else self.actions
        return dict.fromkeys(names, float)

    def connect(self, calibrate: bool = True) -> None:
        self.torque = True  # as LeRobot's SO-101: nobody can move it by hand from now on
        self.write("connect")

    def disable_torque(self) -> None:
        self.torque = False
        self.write("torque off")

    def _advance(self, now: float) -> None:
        """A position follows within FOLLOW_TIME, a velocity is what was asked.

        A person swings the second joint as soon as the arm is limp.
        """
        if not self.torque:
            self.position[self.joints[1]] = 10 * np.sin(2 * np.pi * now)
        if not FAULTS.on("stalled"):
            for name in self.position.keys() & self.command.keys():
                share = 1.0 if name.endswith(".vel") else min(1.0, (now - self.then) / FOLLOW_TIME)
                self.position[name] += (self.command[name] - self.position[name]) * share
        self.then = now

    def _frames(self) -> dict[str, Any]:
        """Even noise: the first camera is dark and warm, the second bright and cold."""
        frames = {}
        for i, (camera, (height, width)) in enumerate(self.cameras.items()):
            low, high = 40 + 60 * i, 100 + 60 * i
            coarse = self.random.integers(low, high, (height // 8, width // 8, 3), dtype=np.uint8)
            coarse += np.array([[20, 10, 0], [0, 10, 20]][i % 2], np.uint8)
            frames[camera] = coarse.repeat(8, 0).repeat(8, 1)
        return frames

    def _spoil(self, seen: dict[str, Any]) -> None:
        """Change what was measured."""
        (first, *_, last), joint = self.cameras, self.joints[1]
        image = seen[first]
        self.looks += 1
        bright = self.looks % 3 == 0
        spoilt = (
            ("leap", joint, seen[joint] + 57.0),
            ("outside", joint, seen[joint] + 70.0),
            ("waved", joint, seen[joint] + 10.0 * self.random.choice([-1, 1])),
            ("nan_state", self.joints[0], float("nan")),
            ("black", first, np.zeros_like(image)),
            ("glare", first, np.full_like(image, 255)),
            ("dim", first, image // 8),
            ("flickering", first, image if bright else image // 8),
            ("bgr", first, image[..., ::-1]),
            ("other_size", first, np.full((120, 160, 3), 90, np.uint8)),
            ("other_type", first, image / 255),
        )
        seen |= {name: value for fault, name, value in spoilt if FAULTS.on(fault)}
        if FAULTS.on("lost_camera"):
            del seen[first]
        if FAULTS.on("renamed"):
            seen["frontal"] = seen.pop(first)
        if FAULTS.on("swapped"):
            seen[first], seen[last] = seen[last], seen[first]

    def _repeat(self, seen: dict[str, Any], now: float) -> None:
        """Hand out what was measured before."""
        cameras = list(self.cameras)
        for fault, kept in (
            ("frozen", cameras),
            ("frozen_joints", self.joints),
            ("stale", list(seen)),
        ):
            if not FAULTS.on(fault):
                self.kept.pop(fault, None)
            else:
                seen.update(self.kept.setdefault(fault, {n: seen[n] for n in kept}))
        if FAULTS.on("slow_camera"):  # its latest frame at once: two a second
            if "slow_camera" not in self.kept or now - self.frame_at > 0.5:
                self.kept["slow_camera"], self.frame_at = {c: seen[c] for c in cameras}, now
            seen.update(self.kept["slow_camera"])

    def get_observation(self) -> dict[str, Any]:
        now = time.monotonic()
        FAULTS.strike_policy()
        self._advance(now)
        joints: Iterable[str] = reversed(self.joints) if FAULTS.on("order") else self.joints
        seen: dict[str, Any] = {n: float(self.position[n]) for n in joints} | self._frames()
        self._spoil(seen)
        self._repeat(seen, now)
        if FAULTS.on("slow"):
            time.sleep(0.05)
        if FAULTS.once("hang_observation"):
            time.sleep(3)
        if (
            FAULTS.on("raise_observation")
            or FAULTS.once("raise_observation_once")
            or FAULTS.once("raise_observation_twice", 2)
            or (FAULTS.on("raise_observation_by_turns") and self.looks % 2)
        ):
            raise ConnectionError("no status packet")
        return seen

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        FAULTS.first_command = FAULTS.first_command or time.monotonic()
        self.write("send", action={n: round(float(v), 3) for n, v in action.items()})
        if FAULTS.on("raise_send"):
            raise ConnectionError("port is in use")
        if FAULTS.once("hang_send"):
            time.sleep(2)
        self.command = dict(action)
        return action

    def disconnect(self) -> None:
        if FAULTS.on("slow_disconnect"):
            time.sleep(0.3)
        self.write("disconnect")
        if FAULTS.on("raise_disconnect"):
            raise ConnectionError("failed to write Torque_Enable")


def make(schema: Schema) -> FakeArm:
    if FAULTS.on("full_disk"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    return FakeArm(schema)


def make_dark(schema: Schema) -> FakeArm:
    """Every lens is covered."""
    arm = FakeArm(schema)
    arm._frames = lambda: {c: np.zeros((*size, 3), np.uint8) for c, size in arm.cameras.items()}  # type: ignore[method-assign]
    return arm


def make_nothing(schema: Schema) -> FakeArm:
    raise OSError("no such port")


def pedal() -> bool:
    """A stop input of the owner's."""
    return FAULTS.on("pedal")


def release(arm: FakeArm) -> None:
    """The owner's hook, which gets what their function returned."""
    arm.bus.disable_torque()


class Leader:
    """A leader arm that a person swings: +-10 a second and a half at most, from 0."""

    def __init__(self) -> None:
        self.begun: float | None = None

    def connect(self) -> None: ...

    def get_action(self) -> dict[str, float]:
        if FAULTS.on("raise_leader"):
            raise ConnectionError("no status packet")
        now = time.monotonic()
        self.begun = self.begun or now
        action = {f"{joint}.pos": 0.0 for joint in SO101_JOINTS}
        action["shoulder_lift.pos"] = 10 * float(np.sin(np.pi * (now - self.begun)))
        return {**action, "gripper.pos": 50.0}

    def disconnect(self) -> None: ...


def leader() -> Leader:
    return Leader()


def broken_leader() -> Leader:
    raise OSError("no leader")


def broken_release(arm: FakeArm) -> None:
    raise OSError("no torque")


def make_other_size(schema: Schema) -> FakeArm:
    return FakeArm(schema, {c.name: (720, 960) for c in schema.cameras})


class OwnRobot:
    """A robot of one's own, which says when it looked; the faults are future, wall_clock and old.

    With old_wrist, the image of that camera alone is old.
    """

    def __init__(self, schema: Schema):
        self.arm = FakeArm(schema)

    def connect(self) -> None:
        self.arm.connect()

    def get_observation(self) -> Any:
        from act_policy.control.robots.robot import Reading

        seen, now = self.arm.get_observation(), time.monotonic()
        captured = now
        for fault, moment in (
            ("future", now + 0.4),
            ("wall_clock", time.time()),
            ("old", now - 0.45),
        ):
            captured = moment if FAULTS.on(fault) else captured
        images = {c: seen[c] for c in self.arm.cameras}
        times = {"front": now - 0.02, "wrist": now - (0.45 if FAULTS.on("old_wrist") else 0.04)}
        return Reading(captured, images, {n: seen[n] for n in self.arm.joints}, times)

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        return self.arm.send_action(action)

    def disconnect(self) -> None:
        self.arm.disconnect()


def make_own(schema: Schema) -> OwnRobot:
    return OwnRobot(schema)
