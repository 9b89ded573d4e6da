"""An arm without hardware, in real time and with numpy only: to try configs, hooks and stops.

It does not simulate physics: joints follow their commands with a lag; images are noise, as bright,
contrasty and warm as those demonstrated, and show the joints as bars. It does not show whether a
policy can do its task.
"""

import time
from collections.abc import Callable, Mapping

import numpy as np

from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.statistics import ImageLevels
from act_policy.types import Camera

GREY = (80, 144)
"""Shades of images where the policy does not say what was demonstrated."""


class SimulatedArm:
    """A Robot with exactly the cameras and joints of a policy's schema.

    It rests in the middle of the demonstrated ranges at first; at 0 where they are not known.

    Args:
        lag: seconds in which a joint covers 63% of the way to its command.
    """

    def __init__(
        self,
        contract: Contract,
        lag: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._schema, self._space = contract.schema, contract.space
        self._lag, self._clock = lag, clock
        ranges = contract.ranges
        self._noise = {
            camera.name: _draw_noise(camera, ranges.images.get(camera.name))
            for camera in contract.schema.cameras
        }
        self._looks = 0
        self._pose = np.nan_to_num((ranges.state_low + ranges.state_high) / 2)
        self._command = np.full(self._schema.action_size, np.nan)
        self._then = clock()
        self.action_names = self._schema.action_names

    def connect(self) -> None:
        """Nothing to do."""

    def get_observation(self) -> Reading:
        """Read the joints as they are now, and images of them."""
        now = self._advance()
        self._looks += 1
        joints = dict(zip(self._schema.state_names, map(float, self._pose), strict=True))
        images = {camera.name: self._image(camera) for camera in self._schema.cameras}
        return Reading(now, images, joints)

    def send_action(self, action: Mapping[str, float]) -> None:
        """Follow this command from now on."""
        self._advance()
        self._command = np.array([action[name] for name in self.action_names], np.float64)

    def disconnect(self) -> None:
        """Nothing to do."""

    def _advance(self) -> float:
        """Let the joints move up to the present moment."""
        now = self._clock()
        seconds, self._then = now - self._then, now
        for i in np.flatnonzero(self._space.measured >= 0):
            if np.isfinite(target := self._command[i]):
                joint = self._space.measured[i]
                self._pose[joint] += (target - self._pose[joint]) * -np.expm1(-seconds / self._lag)
        return now

    def _image(self, camera: Camera) -> np.ndarray:
        """Cut an image out of the camera's noise, one row further every time; a bar per joint."""
        height, width = camera.height, camera.width
        noise, first = self._noise[camera.name], self._looks % height
        image: np.ndarray = noise[first : first + height].copy()
        for i, value in enumerate(self._pose):
            column = int((i + 0.5) / len(self._pose) * width)
            row = int((0.5 + 0.4 * np.tanh(value)) * height)
            image[row:, column] = noise.max()
        return image


def _draw_noise(camera: Camera, levels: ImageLevels | None) -> np.ndarray:
    """Draw even noise of twice a camera's height (2 h, w, c).

    To draw all of an image at every look would take most of the time between two.
    """
    shades, tint = GREY, 0
    if levels is not None:
        shades = _shades(levels)
        tint = int(np.nan_to_num(255 * sum(levels.warmth) / 4))  # half of what red exceeds blue by
    size = (2 * camera.height, camera.width, 3)
    noise = np.random.default_rng(0).integers(*shades, size, endpoint=True)
    drawn: np.ndarray = np.clip(noise + tint * np.array([1, 0, -1]), 0, 255).astype(np.uint8)
    return drawn


def _shades(levels: ImageLevels) -> tuple[int, int]:
    """Return the ends of even noise with the middle of the demonstrated brightness and contrast."""
    mean, deviation = (255 * sum(ends) / 2 for ends in (levels.mean, levels.deviation))
    half = np.sqrt(3) * deviation
    low = int(np.clip(mean - half, 0, 250))
    return low, int(np.clip(mean + half, low + 2, 255))  # so that no image comes twice
