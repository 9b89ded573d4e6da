"""Measure brightness and contrast of images, by which a robot recognises unknown light."""

from collections.abc import Sequence

import numpy as np

from act_policy.types import ImageLevels

_LARGE = 50_000
"""Values in an image from which one pixel in sixteen tells as much as all."""


def frame_levels(image: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the pixels of a uint8 (h, w, 3), scaled to [0, 1]."""
    sample = image[::4, ::4] if image.size > _LARGE else image
    return float(sample.mean()) / 255, float(sample.std()) / 255


def range_of_levels(frames: Sequence[np.ndarray] | np.ndarray) -> ImageLevels:
    """Smallest and largest levels over frames of one camera, at least one."""
    levels = np.array([frame_levels(frame) for frame in frames])
    low, high = levels.min(axis=0), levels.max(axis=0)
    return ImageLevels((float(low[0]), float(high[0])), (float(low[1]), float(high[1])))
