"""ALOHA's scripted experts: way-points of both grippers, and the joints that pass through them.

An expert looks once, at the initial poses of the objects, and then plays one smooth motion. Its
timing is the same in every episode: a policy learns best from such motions.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from act_policy.sim.aloha.inverse_kinematics import ArmKinematics, Frame
from act_policy.sim.rendering import import_mujoco

GRASP_POINT: Final = np.array([0.135, 0.0, 0.0])
"""Between the finger tips, in metres ahead of gripper_link."""

ARM_JOINTS: Final = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate")
UP: Final = np.array([0.0, 0.0, 0.1])
"""From an object to above it, in metres."""

CLOSED, OPEN = 0.0, 1.0


class WayPoint(NamedTuple):
    """Where one gripper is to be at one step.

    step: of the motion, 20 ms each.
    position: of the grasp point in the world, metres.
    opening: of the gripper, 0 closed to 1 open, reached at this step.
    """

    step: int
    position: np.ndarray
    opening: float


class ArmMotion(NamedTuple):
    """The motion of one arm: way-points, and how its gripper is turned at each of them.

    pitch, roll: of the gripper in degrees: from pointing at the other arm's base, it is turned down
        by the pitch, then about its own axis by the roll.
    near: joint angles near those of the first way-point: an arm reaches most places with its wrist
        bent either up or down, and every episode must use the same solution.
    """

    pitch: float
    roll: float
    near: tuple[float, ...]
    way_points: Sequence[WayPoint]


class Motion(NamedTuple):
    """The motion of both arms."""

    left: ArmMotion
    right: ArmMotion


DOWN: Final = (0.0, -0.2, 0.6, 0.0, 1.0, 0.0)
"""Angles of an arm that reaches down from above."""

LEVEL: Final = (0.0, -0.3, 0.9, 0.0, -0.6, np.pi / 2)
"""Angles of an arm that reaches ahead with one finger above the other."""


def transfer_motion(cube: Float64[np.ndarray, "1 7"]) -> Motion:
    """The right gripper lifts the cube to the middle, where the left one takes it."""
    lying = np.array([*cube[0, :2], 0.02])
    meeting = np.array([0.0, 0.5, 0.2])
    beside = meeting - [0.12, 0, 0]
    right = [
        WayPoint(45, lying + UP, OPEN),
        WayPoint(80, lying, OPEN),
        WayPoint(90, lying, OPEN),
        WayPoint(110, lying, CLOSED),
        WayPoint(170, meeting, CLOSED),
    ]
    left = [
        WayPoint(100, beside, OPEN),
        WayPoint(165, beside, OPEN),
        WayPoint(200, meeting, OPEN),
        WayPoint(205, meeting, OPEN),
        WayPoint(225, meeting, CLOSED),
    ]
    return Motion(ArmMotion(0.0, 90.0, LEVEL, left), ArmMotion(90.0, 0.0, DOWN, right))


def insertion_motion(objects: Float64[np.ndarray, "2 7"]) -> Motion:
    """Each gripper lifts its object; they meet in the middle, where the peg enters the socket."""
    peg, socket = (np.array([*pose[:2], 0.02]) for pose in objects)
    middle = np.array([0.0, 0.5, 0.2])
    # both are grasped at the same height, where the peg's middle is 1 cm below the socket's
    level = np.array([0.0, 0.0, 0.01])
    apart, together = np.array([0.1, 0, 0]), np.array([0.045, 0, 0])
    return Motion(
        ArmMotion(90.0, 0.0, DOWN, _bring(socket, middle - apart, middle - together)),
        ArmMotion(90.0, 0.0, DOWN, _bring(peg, middle + apart + level, middle + together + level)),
    )


def _bring(lying: np.ndarray, before: np.ndarray, after: np.ndarray) -> list[WayPoint]:
    """Grasp the lying object, and bring it to the place before, then to the place after."""
    return [
        WayPoint(50, lying + UP, OPEN),
        WayPoint(85, lying, OPEN),
        WayPoint(95, lying, OPEN),
        WayPoint(120, lying, CLOSED),
        WayPoint(190, before, CLOSED),
        WayPoint(210, before, CLOSED),
        WayPoint(270, after, CLOSED),
    ]


def varied(motion: Motion, timing: float, pose: float, seed: int) -> Motion:
    """Vary phase lengths and way-points of a motion, see `Variation`; the seed fixes them.

    Both arms keep the same clock, so that neither is too early for the other, and a gripper that
    waits in a place waits in the moved place.
    """
    random = np.random.default_rng([seed, 2])
    steps = sorted({0} | {point.step for arm in motion for point in arm.way_points})
    factors = np.exp(timing * random.standard_normal(len(steps) - 1))
    lengths = np.maximum(1, np.rint(np.diff(steps) * factors)).astype(int)
    later = dict(zip(steps, [0, *np.cumsum(lengths).tolist()], strict=True))

    def moved(arm: ArmMotion) -> ArmMotion:
        places: dict[bytes, np.ndarray] = {}
        for point in arm.way_points:
            place = point.position + pose * random.standard_normal(3)
            places.setdefault(point.position.tobytes(), place)
        points = [
            WayPoint(later[point.step], places[point.position.tobytes()], point.opening)
            for point in arm.way_points
        ]
        return arm._replace(way_points=points)

    return Motion(*map(moved, motion))


def plan_episode(
    model: Any, motion: Motion, initial_state: Float32[np.ndarray, "14"]
) -> Callable[[], Float32[np.ndarray, "14"]]:
    """Plan one episode; each call returns the joint targets of the next step, at last the same."""
    initial = initial_state.astype(np.float64)
    arms = [
        _arm_actions(model, "left", motion.left, initial[:7]),
        _arm_actions(model, "right", motion.right, initial[7:]),
    ]
    steps = max(map(len, arms))
    arms = [np.pad(arm, ((0, steps - len(arm)), (0, 0)), mode="edge") for arm in arms]
    actions = np.concatenate(arms, axis=1).astype(np.float32)
    targets = chain(actions, repeat(actions[-1]))
    return lambda: next(targets).copy()


def _arm_actions(
    model: Any, side: str, motion: ArmMotion, initial: Float64[np.ndarray, "7"]
) -> Float64[np.ndarray, "t 7"]:
    """Six joint targets and an opening for each step up to the last way-point.

    Between two way-points each joint takes the path of minimum jerk.
    """
    joints = [f"vx300s_{side}/{joint}" for joint in ARM_JOINTS]
    arm = ArmKinematics(model, joints, f"vx300s_{side}/gripper_link", GRASP_POINT)
    quaternion = gripper_quaternion(side, motion.pitch, motion.roll)
    angles = np.array(motion.near)
    step, before, segments = 0, initial, []
    for way_point in motion.way_points:
        angles = arm.solve(Frame(way_point.position, quaternion), angles)
        after = np.append(angles, way_point.opening)
        shares = np.arange(1, way_point.step - step + 1) / (way_point.step - step)
        segments.append(before + minimum_jerk(shares)[:, None] * (after - before))
        step, before = way_point.step, after
    return np.concatenate(segments)


def minimum_jerk(share: Float64[np.ndarray, " t"]) -> Float64[np.ndarray, " t"]:
    """The share of a path that is done at a share of its time: 10 s^3 - 15 s^4 + 6 s^5.

    Velocity and acceleration are zero at both ends.
    """
    done: np.ndarray = share**3 * (10 + share * (6 * share - 15))
    return done


def gripper_quaternion(side: str, pitch: float, roll: float) -> Float64[np.ndarray, "4"]:
    """Orientation of a gripper in the world; the right arm's base faces the left one's."""
    mujoco = import_mujoco()
    quaternion = np.array([1.0, 0, 0, 0])
    for axis, degrees in ((2, 180.0 if side == "right" else 0.0), (1, pitch), (0, roll)):
        turn = np.zeros(4)
        mujoco.mju_axisAngle2Quat(turn, np.eye(3)[axis], np.deg2rad(degrees))
        mujoco.mju_mulQuat(quaternion, quaternion.copy(), turn)
    return quaternion
