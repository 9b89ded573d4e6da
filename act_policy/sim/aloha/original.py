"""The original's scripted experts, which made the demonstrations behind the published figures.

A demonstration takes two passes, as in scripted_policy.py, ee_sim_env.py and record_sim_episodes.py
of tonyzhaozh/act (`sim_transfer_cube_scripted`, `sim_insertion_scripted`):

1. In a model whose arms have no motors, two mocap bodies drag the grippers along straight lines
   between key poses. The welds are soft: a gripper lags behind, and gives way where it meets
   something.
2. In the task itself the joint angles of that pass are the actions, with the grippers' controls in
   place of their openings.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float32, Float64

from act_policy.sim.aloha.physics import (
    GRIPPERS,
    INITIAL_ARM,
    ONE_FINGER,
    advance,
    as_openings,
    finger_targets,
    initial_state,
    load_model,
)

STEPS: Final = 400
NOISE: Final = 0.01
"""Metres, the largest value that `inject_noise` adds to each coordinate at each step."""

LEFT_START: Final = np.array([-0.31718881, 0.5, 0.29525084])
RIGHT_START: Final = np.array([0.31718881, 0.49999888, 0.29525084])
UNTURNED: Final = np.array([1.0, 0.0, 0.0, 0.0])
CLOSED, OPEN = 0.0, 1.0


class KeyPose(NamedTuple):
    """Where one gripper is dragged to by one step.

    step: of the episode, 20 ms each.
    position: of the grasp point in the world, metres.
    quaternion: (w, x, y, z), by which the gripper is turned from pointing at the other arm's base.
    opening: of the gripper, 0 closed to 1 open.
    """

    step: int
    position: np.ndarray
    quaternion: np.ndarray
    opening: float


class Paths(NamedTuple):
    """Key poses of both grippers, from step 0 to the last."""

    left: Sequence[KeyPose]
    right: Sequence[KeyPose]


def transfer_paths(cube: Float64[np.ndarray, "1 7"]) -> Paths:
    """The right gripper lifts the cube to the middle, where the left one takes it."""
    box, meeting = cube[0, :3], np.array([0.0, 0.5, 0.25])
    reaching, sideways = _turned(1, -60.0), _turned(0, 90.0)
    before, taking = _moved(meeting, x=-0.1, z=-0.02), _moved(meeting, x=0.02, z=-0.02)
    left = [
        KeyPose(0, LEFT_START, UNTURNED, CLOSED),
        KeyPose(100, before, sideways, OPEN),
        KeyPose(260, taking, sideways, OPEN),
        KeyPose(310, taking, sideways, CLOSED),
        KeyPose(360, before, UNTURNED, CLOSED),
        KeyPose(400, before, UNTURNED, CLOSED),
    ]
    grasping = _moved(box, z=-0.015)
    right = [
        KeyPose(0, RIGHT_START, UNTURNED, CLOSED),
        KeyPose(90, _moved(box, z=0.08), reaching, OPEN),
        KeyPose(130, grasping, reaching, OPEN),
        KeyPose(170, grasping, reaching, CLOSED),
        KeyPose(200, _moved(meeting, x=0.05), reaching, CLOSED),
        KeyPose(220, meeting, reaching, CLOSED),
        KeyPose(310, meeting, reaching, OPEN),
        KeyPose(360, _moved(meeting, x=0.1), reaching, OPEN),
        KeyPose(400, _moved(meeting, x=0.1), reaching, OPEN),
    ]
    return Paths(left, right)


def insertion_paths(objects: Float64[np.ndarray, "2 7"]) -> Paths:
    """Each gripper lifts its object; they meet in the middle, where the peg enters the socket."""
    peg, socket = objects[:, :3]
    meeting = np.array([0.0, 0.5, 0.15])

    def bring(start: np.ndarray, lying: np.ndarray, turn: float, side: float) -> list[KeyPose]:
        quaternion = _turned(1, turn)
        raised = _moved(meeting, z=0.00715 if side > 0 else 0.0)
        apart, together = _moved(raised, x=0.1 * side), _moved(raised, x=0.05 * side)
        grasping = _moved(lying, z=-0.03)
        return [
            KeyPose(0, start, UNTURNED, CLOSED),
            KeyPose(120, _moved(lying, z=0.08), quaternion, OPEN),
            KeyPose(170, grasping, quaternion, OPEN),
            KeyPose(220, grasping, quaternion, CLOSED),
            KeyPose(285, apart, quaternion, CLOSED),
            KeyPose(340, together, quaternion, CLOSED),
            KeyPose(400, together, quaternion, CLOSED),
        ]

    return Paths(bring(LEFT_START, socket, 60.0, -1.0), bring(RIGHT_START, peg, -60.0, 1.0))


class EndEffectorModel:
    """A task's model in which mocap bodies drag the grippers."""

    def __init__(self, file: str) -> None:
        self._model, self._data = load_model(file)
        for side in ("left", "right"):
            gripper = self._model.body(f"vx300s_{side}/gripper_link").id
            weights = self._model.body_invweight0
            # Up to 2.3, MuJoCo scaled a weld's resistance to turning like that to moving, and these
            # experts rely on it. Later it is 400 times softer, and no gripper turns as it should.
            weights[gripper, 1] = weights[gripper, 0]

    def follow(
        self,
        paths: Paths,
        objects: Float64[np.ndarray, "objects 7"],
        random: np.random.Generator | None = None,
    ) -> Float32[np.ndarray, "t 14"]:
        """Drag the grippers along their paths; return the actions of all steps.

        Args:
            paths: of both grippers.
            objects: initial position and quaternion of each object.
            random: draws the noise of `inject_noise`; None adds none.
        """
        dragged = [interpolate(path) for path in paths]
        if random is not None:
            for values in dragged:
                values[:, :3] += random.uniform(-NOISE, NOISE, (STEPS, 3))
        model, data = self._model, self._data
        with initial_state(model, data):
            data.qpos[:16] = INITIAL_ARM * 2
            data.qpos[16:] = objects.ravel()
            data.mocap_pos[:] = LEFT_START, RIGHT_START
            data.mocap_quat[:] = UNTURNED
            data.ctrl[:] = finger_targets(np.zeros(2))
        actions = [_as_action(data)]
        for left, right in zip(*dragged, strict=True):
            data.mocap_pos[:] = left[:3], right[:3]
            data.mocap_quat[:] = left[3:7], right[3:7]
            data.ctrl[:] = finger_targets(np.array([left[7], right[7]]))
            advance(model, data)
            actions.append(_as_action(data))
        return np.stack(actions)


