"""ALOHA's two bimanual tasks: two ViperX arms of six joints and a gripper, after gym-aloha.

The models are those that the package gym-aloha ships; it is found, not imported, so dm_control is
not needed. Physics, rewards and seeding are gym-aloha's, to the last contact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float, Float32, Float64

from act_policy.data.schemas import aloha_schema
from act_policy.errors import UserError
from act_policy.sim import aloha_environment_id
from act_policy.sim.aloha_expert import plan_episode, varied
from act_policy.sim.aloha_tasks import SUCCESS, TABLE, TASKS, Touching, displace
from act_policy.sim.appearance import Parts
from act_policy.sim.environment import Expert, SimulatedTask, Variation
from act_policy.sim.images import image_sizes
from act_policy.sim.rendering import import_mujoco
from act_policy.types import Camera

DEFAULT_CAMERAS: Final = {"top": (96, 128)}
PHYSICS_STEPS: Final = 10
"""Of 2 ms each, in one control period of 20 ms."""

FINGER_CLOSED, FINGER_OPEN = 0.01844, 0.05800  # metres from the middle: 0 and 1 of an opening
INITIAL_ARM: Final = (0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 0.02239, -0.02239)
GRIPPERS: Final = [6, 13]
"""Where an action has the grippers' openings."""

ONE_FINGER: Final = [*range(7), *range(8, 15)]
"""Of MuJoCo's sixteen joints, all but each gripper's second finger, which mirrors the first."""


