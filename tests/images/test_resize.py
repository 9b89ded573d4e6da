"""Cropping and scaling of images, against Pillow."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from act_policy.errors import UserError
from act_policy.images.resize import camera_image, crop_and_resize
from act_policy.types import Camera, Schema
from tests.examples import FEW


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pillow(image: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


side = st.integers(1, 90)


@FEW
@given(side, side, side, side, st.integers(0, 9))
def test_is_pillow_of_the_crop(height, width, new_height, new_width, seed):
    image = noise(height + 3, width + 5, seed)
    result = crop_and_resize(image, (1, 2, height, width), new_height, new_width)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    cut = np.ascontiguousarray(image[1 : 1 + height, 2 : 2 + width])
    np.testing.assert_array_equal(result, pillow(cut, new_height, new_width))


def test_means_are_kept_and_plain_colours_exactly():
    stripes = np.zeros((480, 640, 3), np.uint8)
    stripes[::2] = 255  # without antialiasing this becomes all black or all white
    assert (abs(crop_and_resize(stripes, None, 60, 80)[1:-1].astype(int) - 127.5) < 3).all()
    for value in (0, 1, 127, 254, 255):
        plain = np.full((37, 53, 3), value, np.uint8)
        assert (crop_and_resize(plain, None, 90, 11) == value).all()


def test_nothing_to_do_costs_nothing_and_a_crop_alone_is_exact():
    image = noise(12, 16)
    assert crop_and_resize(image, None, 12, 16) is image
    np.testing.assert_array_equal(crop_and_resize(image, (2, 3, 7, 8), 7, 8), image[2:9, 3:11])


@pytest.mark.parametrize("crop", [(-1, 0, 4, 4), (0, 0, 13, 4), (0, 10, 4, 7), (0, 0, 0, 4)])
def test_a_crop_outside_is_refused(crop):
    with pytest.raises(UserError, match=r"is not inside an image of 12x16 pixels"):
        crop_and_resize(noise(12, 16), crop, 4, 4)


def test_without_pillow_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="needs pillow"):
        crop_and_resize(noise(4, 4), None, 2, 2)
    assert crop_and_resize(noise(4, 4), None, 4, 4).shape == (4, 4, 3)


def test_an_array_that_is_not_an_image_is_refused():
    for image in (noise(4, 4)[..., 0], noise(4, 4) / 255):
        with pytest.raises(UserError, match=r"expected uint8 \(h, w, 3\)"):
            crop_and_resize(image, None, 2, 2)


def test_a_camera_says_how_its_image_is_made():
    camera = Camera("top", 6, 8, source_size=(12, 16), crop=(0, 0, 10, 16))
    full = noise(12, 16)
    np.testing.assert_array_equal(
        camera_image(full, camera), crop_and_resize(full, (0, 0, 10, 16), 6, 8)
    )
    small = noise(6, 8)
    assert camera_image(small, camera) is small
    with pytest.raises(UserError, match=r"camera top: uint8 \(24, 32, 3\), .*\(12, 16, 3\)"):
        camera_image(noise(24, 32), camera)
    with pytest.raises(UserError, match=r"camera top: .*expected uint8 \(6, 8, 3\); set"):
        camera_image(full, Camera("top", 6, 8))


def test_a_schema_keeps_source_size_and_crop():
    def schema(camera):
        return Schema((camera,), ("x",), ("m",), ("x",), ("m",), 10.0)

    made = schema(Camera("top", 6, 8, (12, 16), (0, 0, 10, 16)))
    assert Schema.from_dict(made.to_dict()) == made
    plain = schema(Camera("top", 6, 8))
    assert plain.to_dict()["cameras"] == [{"name": "top", "height": 6, "width": 8}]
    assert Schema.from_dict(plain.to_dict()) == plain
    with pytest.raises(UserError, match="a crop needs a source_size"):
        schema(Camera("top", 6, 8, crop=(0, 0, 4, 4)))
