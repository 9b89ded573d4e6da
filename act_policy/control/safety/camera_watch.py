"""Watch the cameras for images that are old, black, or in another light than in training."""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from act_policy.control.config import SafetyConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.images.levels import FrameLevels, frame_levels
from act_policy.statistics import ImageLevels

BLACK = 4
"""No pixel of 0 to 255 brighter than this: a covered lens, or a camera that sends nothing."""

LEVEL_MARGIN = 0.1
"""How far mean and deviation of an image, both in [0, 1], may be outside what was demonstrated."""


NEW_IMAGES_TIME = 2.0
"""Seconds over which new images are counted."""

WARMTH_MARGIN = 0.03
"""The same for red minus blue; other lamps shift it further, but do not mirror it."""

_CLOCK_ERROR = 1e-3  # s

ENOUGH_TIME = 0.9
"""Seconds of looks that tell how often a camera sends a new image."""


class ImageFaultKind(StrEnum):
    """Each kind of fault that images can show."""

    BLACK = "black"
    FROZEN = "frozen"
    SLOW = "slow"
    BRIGHTNESS = "brightness"
    CONTRAST = "contrast"
    CHANNELS = "red and blue exchanged"
    EXCHANGED = "exchanged"


class ImageFault(NamedTuple):
    """A fault that a camera's images show.

    value: seconds without a new image, new images per second, or the brightness, contrast or warmth
        (red minus blue) found; 0 for black.
    expected: lowest and highest such level of the demonstrations; for a slow camera the fewest
        new images per second, and looks per second.
    other: the camera that it seems to be exchanged with.
    """

    kind: ImageFaultKind
    camera: str
    value: float = 0.0
    expected: tuple[float, float] = (0.0, 0.0)
    other: str = ""

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
        if self.kind is ImageFaultKind.SLOW:
            return (
                f"camera {self.camera} sends {self.value:.1f} new images a second, and is looked "
                f"at {high:.1f} times; expected at least {low:.1f} (safety.slowest_camera)"
            )
        if self.kind is ImageFaultKind.CHANNELS:
            return (
                f"camera {self.camera}: red and blue seem exchanged, red exceeds blue by "
                f"{self.value:.2f}, demonstrated was {low:.2f} to {high:.2f}"
            )
        if self.kind is ImageFaultKind.EXCHANGED:
            return (
                f"camera {self.camera} shows what {self.other} did in the demonstrations, and the "
                "other way round: the two seem exchanged"
            )
        return f"{self.name} {self.value:.2f}, demonstrated was {low:.2f} to {high:.2f}"