def interpolate(path: Sequence[KeyPose]) -> Float64[np.ndarray, "t 8"]:
    """Position, quaternion and opening of each step: straight lines, value by value."""
    steps = [pose.step for pose in path]
    values = np.array([[*pose.position, *pose.quaternion, pose.opening] for pose in path])
    each = np.arange(STEPS)
    return np.stack([np.interp(each, steps, column) for column in values.T], axis=1)


def _as_action(data: Any) -> Float32[np.ndarray, "14"]:
    """The joint angles now, and the grippers' controls."""
    action = data.qpos[ONE_FINGER].copy()
    action[GRIPPERS] = as_openings(data.ctrl[[0, 2]])
    controlled: np.ndarray = action.astype(np.float32)
    return controlled


def _moved(
    position: Float64[np.ndarray, "3"], x: float = 0.0, z: float = 0.0
) -> Float64[np.ndarray, "3"]:
    """The position, so many metres further along x and z."""
    moved: np.ndarray = position + np.array([x, 0.0, z])
    return moved


def _turned(axis: int, degrees: float) -> Float64[np.ndarray, "4"]:
    """The quaternion of a turn about one axis."""
    half = np.radians(degrees) / 2
    return np.array([np.cos(half), *(np.sin(half) * np.eye(3)[axis])])
