"""Meta-World's tasks as gymnasium environments that a seed fixes and that show images only."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float, Float32

from act_policy.errors import UserError
from act_policy.sim import TASKS, environment_id
from act_policy.sim.appearance import Parts
from act_policy.sim.environment import Expert, SimulatedTask, Variation
from act_policy.sim.images import image_sizes
from act_policy.sim.rendering import import_mujoco
from act_policy.types import Camera, Schema

DEFAULT_CAMERAS = {"corner2": (84, 84)}
STATE_LOW = np.array([-0.525, 0.348, -0.0525, 0.0])  # Meta-World clips the hand to this space
STATE_HIGH = np.array([0.525, 1.025, 0.7, 1.0])
ACTION_SIZE = 4


class MetaWorldEnv(SimulatedTask):
    """One Meta-World task: its physics, its success rule, camera images and the hand's own state.

    Observation: {"pixels": camera -> uint8 (h, w, 3), "agent_pos": float32 (4,) hand x, y, z in
    metres and gripper opening, 0 closed to 1 open}. An image is drawn when it is read.
    Action: float32 (4,) clipped to [-1, 1]: the hand's target moves by action centimetres in
    x, y, z, and the gripper closes (1) or opens (-1).

    A seed alone fixes the initial state. An episode never terminates by itself; `info["success"]`
    says at each step whether Meta-World's rule holds. The reward is Meta-World's.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012
    disturbed = slice(3)
    parts = Parts(("base", "mocap"), "tablelink", ("RetainingWall",))

    def __init__(
        self,
        task: str,
        cameras: Mapping[str, Sequence[int]] | None = None,
        quality: str = "fast",
        render_mode: str | None = None,
    ) -> None:
        if task not in TASKS:
            raise UserError(f"Meta-World has no task {task!r}; it has {', '.join(TASKS)}")
        self._mujoco = import_mujoco()  # before Meta-World imports it with any backend
        from metaworld.env_dict import ENV_CLS_MAP

        self._task = task
        self._inner: Any = ENV_CLS_MAP[f"{task}-v3"]()
        self._inner.max_path_length = 10**9  # gymnasium's TimeLimit ends the episode
        self._inner._set_task_called = True
        self._inner.seeded_rand_vec = True
        self._inner._partially_observable = False  # experts need the goal; policies never see this
        self._inner.__dict__.pop("sawyer_observation_space", None)
        self._pristine = _Pristine(self._inner)

        sizes = image_sizes(DEFAULT_CAMERAS if cameras is None else cameras)
        schema = Schema(
            cameras=tuple(Camera(name, *size) for name, size in sizes.items()),
            state_names=("hand_x", "hand_y", "hand_z", "gripper_opening"),
            state_units=("m", "m", "m", "fraction"),
            action_names=("move_x", "move_y", "move_z", "gripper_effort"),
            action_units=("cm/step", "cm/step", "cm/step", "fraction"),
            rate=float(1.0 / self._inner.dt),
            environment=environment_id(task),
        )
        super().__init__(
            self._inner.model,
            self._inner.data,
            schema,
            Box(STATE_LOW.astype(np.float32), STATE_HIGH.astype(np.float32)),
            Box(-1.0, 1.0, (ACTION_SIZE,), np.float32),
            quality,
            render_mode,
        )
        self._full_observation: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; the seed alone fixes its initial state."""
        super().reset(seed=seed)
        inner, mujoco = self._inner, self._mujoco
        self._pristine.restore(inner)
        inner.np_random = self.np_random
        # Meta-World resets twice: the hand settles once more among the objects already placed.
        for freeze in (False, True):
            inner._freeze_rand_vec = freeze
            mujoco.mj_resetData(inner.model, inner.data)
            inner.reset_model()
        # Some tasks move markers after their last forward pass; an image must show them in place.
        mujoco.mj_kinematics(inner.model, inner.data)
        mujoco.mj_camlight(inner.model, inner.data)
        inner._prev_obs = inner._get_curr_obs_combined_no_goal()
        self._full_observation = inner._get_obs()
        self._dress(options, seed)
        return self._observe(self._agent_pos()), {"success": False}

    def step(
        self, action: Float[np.ndarray, " a"]
    ) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Apply one clipped action for one control period (five steps of physics)."""
        action = np.clip(self._check_action(action), -1.0, 1.0)
        self._full_observation, reward, _, _, info = self._inner.step(action)
        observation = self._observe(self._agent_pos())
        return observation, float(reward), False, False, {"success": bool(info["success"])}

    def full_observation(self) -> Float[np.ndarray, "39"]:
        """Meta-World's own observation with objects and goal: for scripted experts only."""
        if self._full_observation is None:
            raise RuntimeError("reset the environment before asking what it observes")
        return self._full_observation.copy()

    def make_expert(self, variation: Variation) -> Expert:
        """Let Meta-World's own policy act, which sees where every object is."""
        if variation.timing or variation.pose:
            raise UserError(
                f"{self.schema.environment}: timing_noise and pose_noise vary ALOHA's experts "
                "only; this one reacts to what happens, so noise= makes its demonstrations differ"
            )
        from metaworld.policies import ENV_POLICY_MAP

        policy: Any = ENV_POLICY_MAP[f"{self._task}-v3"]  # annotated there as the abstract class
        policy = policy()

        def act() -> np.ndarray:
            with warnings.catch_warnings():
                # it warns of each action beyond [-1, 1], which is clipped here
                warnings.filterwarnings("ignore", message="Constant\\(s\\) may be too high")
                action = policy.get_action(self.full_observation())
            clipped: np.ndarray = np.clip(action, -1.0, 1.0).astype(np.float32)
            return clipped

        return act

    def _agent_pos(self) -> Float32[np.ndarray, "4"]:
        assert self._full_observation is not None
        state = np.clip(self._full_observation[:4], STATE_LOW, STATE_HIGH)
        return np.asarray(state, np.float32)


_MUJOCO_OWN = {"model", "data", "mujoco_renderer", "_np_random"}


class _Pristine:
    """A copy of everything that an episode may change in a new Meta-World environment."""

    MODEL_FIELDS = ("body_pos", "body_quat", "site_pos", "site_quat", "geom_pos", "geom_quat")

    def __init__(self, inner: Any) -> None:
        self._model = {name: getattr(inner.model, name).copy() for name in self.MODEL_FIELDS}
        self._attributes = _copied(vars(inner))

    def restore(self, inner: Any) -> None:
        """Make the environment as new, except for the physics state, which a reset clears."""
        for name, value in self._model.items():
            getattr(inner.model, name)[:] = value
        for name in vars(inner).keys() - self._attributes.keys() - _MUJOCO_OWN:
            delattr(inner, name)
        vars(inner).update(_copied(self._attributes))


def _copied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Copy an environment's attributes except MuJoCo's own; views of its data stay views."""
    return {
        name: value
        if isinstance(value, np.ndarray) and not value.flags.owndata
        else copy.deepcopy(value)
        for name, value in attributes.items()
        if name not in _MUJOCO_OWN
    }