class CameraWatch:
    """Find frozen, black and unusually lit images among those that the policy is shown."""

    def __init__(self, ranges: DemonstratedRanges, config: SafetyConfig):
        self._levels, self._config = ranges.images, config
        self._last: dict[str, np.ndarray] = {}
        self._changed: dict[str, float] = {}  # when the camera last sent another image
        self._looks: dict[str, deque[tuple[float, bool]]] = {}  # when, and whether it was new
        self._usual: dict[str, float] = {}  # when its levels were last as demonstrated
        self.odd: dict[str, ImageFault] = {}
        """Camera -> what its latest image shows unlike the demonstrations, however briefly."""

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
        seen = {}
        if self._config.odd_image_time > 0:
            seen = {name: frame_levels(images[name]) for name in images if name in self._levels}
        for name, image in images.items():
            black = self._config.odd_image_time > 0 and image.max() <= BLACK
            fault = ImageFault(ImageFaultKind.BLACK, name) if black else None
            # all are asked, since each counts time of its own
            old, odd = self._old(name, image, now), self._odd(name, seen, now)
            if fault := fault or old or odd:
                found.append(fault)
        return found

    def _old(self, name: str, image: np.ndarray, now: float) -> ImageFault | None:
        """A driver may hand out one image again and again: only a new one is young."""
        if (limit := self._config.frozen_camera_time) == 0:
            return None
        last = self._last.get(name)
        new = last is None or not np.array_equal(last, image)
        looks = self._looks.setdefault(name, deque())
        looks.append((now, new))
        while now - looks[0][0] > NEW_IMAGES_TIME:
            looks.popleft()
        if new:
            self._last[name], self._changed[name] = image.copy(), now
        elif (still := now - self._changed[name]) > limit:
            return ImageFault(ImageFaultKind.FROZEN, name, still)
        seconds = looks[-1][0] - looks[0][0]
        if seconds < ENOUGH_TIME:
            return None
        count = sum(new for _, new in looks)  # with the first, or one that may come next
        wanted = self._config.slowest_camera * len(looks)
        if count >= wanted:
            return None
        expected = (wanted / seconds, len(looks) / seconds)
        return ImageFault(ImageFaultKind.SLOW, name, count / seconds, expected)

    def _odd(self, name: str, seen: Mapping[str, FrameLevels], now: float) -> ImageFault | None:
        if name not in seen:
            return None
        fault = self._unlike(name, seen)
        self.odd.pop(name, None)
        if fault is not None:
            self.odd[name] = fault
        if fault is None or name not in self._usual:
            self._usual[name] = now
        return fault if now - self._usual[name] > self._config.odd_image_time else None

    def _unlike(self, name: str, seen: Mapping[str, FrameLevels]) -> ImageFault | None:
        """Compare one camera's levels with its demonstrated ones, and with those of the others."""
        fault, levels = None, self._levels[name]
        for kind, value, (low, high) in (
            (ImageFaultKind.BRIGHTNESS, seen[name].mean, levels.mean),
            (ImageFaultKind.CONTRAST, seen[name].deviation, levels.deviation),
        ):
            if not _near(value, (low, high), LEVEL_MARGIN):
                fault = ImageFault(kind, name, value, (low, high))
        warmth = seen[name].warmth
        strange = np.isfinite(levels.warmth[0]) and not _near(warmth, levels.warmth, WARMTH_MARGIN)
        if fault or strange:
            for other in seen:
                if (
                    other != name
                    and _fits(seen[name], self._levels[other])
                    and _fits(seen[other], levels)
                ):
                    return ImageFault(ImageFaultKind.EXCHANGED, name, other=other)
        if fault is None and strange and _near(-warmth, levels.warmth, WARMTH_MARGIN):
            return ImageFault(ImageFaultKind.CHANNELS, name, warmth, levels.warmth)
        return fault


def _near(value: float, ends: tuple[float, float], margin: float) -> bool:
    return ends[0] - margin <= value <= ends[1] + margin


def _fits(found: FrameLevels, levels: ImageLevels) -> bool:
    """Whether an image could be one of these; never where a level was not measured."""
    return (
        _near(found.mean, levels.mean, LEVEL_MARGIN / 2)
        and _near(found.deviation, levels.deviation, LEVEL_MARGIN / 2)
        and _near(found.warmth, levels.warmth, WARMTH_MARGIN)
    )


def doubt_captured(
    captured: float, image_times: Mapping[str, float], began: float, ended: float, longest: float
) -> str:
    """Say why a robot's moments of capture cannot be; "" if they can.

    Args:
        captured: of the reading, as the robot says.
        image_times: of each camera's image.
        began: when the robot was asked.
        ended: when it had answered.
        longest: seconds that images may be old (`safety.max_image_age`).
    """
    of_cameras = ((f"camera {name}'s image was", moment) for name, moment in image_times.items())
    for what, moment in (("its images were", captured), *of_cameras):
        if not began - longest <= moment <= ended + _CLOCK_ERROR:  # NaN is refused too
            age = ended - moment
            when = f"{age:.2f} s ago" if not age < 0 else f"{-age:.2f} s in the future"
            return (
                f"the robot says that {what} taken {when}; expected at most {longest:.2f} s ago "
                "(safety.max_image_age), and the loop's clock (time.monotonic)"
            )
    return ""
