"""Frozen, black and oddly lit cameras."""

import numpy as np
import pytest

from act_policy.control.config import SafetyConfig, config_from_dict
from act_policy.control.safety.camera_watch import CameraWatch, ImageFaultKind
from act_policy.images.levels import frame_levels
from act_policy.statistics import ImageLevels
from tests.control.loop_for_tests import RANGES

LIT = RANGES._replace(images={"front": ImageLevels(mean=(0.4, 0.5), deviation=(0.05, 0.1))})
RANDOM = np.random.default_rng(0)


def image(brightness: float, contrast: float = 0.06) -> np.ndarray:
    pixels = RANDOM.normal(255 * brightness, 255 * contrast, (12, 16, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def test_levels() -> None:
    half = np.zeros((2, 2, 3), np.uint8)
    half[0] = 255
    assert frame_levels(half) == (0.5, 0.5, 0.0)
    half[..., 2] = 0
    assert frame_levels(half).warmth == 0.5


def test_light_far_from_the_demonstrations_is_a_fault_after_a_while() -> None:
    watch = CameraWatch(LIT, SafetyConfig())
    assert watch.fault({"front": image(0.45)}, 0.0) is None
    assert watch.fault({"front": image(0.9)}, 0.5) is None
    assert watch.fault({"front": image(0.9)}, 1.0) is None
    assert watch.fault({"front": image(0.45)}, 1.2) is None  # a flash is none
    for now in (1.3, 1.8):
        assert watch.fault({"front": image(0.9)}, now) is None
    fault = watch.fault({"front": image(0.9)}, 2.4)
    assert fault is not None
    assert (fault.kind, fault.camera) == (ImageFaultKind.BRIGHTNESS, "front")
    assert fault.sentence == "camera front: brightness 0.90, demonstrated was 0.40 to 0.50"
    later = watch.fault({"front": image(0.8)}, 2.5)
    assert later is not None
    assert later.name == fault.name  # counted as the same, although its numbers differ


def test_a_fogged_lens_is_known_by_its_contrast() -> None:
    watch = CameraWatch(
        LIT._replace(images={"front": ImageLevels((0.4, 0.5), (0.2, 0.3))}), SafetyConfig()
    )
    for now in (0.0, 0.6):
        watch.fault({"front": image(0.45, 0.02)}, now)
    fault = watch.fault({"front": image(0.45, 0.02)}, 1.2)
    assert fault is not None
    assert (fault.kind, fault.expected) == (ImageFaultKind.CONTRAST, (0.2, 0.3))
    assert fault.value == pytest.approx(0.02, abs=0.005)


def test_checks_that_are_switched_off_find_nothing() -> None:
    off = config_from_dict({"safety": {"frozen_camera_time": 0, "odd_image_time": 0}}).safety
    watch = CameraWatch(LIT, off)
    black = np.zeros((12, 16, 3), np.uint8)
    assert not any(watch.fault({"front": black}, now) for now in (0.0, 5.0, 10.0))


def tinted(brightness: float, warmth: float) -> np.ndarray:
    pixels = np.array([brightness + warmth / 2, brightness, brightness - warmth / 2])
    noisy = RANDOM.normal(255 * pixels, 255 * 0.06, (12, 16, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


TWO = RANGES._replace(
    images={
        "front": ImageLevels((0.4, 0.5), (0.05, 0.12), (0.08, 0.14)),
        "wrist": ImageLevels((0.4, 0.5), (0.05, 0.12), (-0.02, 0.02)),
    }
)


@pytest.mark.parametrize(
    ("front", "wrist", "kinds"),
    [
        (0.1, 0.0, []),
        (0.18, 0.0, []),  # a warmer lamp
        (-0.1, 0.0, [ImageFaultKind.CHANNELS]),
        (0.0, 0.1, [ImageFaultKind.EXCHANGED] * 2),
    ],
)
def test_exchanged_channels_and_cameras_are_found(
    front: float, wrist: float, kinds: list[ImageFaultKind]
) -> None:
    watch = CameraWatch(TWO, SafetyConfig())
    found = []
    for now in np.arange(0, 1.5, 0.1):
        images = {"front": tinted(0.45, front), "wrist": tinted(0.45, wrist)}
        found = watch.faults(images, float(now))
    assert [fault.kind for fault in found] == kinds
    if kinds and kinds[0] is ImageFaultKind.EXCHANGED:
        assert (found[0].camera, found[0].other) == ("front", "wrist")


def test_levels_without_warmth_are_not_compared() -> None:
    """Of policies that did not measure it."""
    levels = {name: known._replace(warmth=(np.nan, np.nan)) for name, known in TWO.images.items()}
    watch = CameraWatch(RANGES._replace(images=levels), SafetyConfig())
    for now in np.arange(0, 1.5, 0.1):
        images = {"front": tinted(0.45, -0.1), "wrist": tinted(0.45, 0.1)}
        assert watch.faults(images, float(now)) == []
