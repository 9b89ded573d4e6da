"""Watch the cameras for images unlike those in training: frozen, black, or in another light."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from act_policy.control.config import SafetyConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.images.levels import frame_levels

BLACK = 4
"""No pixel of 0 to 255 brighter than this: a covered lens, or a camera that sends nothing."""

LEVEL_MARGIN = 0.1
"""How far mean and deviation of an image, both in [0, 1], may be outside what was demonstrated."""


class ImageFaultKind(StrEnum):
    """Each kind of fault that images can show."""

    BLACK = "black"
    FROZEN = "frozen"
    BRIGHTNESS = "brightness"
    CONTRAST = "contrast"


class ImageFault(NamedTuple):
    """A fault that a camera's images show.

    value: seconds without a new image, or the brightness or contrast found; 0 for black.
    expected: lowest and highest brightness or contrast of the demonstrations.
    """

    kind: ImageFaultKind
    camera: str
    value: float = 0.0
    expected: tuple[float, float] = (0.0, 0.0)

    @property
    def name(self) -> str:
        """Kind and camera: the same however long it lasts."""
        return f"camera {self.camera}: {self.kind}"

    @property
    def sentence(self) -> str:
        """The fault with its numbers, for a person."""
        match self.kind:
            case ImageFaultKind.BLACK:
                return f"camera {self.camera} is black"
            case ImageFaultKind.FROZEN:
                return f"camera {self.camera} has sent the same image for {self.value:.1f} s"
        low, high = self.expected
        return f"{self.name} {self.value:.2f}, demonstrated was {low:.2f} to {high:.2f}"


class CameraWatch:
    """Find frozen, black and unusually lit images among those that the policy is shown."""

    def __init__(self, ranges: DemonstratedRanges, config: SafetyConfig):
        self._levels, self._config = ranges.images, config
        self._last: dict[str, np.ndarray] = {}
        self._changed: dict[str, float] = {}  # when the camera last sent another image
        self._usual: dict[str, float] = {}  # when its levels were last as demonstrated

    @property
    def looks(self) -> bool:
        """Whether anything is looked for."""
        return self._config.frozen_camera_time > 0 or self._config.odd_image_time > 0

    def fault(self, images: Mapping[str, np.ndarray], now: float) -> ImageFault | None:
        """The first fault that the images of this moment show, or None."""
        return next(iter(self.faults(images, now)), None)

    def faults(self, images: Mapping[str, np.ndarray], now: float) -> list[ImageFault]:
        """The fault of each camera whose image of this moment shows one."""
        found = []
        for name, image in images.items():
            black = self._config.odd_image_time > 0 and image.max() <= BLACK
            fault = ImageFault(ImageFaultKind.BLACK, name) if black else None
            # all are asked, since each counts time of its own
            frozen, odd = self._frozen(name, image, now), self._odd(name, image, now)
            if fault := fault or frozen or odd:
                found.append(fault)
        return found

    def _frozen(self, name: str, image: np.ndarray, now: float) -> ImageFault | None:
        if (limit := self._config.frozen_camera_time) == 0:
            return None
        last = self._last.get(name)
        if last is None or not np.array_equal(last, image):
            self._last[name], self._changed[name] = image.copy(), now
            return None
        still = now - self._changed[name]
        return ImageFault(ImageFaultKind.FROZEN, name, still) if still > limit else None

    def _odd(self, name: str, image: np.ndarray, now: float) -> ImageFault | None:
        levels = self._levels.get(name)
        if levels is None or (limit := self._config.odd_image_time) == 0:
            return None
        brightness, contrast = frame_levels(image)
        fault = None
        for kind, value, (low, high) in (
            (ImageFaultKind.BRIGHTNESS, brightness, levels.mean),
            (ImageFaultKind.CONTRAST, contrast, levels.deviation),
        ):
            if not low - LEVEL_MARGIN <= value <= high + LEVEL_MARGIN:
                fault = ImageFault(kind, name, value, (low, high))
        if fault is None or name not in self._usual:
            self._usual[name] = now
        return fault if now - self._usual[name] > limit else None