class AlohaEnv(SimulatedTask):
    """One ALOHA task.

    Observation: {"pixels": camera -> uint8 (h, w, 3), "agent_pos": float32 (14,)}: six joint angles
    in radians and the gripper's opening, 0 closed to 1 open, of the left and then of the right arm.
    An image is drawn when it is read; any camera of the model may be asked for.
    Action: float32 (14,), the targets of the same joints; the motors clip them to their ranges.

    A seed alone fixes the initial state: it places the objects where gym-aloha places them. The
    reward is the stage reached, 0 to 4, also as `info["stage"]`; at 4 the episode terminates and
    `info["success"]` is true.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012
    disturbed = [i for i in range(14) if i not in GRIPPERS]  # noqa: RUF012
    parts = Parts(("vx300s_left", "vx300s_right"), "table")
    disturbance_memory = 0.95  # a motor does not follow noise that changes at every step

    def __init__(
        self,
        task: str,
        cameras: Mapping[str, Sequence[int]] | None = None,
        quality: str = "fast",
        render_mode: str | None = None,
    ) -> None:
        self._task = TASKS[task]
        self._mujoco = import_mujoco()
        self.model = self._mujoco.MjModel.from_xml_path(str(models_folder() / self._task.file))
        data = self._mujoco.MjData(self.model)
        self._geoms = {
            self.model.geom(i).name: i for i in range(self.model.ngeom) if self.model.geom(i).name
        }
        sizes = image_sizes(DEFAULT_CAMERAS if cameras is None else cameras)
        schema = aloha_schema([Camera(name, *size) for name, size in sizes.items()])
        low, high = self.model.actuator_ctrlrange[ONE_FINGER].astype(np.float32).T
        low[GRIPPERS], high[GRIPPERS] = 0.0, 1.0
        super().__init__(
            self.model,
            data,
            replace(schema, environment=aloha_environment_id(task)),
            Box(-np.inf, np.inf, (14,), np.float32),  # a joint may give way beyond its range
            Box(low, high),
            quality,
            render_mode,
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; the seed alone fixes its initial state."""
        super().reset(seed=seed)
        mujoco, data = self._mujoco, self._data
        drawn = int(self.np_random.integers(2**32)) if seed is None else seed
        mujoco.mj_resetData(self.model, data)
        # dm_control computes forces three times without the motors; the solver starts from its last
        # solution, so doing the same makes the contacts equal.
        motors = int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
        self.model.opt.disableflags |= motors
        mujoco.mj_forward(self.model, data)
        data.qpos[:16] = INITIAL_ARM * 2
        data.ctrl[:] = INITIAL_ARM * 2
        data.qpos[16:] = self._task.draw_objects(drawn)
        mujoco.mj_forward(self.model, data)
        mujoco.mj_forward(self.model, data)
        self.model.opt.disableflags &= ~motors
        self._dress(options, seed)
        return self._observe(self.agent_pos), {"success": False, "stage": 0}

    def step(
        self, action: Float[np.ndarray, " a"]
    ) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Set the joints' targets for one control period of 20 ms."""
        self._data.ctrl[:] = motor_targets(self._check_action(action))
        # A period ends between the halves of a step, as dm_control's does: positions and contacts
        # are then of the same moment, and the reward reads contacts.
        mujoco, data = self._mujoco, self._data
        mujoco.mj_step2(self.model, data)
        mujoco.mj_step(self.model, data, PHYSICS_STEPS - 1)
        mujoco.mj_step1(self.model, data)
        stage = self._task.stage(self._touching())
        success = stage == SUCCESS
        info = {"success": success, "stage": stage}
        return self._observe(self.agent_pos), float(stage), success, False, info

    def make_expert(self, variation: Variation) -> Expert:
        """Plan the whole episode from the initial poses of the objects."""
        motion = varied(self._task.motion(self.object_poses), *variation)
        return plan_episode(self.model, motion, self.agent_pos)

    def displace_objects(self, distance: float, random: np.random.Generator) -> None:
        """Slide each object that lies on the table by a distance in metres, somewhere drawn.

        It stays within the area where it may lie at first. One that was lifted stays in the
        gripper.
        """
        touching = self._touching()
        for i, (geoms, area) in enumerate(self._task.objects):
            if any(touching(geom, TABLE) for geom in geoms):
                place = self._data.qpos[16 + 7 * i :][:2]
                place[:] = displace(place.copy(), area, distance, random)
        self._mujoco.mj_step1(self.model, self._data)  # a step begins between its halves

    @property
    def object_poses(self) -> Float64[np.ndarray, "objects 7"]:
        """Position in metres and quaternion of each object: for scripted experts only."""
        poses: np.ndarray = self._data.qpos[16:].reshape(-1, 7).copy()
        return poses

    @property
    def joint_positions(self) -> Float64[np.ndarray, " q"]:
        """MuJoCo's own positions: eight per arm (with two fingers), then the objects."""
        positions: np.ndarray = self._data.qpos.copy()
        return positions

    @property
    def agent_pos(self) -> Float32[np.ndarray, "14"]:
        """The joints as they are observed now."""
        state = self._data.qpos[ONE_FINGER].copy()
        state[GRIPPERS] = (state[GRIPPERS] - FINGER_CLOSED) / (FINGER_OPEN - FINGER_CLOSED)
        observed: np.ndarray = state.astype(np.float32)
        return observed

    def _touching(self) -> Touching:
        pairs = {frozenset(pair) for pair in self._data.contact.geom.tolist()}
        geoms = self._geoms
        return lambda one, other: frozenset((geoms[one], geoms[other])) in pairs


def motor_targets(action: Float32[np.ndarray, "14"]) -> Float64[np.ndarray, "16"]:
    """Targets of MuJoCo's sixteen motors: both fingers of a gripper take its opening."""
    values = action.astype(np.float64)
    fingers = FINGER_CLOSED + values[GRIPPERS] * (FINGER_OPEN - FINGER_CLOSED)
    left, right = ([finger, -finger] for finger in fingers)
    return np.concatenate([values[:6], left, values[7:13], right])


def models_folder() -> Path:
    """The folder of gym-aloha's MuJoCo models.

    Raises:
        UserError: gym-aloha is not installed.
    """
    found = find_spec("gym_aloha")
    if found is None or not found.submodule_search_locations:
        raise UserError(
            "ALOHA's models come with the package gym-aloha, which is not installed; "
            "pip install '.[sim]' in a checkout"
        )
    return Path(found.submodule_search_locations[0]) / "assets"
