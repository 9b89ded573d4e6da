"""Measure brightness and contrast of images, so that a robot notices unknown light."""

from collections.abc import Sequence

import numpy as np

from act_policy.types import ImageLevels

_LARGE = 50_000
"""Values in an image above which one pixel in sixteen is enough."""


def frame_levels(image: np.ndarray) -> tuple[float, float]:
    """Return mean and deviation of a uint8 (h, w, 3) image's pixels, scaled to [0, 1]."""
    sample = image[::4, ::4] if image.size > _LARGE else image
    return float(sample.mean()) / 255, float(sample.std()) / 255


def range_of_levels(frames: Sequence[np.ndarray] | np.ndarray) -> ImageLevels:
    """Return the smallest and largest levels over one or more frames of a camera."""
    levels = np.array([frame_levels(frame) for frame in frames])
    low, high = levels.min(axis=0), levels.max(axis=0)
    return ImageLevels((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
