"""Which wrong images pass unnoticed, given what is known of the demonstrations' images."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from act_policy.control.config import SafetyConfig
from act_policy.control.safety.camera_watch import LEVEL_MARGIN, WARMTH_MARGIN
from act_policy.statistics import ImageLevels


def find_blind_spots(
    cameras: Sequence[str], images: Mapping[str, ImageLevels], config: SafetyConfig
) -> list[str]:
    """Describe each kind of wrong image that `CameraWatch` would let pass, for a person.

    Args:
        cameras: of the policy.
        images: camera -> levels of the demonstrations, where they are known.
        config: may switch the comparison off.
    """
    if config.odd_image_time == 0:
        return [
            "safety.odd_image_time is 0: black images, odd light, exchanged cameras and exchanged "
            "colours are not looked for"
        ]
    found = []
    if unknown := [name for name in cameras if name not in images]:
        found.append(
            f"the policy does not say what {' and '.join(unknown)} showed in the demonstrations: "
            "odd light, exchanged cameras and exchanged colours are not noticed"
        )
    known = [name for name in cameras if name in images]
    found += [
        f"camera {name}: red and blue are about alike in its demonstrations, or their colours are "
        "not known; exchanged red and blue may not be noticed"
        for name in known
        if _looks_the_same_mirrored(images[name].warmth)
    ]
    found += [
        f"cameras {one} and {other} look alike in brightness, contrast and colour; exchanged ones "
        "may not be noticed"
        for one, other in combinations(known, 2)
        if _look_alike(images[one], images[other])
    ]
    return found


def _looks_the_same_mirrored(warmth: tuple[float, float]) -> bool:
    low, high = warmth
    return not np.isfinite(low) or _meet((-high, -low), (low, high), WARMTH_MARGIN)


def _look_alike(one: ImageLevels, other: ImageLevels) -> bool:
    return (
        _meet(one.mean, other.mean, LEVEL_MARGIN)
        and _meet(one.deviation, other.deviation, LEVEL_MARGIN)
        and _meet(one.warmth, other.warmth, WARMTH_MARGIN)
    )


def _meet(one: tuple[float, float], other: tuple[float, float], margin: float) -> bool:
    """Whether two ranges are at most a margin apart; unknown ones may be."""
    return not (one[1] + margin < other[0] or other[1] + margin < one[0])
