"""ALOHA's two bimanual tasks: two ViperX arms of six joints and a gripper, after gym-aloha.

The models are those that the package gym-aloha ships; it is found, not imported, so dm_control is
not needed. Physics, rewards and seeding are gym-aloha's, to the last contact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float, Float32, Float64

from act_policy.data.schemas import aloha_schema
from act_policy.sim import aloha_environment_id
from act_policy.sim.aloha.expert import plan_episode, varied
from act_policy.sim.aloha.original import EndEffectorModel
from act_policy.sim.aloha.physics import (
    GRIPPERS,
    INITIAL_ARM,
    ONE_FINGER,
    advance,
    as_openings,
    initial_state,
    load_model,
    motor_targets,
)
from act_policy.sim.aloha.tasks import SUCCESS, TABLE, TASKS, Touching, displace
from act_policy.sim.appearance import Parts
from act_policy.sim.environment import Expert, SimulatedTask, Variation
from act_policy.sim.images import image_sizes
from act_policy.sim.rendering import import_mujoco
from act_policy.types import Camera

DEFAULT_CAMERAS: Final = {"top": (96, 128)}


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
        self.model, data = load_model(self._task.file)
        self._end_effectors: EndEffectorModel | None = None
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
        with initial_state(self.model, data):
            data.qpos[:16] = INITIAL_ARM * 2
            data.ctrl[:] = INITIAL_ARM * 2
            data.qpos[16:] = self._task.draw_objects(drawn)
            mujoco.mj_forward(self.model, data)  # one of dm_control's contexts is in another
        self._dress(options, seed)
        return self._observe(self.agent_pos), {"success": False, "stage": 0}

    def step(
        self, action: Float[np.ndarray, " a"]
    ) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Set the joints' targets for one control period of 20 ms."""
        self._data.ctrl[:] = motor_targets(self._check_action(action))
        advance(self.model, self._data)
        stage = self._task.stage(self._touching())
        success = stage == SUCCESS
        info = {"success": success, "stage": stage}
        return self._observe(self.agent_pos), float(stage), success, False, info

    def make_expert(self, variation: Variation) -> Expert:
        """Plan the whole episode from the initial poses of the objects."""
        motion = varied(self._task.motion(self.object_poses), *variation)
        return plan_episode(self.model, motion, self.agent_pos)

    def make_original_expert(self, inject_noise: bool, seed: int) -> Expert:
        """Make the original's expert for the episode that was just reset, at its initial state.

        inject_noise: let its grippers tremble by up to 1 cm, as the seed says.
        """
        if self._end_effectors is None:
            self._end_effectors = EndEffectorModel(self._task.end_effector_file)
        paths = self._task.original_paths(self.object_poses)
        random = np.random.default_rng([seed, 4]) if inject_noise else None
        actions = self._end_effectors.follow(paths, self.object_poses, random)
        targets = chain(actions, repeat(actions[-1]))
        return lambda: next(targets).copy()

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
        state[GRIPPERS] = as_openings(state[GRIPPERS])
        observed: np.ndarray = state.astype(np.float32)
        return observed

    def _touching(self) -> Touching:
        pairs = {frozenset(pair) for pair in self._data.contact.geom.tolist()}
        geoms = self._geoms
        return lambda one, other: frozenset((geoms[one], geoms[other])) in pairs
