"""A fake SO-101 and a fake LeKiwi base with LeRobot's robot interface, and faults on request.

The environment variable FAULT=name:seconds injects a fault that long after the first command;
ROBOT_LOG=FILE gets a JSON line per call. `drive` sets both.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.types import Schema

FAULT, _, _at = os.environ.get("FAULT", "none:0").partition(":")
AT = float(_at or 0)
SO101_JOINTS = (
    *("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"),
)
FOLLOW_TIME = 0.05
"""Seconds in which a position covers the way to its command."""


class FakeArm:
    """Joints that follow commands, cameras that show noise, and one fault."""

    is_connected = True

    def __init__(self, schema: Schema, cameras: dict[str, tuple[int, int]] | None = None):
        self.cameras = cameras or {c.name: (c.height, c.width) for c in schema.cameras}
        self.joints, self.actions = list(schema.state_names), list(schema.action_names)
        self.position = {n: 50.0 if n.endswith("gripper.pos") else 0.0 for n in self.joints}
        self.command: dict[str, float] = {}
        self.first: float | None = None
        self.kept: dict[str, Any] | None = None
        self.done = False
        self.random = np.random.default_rng(0)
        self.then = self.frame_at = time.monotonic()
        self.torque = False
        self.bus = self  # LeRobot's motors are switched by `robot.bus.disable_torque()`
        self.log = Path(os.environ.get("ROBOT_LOG", os.devnull))
        self.log.write_text("")

    def write(self, what: str, **more: Any) -> None:
        line = json.dumps({"t": round(time.monotonic(), 4), "what": what, **more})
        with self.log.open("a") as file:
            file.write(line + "\n")

    def on(self, name: str) -> bool:
        """Whether this fault is present now."""
        return name == FAULT and self.first is not None and time.monotonic() - self.first >= AT

    def once(self, name: str) -> bool:
        """Whether this fault is present now, for the first time."""
        if self.done or not self.on(name):
            return False
        self.done = True
        return True

    @property
    def observation_features(self) -> dict[str, Any]:
        features: dict[str, Any] = dict.fromkeys(self.joints, float)
        features |= {c: (h, w, 3) for c, (h, w) in self.cameras.items()}
        if FAULT == "renamed":
            features["frontal"] = features.pop(next(iter(self.cameras)))
        return features

    @property
    def action_features(self) -> dict[str, Any]:
        names: Iterable[str] = reversed(self.actions) if FAULT == "order" else self.actions
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
        if not self.on("stalled"):
            for name in self.position.keys() & self.command.keys():
                share = 1.0 if name.endswith(".vel") else min(1.0, (now - self.then) / FOLLOW_TIME)
                self.position[name] += (self.command[name] - self.position[name]) * share
        self.then = now

    def _frames(self) -> dict[str, Any]:
        frames = {}
        for i, (camera, (height, width)) in enumerate(self.cameras.items()):
            low, high = 40 + 60 * i, 100 + 60 * i
            coarse = self.random.integers(low, high, (height // 8, width // 8, 3), dtype=np.uint8)
            frames[camera] = coarse.repeat(8, 0).repeat(8, 1)
        return frames

    def get_observation(self) -> dict[str, Any]:
        now = time.monotonic()
        self._advance(now)
        joints: Iterable[str] = reversed(self.joints) if FAULT == "order" else self.joints
        seen: dict[str, Any] = {n: float(self.position[n]) for n in joints} | self._frames()
        cameras = list(self.cameras)
        if self.on("leap"):
            seen[self.joints[1]] += 57.0
        if self.on("nan_state"):
            seen[self.joints[0]] = float("nan")
        if self.on("black"):
            seen[cameras[0]] = np.zeros_like(seen[cameras[0]])
        if self.on("other_size"):
            seen[cameras[0]] = np.full((120, 160, 3), 90, np.uint8)
        if self.on("swapped"):
            seen[cameras[0]], seen[cameras[-1]] = seen[cameras[-1]], seen[cameras[0]]
        for fault, kept in (
            ("frozen", cameras),
            ("frozen_joints", self.joints),
            ("stale", list(seen)),
        ):
            if self.on(fault):
                self.kept = self.kept or {n: seen[n] for n in kept}
                seen.update(self.kept)
        # the driver answers at once with its latest frame: two a second
        if self.on("slow_camera") or (FAULT == "slow_camera" and AT == 0):
            if self.kept is None or now - self.frame_at > 0.5:
                self.kept, self.frame_at = {c: seen[c] for c in cameras}, now
            seen.update(self.kept)
        if self.on("slow"):
            time.sleep(0.05)
        if self.once("hang_observation"):
            time.sleep(3)
        if self.on("raise_observation") or self.once("raise_observation_once"):
            raise ConnectionError("no status packet")
        return seen

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        self.first = self.first or time.monotonic()
        self.write("send", action={n: round(float(v), 3) for n, v in action.items()})
        if self.on("raise_send"):
            raise ConnectionError("port is in use")
        if self.once("hang_send"):
            time.sleep(2)
        self.command = dict(action)
        return action

    def disconnect(self) -> None:
        if FAULT == "slow_disconnect":
            time.sleep(0.3)
        self.write("disconnect")
        if FAULT == "raise_disconnect":
            raise ConnectionError("failed to write Torque_Enable")


def make(schema: Schema) -> FakeArm:
    return FakeArm(schema)


def make_dark(schema: Schema) -> FakeArm:
    """Every lens is covered."""
    arm = FakeArm(schema)
    arm._frames = lambda: {c: np.zeros((*size, 3), np.uint8) for c, size in arm.cameras.items()}  # type: ignore[method-assign]
    return arm


def make_nothing(schema: Schema) -> FakeArm:
    raise OSError("no such port")


def release(arm: FakeArm) -> None:
    """The owner's hook, which gets what their function returned."""
    arm.bus.disable_torque()


class Leader:
    """A leader arm that a person swings: +-10 a second and a half at most, from 0."""

    def __init__(self) -> None:
        self.begun: float | None = None

    def connect(self) -> None: ...

    def get_action(self) -> dict[str, float]:
        if FAULT == "raise_leader":
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
    """A robot of one's own, which says when it looked: FAULT=future, wall_clock or old."""

    def __init__(self, schema: Schema):
        self.arm = FakeArm(schema)

    def connect(self) -> None:
        self.arm.connect()

    def get_observation(self) -> Any:
        from act_policy.control.robots.robot import Reading

        seen, now = self.arm.get_observation(), time.monotonic()
        times = {"future": now + 0.4, "wall_clock": time.time(), "old": now - 0.45}
        if AT > 0 and not self.arm.on(FAULT):
            times = {}
        images = {c: seen[c] for c in self.arm.cameras}
        return Reading(times.get(FAULT, now), images, {n: seen[n] for n in self.arm.joints})

    def send_action(self, action: dict[str, Any]) -> dict[str, Any]:
        return self.arm.send_action(action)

    def disconnect(self) -> None:
        self.arm.disconnect()


def make_own(schema: Schema) -> OwnRobot:
    return OwnRobot(schema)
