"""Measure brightness, contrast and warmth of images, so that a robot notices unknown ones."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from act_policy.statistics import ImageLevels

_LARGE = 50_000
"""Values in an image above which one pixel in sixteen is enough."""


class FrameLevels(NamedTuple):
    """Levels of one image, scaled to [0, 1]; warmth is red minus blue."""

    mean: float
    deviation: float
    warmth: float


def frame_levels(image: np.ndarray) -> FrameLevels:
    """Return the levels of a uint8 (h, w, 3) image."""
    sample = image[::4, ::4] if image.size > _LARGE else image
    warmth = float(sample[..., 0].mean()) - float(sample[..., 2].mean())
    return FrameLevels(float(sample.mean()) / 255, float(sample.std()) / 255, warmth / 255)


def range_of_levels(frames: Sequence[np.ndarray] | np.ndarray) -> ImageLevels:
    """Return the smallest and largest levels over one or more frames of a camera."""
    levels = np.array([frame_levels(frame) for frame in frames])
    low, high = levels.min(axis=0).tolist(), levels.max(axis=0).tolist()
    return ImageLevels(*zip(low, high, strict=True))
