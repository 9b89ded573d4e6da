"""Solve for the joint angles that bring a gripper to a goal: damped least squares.

    dq = J^T (J J^T + damping^2 I)^-1 e,   e = (position error in m, rotation error in rad)

Buss, Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped least
squares methods, 2004, equation 11.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from act_policy.sim.rendering import import_mujoco

DAMPING = 0.02
TOLERANCE = 1e-5
"""Metres and radians together, below which a solution is exact."""


class Frame(NamedTuple):
    """A position in metres and a unit quaternion (w, x, y, z) in the world."""

    position: np.ndarray
    quaternion: np.ndarray


class ArmKinematics:
    """One arm of a model: its joints, and a point fixed to its last body, the grasp point."""

    def __init__(self, model: Any, joints: list[str], body: str, point: Float64[np.ndarray, "3"]):
        self._mujoco = import_mujoco()
        self._model = model
        self._data = self._mujoco.MjData(model)  # its own, so that the simulation is not touched
        self._body = model.body(body).id
        self._point = point
        self._positions = [int(model.joint(joint).qposadr[0]) for joint in joints]
        self._velocities = [int(model.joint(joint).dofadr[0]) for joint in joints]
        self._low, self._high = np.array([model.joint(joint).range for joint in joints]).T

    def forward(self, angles: Float64[np.ndarray, " q"]) -> Frame:
        """Position of the grasp point and orientation of the gripper."""
        self._data.qpos[self._positions] = angles
        self._mujoco.mj_kinematics(self._model, self._data)
        rotation = self._data.xmat[self._body].reshape(3, 3)
        position = self._data.xpos[self._body] + rotation @ self._point
        return Frame(position, self._data.xquat[self._body].copy())

    def solve(
        self, goal: Frame, angles: Float64[np.ndarray, " q"], iterations: int = 100
    ) -> Float64[np.ndarray, " q"]:
        """Find angles within the joints' ranges that reach the goal or nearly do, from `angles`."""
        mujoco, model, data = self._mujoco, self._model, self._data
        angles = angles.copy()
        jacobian = np.zeros((6, model.nv))
        turn = np.zeros(3)
        for _ in range(iterations):
            frame = self.forward(angles)
            mujoco.mju_subQuat(turn, goal.quaternion, frame.quaternion)  # in the gripper's frame
            rotation = data.xmat[self._body].reshape(3, 3)
            error = np.concatenate([goal.position - frame.position, rotation @ turn])
            if np.linalg.norm(error) < TOLERANCE:
                break
            mujoco.mj_comPos(model, data)
            mujoco.mj_jac(model, data, jacobian[:3], jacobian[3:], frame.position, self._body)
            ours = jacobian[:, self._velocities]
            damped = ours @ ours.T + DAMPING**2 * np.eye(6)
            angles = angles + ours.T @ np.linalg.solve(damped, error)
            angles = np.clip(angles, self._low, self._high)
        return angles
