"""Whether images are such as the policy was trained on: none frozen, black, of other light."""

from collections.abc import Mapping

import numpy as np

from act_policy.control.config import SafetyConfig
from act_policy.control.demonstrated import Demonstrated
from act_policy.images.levels import frame_levels

BLACK = 4
"""No pixel of 0 to 255 brighter than this: a covered lens, or a camera that sends nothing."""

LEVEL_MARGIN = 0.1
"""How far mean and deviation of an image, both in [0, 1], may be outside what was demonstrated."""


class CameraWatch:
    """Look at every image that the policy is shown.

    Args:
        shown: knows brightness and contrast of the demonstrations, or not.
        config: after how long each is a fault.
    """

    def __init__(self, shown: Demonstrated, config: SafetyConfig):
        self._levels, self._config = shown.images, config
        self._last: dict[str, np.ndarray] = {}
        self._changed: dict[str, float] = {}  # when the camera last sent another image
        self._usual: dict[str, float] = {}  # when its levels were last as demonstrated

    @property
    def looks(self) -> bool:
        """Whether anything is looked for."""
        return self._config.frozen_camera_time > 0 or self._config.odd_image_time > 0

    def fault(self, images: Mapping[str, np.ndarray], now: float) -> str | None:
        """What is wrong with the images of this moment, as a sentence; None if nothing is."""
        for name, image in images.items():
            if self._config.odd_image_time > 0 and image.max() <= BLACK:
                return f"camera {name} is black"
            if reason := self._frozen(name, image, now) or self._odd(name, image, now):
                return reason
        return None

    def _frozen(self, name: str, image: np.ndarray, now: float) -> str | None:
        if (limit := self._config.frozen_camera_time) == 0:
            return None
        last = self._last.get(name)
        if last is None or last.shape != image.shape or not np.array_equal(last, image):
            self._last[name], self._changed[name] = image.copy(), now
            return None
        still = now - self._changed[name]
        return f"camera {name} has sent the same image for {still:.1f} s" if still > limit else None

    def _odd(self, name: str, image: np.ndarray, now: float) -> str | None:
        levels = self._levels.get(name)
        if levels is None or (limit := self._config.odd_image_time) == 0:
            return None
        found, sentence = frame_levels(image), None
        for what, value, (low, high) in (
            ("brightness", found[0], levels.mean),
            ("contrast", found[1], levels.deviation),
        ):
            if not low - LEVEL_MARGIN <= value <= high + LEVEL_MARGIN:
                sentence = (
                    f"camera {name}: {what} {value:.2f}, demonstrated was {low:.2f} to {high:.2f}"
                )
        if sentence is None or name not in self._usual:
            self._usual[name] = now
        return sentence if now - self._usual[name] > limit else None
