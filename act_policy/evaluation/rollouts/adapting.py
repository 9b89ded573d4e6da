"""An environment as a policy wants to see it, where its demonstrations were a selection."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from act_policy.images.resize import camera_image
from act_policy.sim.images import LazyImages
from act_policy.types import Camera, Schema


def restore_recorded_cameras(schema: Schema) -> Schema:
    """The schema with its cameras as they take their images, before any cropping and resizing."""
    cameras = [
        camera if camera.source_size is None else Camera(camera.name, *camera.source_size)
        for camera in schema.cameras
    ]
    return replace(schema, cameras=tuple(cameras))


class AdaptedObservations(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Crop and resize images, and choose dimensions of the state, as training did.

    Args:
        environment: draws images as the demonstrations were recorded.
        schema: of the policy; its state is some of the environment's, by name.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], schema: Schema) -> None:
        super().__init__(environment)
        self._cameras = {camera.name: camera for camera in schema.cameras}
        names: tuple[str, ...] = environment.get_wrapper_attr("schema").state_names
        self._state = np.array([names.index(name) for name in schema.state_names], np.int64)

    def observation(self, observation: Any) -> Any:
        """Adapt one observation; images are drawn when they are read."""
        pixels = observation["pixels"]

        def draw(camera: str) -> np.ndarray:
            return camera_image(pixels[camera], self._cameras[camera])

        return {
            **observation,
            "pixels": LazyImages(self._cameras, draw),
            "agent_pos": observation["agent_pos"][self._state],
        }
