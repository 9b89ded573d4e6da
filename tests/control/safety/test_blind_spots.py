"""What the record of the demonstrations' images cannot tell is said, and nothing else."""

from itertools import product

import numpy as np
import pytest

from act_policy.control.config import SafetyConfig, config_from_dict
from act_policy.control.safety.blind_spots import find_blind_spots
from act_policy.control.safety.camera_watch import CameraWatch
from act_policy.images.levels import FrameLevels
from act_policy.statistics import ImageLevels
from tests.control.loop_for_tests import RANGES

SAFETY = SafetyConfig()
WARM = ImageLevels((0.4, 0.5), (0.1, 0.2), (0.06, 0.1))
COLD = ImageLevels((0.4, 0.5), (0.1, 0.2), (-0.1, -0.06))
GREY = ImageLevels((0.4, 0.5), (0.1, 0.2), (-0.01, 0.02))
BRIGHT = ImageLevels((0.7, 0.8), (0.1, 0.2), (0.06, 0.1))


def spots(**images: ImageLevels) -> list[str]:
    return find_blind_spots(("front", "wrist"), images, SAFETY)


def test_cameras_that_differ_have_none() -> None:
    assert spots(front=WARM, wrist=COLD) == []
    assert spots(front=WARM, wrist=BRIGHT) == []


def test_each_is_named() -> None:
    (alike,) = spots(front=WARM, wrist=WARM)
    assert alike.startswith("cameras front and wrist look alike")
    (grey,) = spots(front=GREY, wrist=BRIGHT)
    assert grey.startswith("camera front: red and blue are about alike")
    (unknown,) = spots(front=WARM)
    assert unknown.startswith("the policy does not say what wrist showed")
    old = WARM._replace(warmth=(float("nan"),) * 2)
    assert len(spots(front=old, wrist=COLD)) == 2
    off = config_from_dict({"safety": {"odd_image_time": 0}}).safety
    (everything,) = find_blind_spots(("front",), {"front": GREY}, off)
    assert everything.startswith("safety.odd_image_time is 0")


def found(images: dict[str, ImageLevels], seen: dict[str, FrameLevels]) -> bool:
    watch = CameraWatch(RANGES._replace(images=images), SAFETY)
    return any(watch._unlike(name, seen) for name in seen)


def ends(levels: ImageLevels) -> list[FrameLevels]:
    return [FrameLevels(*each) for each in product(*levels)]


@pytest.mark.parametrize("seed", range(20))
def test_where_none_is_named_every_exchange_is_found(seed: int) -> None:
    """Whatever the images show, within what was demonstrated: also the most alike of them."""
    random = np.random.default_rng(seed)

    def levels() -> ImageLevels:
        mean, deviation, warmth = random.uniform((0.3, 0.1, -0.1), (0.7, 0.4, 0.1)).tolist()
        return ImageLevels(
            (mean, mean + 0.05), (deviation, deviation + 0.02), (warmth, warmth + 0.01)
        )

    front, wrist = levels(), levels()
    images = {"front": front, "wrist": wrist}
    named = " ".join(spots(**images))
    for one, other in product(ends(front), ends(wrist)):
        if "look alike" not in named:
            assert found(images, {"front": other, "wrist": one})
        mirrored = one._replace(warmth=-one.warmth)
        if "camera front" not in named:
            assert found(images, {"front": mirrored, "wrist": other})
    ordinary = {"front": ends(front)[0], "wrist": ends(wrist)[-1]}
    assert not found(images, ordinary)
