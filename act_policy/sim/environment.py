"""The base of every simulated task: spaces, lazily drawn camera images and their quality."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.spaces import Dict as DictSpace
from jaxtyping import Float32

from act_policy.errors import UserError
from act_policy.sim.appearance import AS_IT_IS, Dressing, Parts
from act_policy.sim.images import LazyImages
from act_policy.sim.rendering import Pose, SceneRenderer, import_mujoco
from act_policy.types import Schema

Expert = Callable[[], np.ndarray]
"""Returns the action for the environment's current state: float32 (a,) within the action space."""


class Variation(NamedTuple):
    """How much an expert departs from its usual motion; by default not at all.

    timing: standard deviation of the logarithm of each phase's duration.
    pose: standard deviation of each way-point's position, in metres.
    seed: fixes the departures.
    """

    timing: float = 0.0
    pose: float = 0.0
    seed: int = 0


AS_USUAL = Variation()


class SimulatedTask(gymnasium.Env[dict[str, Any], np.ndarray]):
    """A task in MuJoCo that a seed fixes and that shows images and the robot's own state only.

    Observation: {"pixels": camera -> uint8 (h, w, 3), "agent_pos": float32 (s,)}. An image is drawn
    when it is read.

    `reset(seed=..., options={"appearance": Appearance(...)})` changes how the episode looks.

    A subclass makes model and data, passes them to __init__, and then steps the data.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    disturbed: ClassVar[slice | list[int]] = slice(0)
    """Which values of an action a recording may disturb: movement, not grippers."""

    disturbance_memory: ClassVar[float] = 0.0
    """How much of one step's disturbance is left at the next, 0 to below 1."""

    parts: ClassVar[Parts]
    """Which of the model's bodies are robot and table."""

    def __init__(
        self,
        model: Any,
        data: Any,
        schema: Schema,
        state_space: Box,
        action_space: Box,
        quality: str,
        render_mode: str | None,
    ) -> None:
        sizes = {camera.name: (camera.height, camera.width) for camera in schema.cameras}
        if render_mode == "rgb_array" and not sizes:
            raise UserError("render_mode=rgb_array shows the first camera; cameras={} has none")
        self.schema = schema
        self.render_mode = render_mode
        self.action_space = action_space
        self.observation_space = DictSpace(
            {
                "pixels": DictSpace(
                    {name: Box(0, 255, (*size, 3), np.uint8) for name, size in sizes.items()}
                ),
                "agent_pos": state_space,
            }
        )
        self._data = data
        self._renderer = SceneRenderer(copy.copy(model), sizes, quality)
        self._dressing: Dressing | None = None

    @abstractmethod
    def make_expert(self, variation: Variation) -> Expert:
        """Make an expert that knows where every object is, for the episode that was just reset.

        Raises:
            UserError: the expert cannot vary.
        """

    @property
    def frame_count(self) -> int:
        """Number of images drawn so far."""
        return self._renderer.frame_count

    def render(self) -> Any:
        """Draw the first camera's image of the current state."""
        if self.render_mode != "rgb_array":
            return None
        camera = next(iter(self._renderer.cameras))
        return self._renderer.render(camera, Pose.of(self._data), self._dressing)

    def close(self) -> None:
        """Free the drawing context."""
        self._renderer.close()

    def _dress(self, options: Mapping[str, Any] | None, seed: int | None) -> None:
        """Give the new episode the appearance in `reset(options={"appearance": ...})`.

        The simulation is in its initial state already.
        """
        appearance = (options or {}).get("appearance", AS_IT_IS)
        self._dressing = None
        if appearance != AS_IT_IS:
            self._dressing = Dressing(
                appearance,
                import_mujoco(),
                self._renderer.model,
                self._data,
                self.parts,
                seed,
            )

    def _observe(self, state: Float32[np.ndarray, " s"]) -> dict[str, Any]:
        """Observe the current state; images are drawn when they are read."""
        pose, dressing = Pose.of(self._data), self._dressing
        images = LazyImages(
            self._renderer.cameras, lambda camera: self._renderer.render(camera, pose, dressing)
        )
        return {"pixels": images, "agent_pos": state}

    def _check_action(self, action: Any) -> Float32[np.ndarray, " a"]:
        """Convert an action to float32; ValueError unless it has the right size and is finite."""
        values = np.asarray(action, np.float32)
        if values.shape != self.action_space.shape or not np.isfinite(values).all():
            size = self.schema.action_size
            raise ValueError(f"expected {size} finite action values, found {values}")
        return values


def scripted_expert(environment: Any, variation: Variation = AS_USUAL) -> Expert:
    """Make a fresh expert for one episode of an environment that has just been reset.

    Raises:
        UserError: the environment is not one of this package's tasks, or its expert cannot vary.
    """
    task = environment.unwrapped
    if not isinstance(task, SimulatedTask):
        raise UserError(
            f"environment {environment}: there is no scripted expert for it; "
            "teacher=module:function names a function of yours that acts"
        )
    return task.make_expert(variation)
