"""Robots of others: LeRobot's methods are enough; what is missing is said."""

import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.config import RobotConfig
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import LeRobotRobot, load_robot
from act_policy.control.robots.simulated_arm import SimulatedArm
from act_policy.images.levels import frame_levels
from act_policy.statistics import ImageLevels
from act_policy.types import Camera
from tests.control.loop_for_tests import RANGES, SCHEMA, Clock


class Follower:
    """As LeRobot 0.4's SO-101: flat dictionaries, "<motor>.pos" floats, camera images (h, w, 3)."""

    observation_features: Any = {"elbow.pos": float, "gripper.pos": float, "front": (4, 6, 3)}  # noqa: RUF012
    action_features: Any = {"elbow.pos": float, "gripper.pos": float}  # noqa: RUF012

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def connect(self, calibrate: bool = True) -> None:
        self.calls.append("connect")

    def get_observation(self) -> dict[str, Any]:
        image = np.full((4, 6, 3), 9, np.uint8)
        return {"front": image, "gripper.pos": np.float32(40.0), "elbow.pos": -12.5}

    def send_action(self, action: dict[str, float]) -> dict[str, float]:
        self.calls.append(action)
        return {name: min(value, 20.0) for name, value in action.items()}

    def disconnect(self) -> None:
        self.calls.append("disconnect")


def test_lerobots_methods_and_names() -> None:
    clock, follower = Clock(), Follower()
    robot = LeRobotRobot(follower, clock)
    assert robot.action_names == ("elbow.pos", "gripper.pos")
    robot.connect()
    reading = robot.get_observation()
    assert reading.captured == clock.now
    assert reading.joints == {"elbow.pos": -12.5, "gripper.pos": 40.0}
    assert list(reading.images) == ["front"]
    assert robot.send_action({"elbow.pos": 30.0, "gripper.pos": 1.0}) == {
        "elbow.pos": 20.0,
        "gripper.pos": 1.0,
    }
    robot.disconnect()
    assert follower.calls == ["connect", {"elbow.pos": 30.0, "gripper.pos": 1.0}, "disconnect"]
    follower.observation_features = {**Follower.observation_features, "wrist": (4, 6, 3)}
    with pytest.raises(UserError, match="its observation has no wrist"):
        robot.get_observation()


class LatestFrame:
    """As LeRobot 0.5's: a thread keeps the latest frame and when it was taken."""

    def __init__(self, moment: float, key: str = "latest_frame"):
        self.frame_lock = threading.Lock()
        self.latest_timestamp = moment
        self.key = key
        setattr(self, key, np.full((4, 6, 3), 9, np.uint8))


def test_each_camera_of_lerobots_says_when_its_image_was_taken() -> None:
    clock, follower = Clock(), Follower()
    here = time.perf_counter()  # LeRobot's clock, which need not be the loop's
    cameras = {
        "front": LatestFrame(here - 0.2),
        "wrist": LatestFrame(here - 0.1, "latest_color_frame"),
        "late": LatestFrame(here - 0.5),
    }
    follower.cameras = cameras  # type: ignore[attr-defined]
    follower.observation_features = dict.fromkeys(cameras, (4, 6, 3))

    def observe() -> dict[str, Any]:
        seen = {name: getattr(camera, camera.key) for name, camera in cameras.items()}
        cameras["wrist"].latest_timestamp = here  # two newer frames came meanwhile
        cameras["wrist"].latest_color_frame = seen["wrist"].copy()
        seen["late"] = seen["late"].copy()  # another version hands out copies
        return seen

    follower.get_observation = observe  # type: ignore[method-assign]
    times = LeRobotRobot(follower, clock).get_observation().image_times
    assert list(times) == ["front", "wrist"]
    assert times["front"] == pytest.approx(clock.now - 0.2, abs=0.05)
    assert times["wrist"] == pytest.approx(clock.now - 0.1, abs=0.05)


def test_the_owners_function_is_found_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_robot_for_tests.py").write_text(
        "from tests_follower import Follower\n"
        "def make(schema): return Follower()\n"
        "def wrong(schema): return schema\n"
        "number = 3\n"
    )
    monkeypatch.setitem(sys.modules, "tests_follower", sys.modules[__name__])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(load_robot("my_robot_for_tests:make", SCHEMA), LeRobotRobot)
    with pytest.raises(UserError, match=r"\(Schema\) has no connect, get_observation, send_act"):
        load_robot("my_robot_for_tests:wrong", SCHEMA)
    for spec, message in (
        ("my_robot_for_tests", "expected MODULE:FUNCTION"),
        ("my_robot_for_tests:none", "cannot be imported"),
        ("no_such_module_here:make", "cannot be imported.*the folder of no_such_module_here.py"),
        ("my_robot_for_tests:number", "is not a function"),
    ):
        with pytest.raises(UserError, match=message):
            load_robot(spec, SCHEMA)


def test_the_working_directory_hides_no_module_of_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colorsys.py").write_text("raise AssertionError('the standard library has this')")
    (tmp_path / "my_robot_beside.py").write_text(
        "import colorsys\nfrom tests_follower import Follower\n"
        "def make(schema): return Follower()\n"
    )
    monkeypatch.setitem(sys.modules, "tests_follower", sys.modules[__name__])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(load_robot("my_robot_beside:make", SCHEMA), LeRobotRobot)


def test_the_simulated_arm_is_as_bright_as_the_demonstrations() -> None:
    for mean, deviation in ((0.3, 0.1), (0.7, 0.02)):
        ends = ((mean - 0.1, mean + 0.1), (deviation, deviation), (0.0, 0.04))
        levels = {"wrist": ImageLevels(*ends)}
        schema = replace(SCHEMA, cameras=(Camera("wrist", 48, 64),))
        arm = SimulatedArm(Contract(schema, RANGES._replace(images=levels), RobotConfig()))
        found = frame_levels(arm.get_observation().images["wrist"])
        assert found == pytest.approx((mean, deviation, 0.02), abs=0.02)


def test_the_simulated_arm_follows_in_its_own_time() -> None:
    clock = Clock()
    arm = SimulatedArm(Contract(SCHEMA, RANGES, RobotConfig()), lag=0.1, clock=clock)
    arm.send_action({"shoulder": 1.0, "gripper": 0.5, "base": 0.2})
    clock.now += 0.1
    reading = arm.get_observation()
    assert reading.joints["shoulder"] == pytest.approx(1 - np.exp(-1))
    assert reading.images["wrist"].shape == (4, 6, 3)
    frames = [arm.get_observation().images["wrist"] for _ in range(10)]  # past the noise's end
    assert all((one != next_one).any() for one, next_one in pairwise(frames))
    clock.now += 5
    assert arm.get_observation().joints["shoulder"] == pytest.approx(1.0)
