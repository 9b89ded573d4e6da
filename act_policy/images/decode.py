"""Decode a stored image, JPEG, PNG or the like, to RGB."""

import io

import numpy as np
from PIL import Image, ImageOps

_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's names for images of more than 8 bits per channel."""


class DeepImageError(Exception):
    """The image has more than 8 bits per channel, as depth has; the message is its mode."""


def decode_rgb(content: bytes, formats: tuple[str, ...] | None = None) -> np.ndarray:
    """Return uint8 (h, w, 3), the right way up where the image says how the camera was held.

    Args:
        content: the encoded image.
        formats: those that it may have, by Pillow's names; None allows all.

    Raises:
        DeepImageError: it is not 8 bits per channel.
        Exception: it is broken; a broken header makes Pillow raise almost anything.
    """
    with Image.open(io.BytesIO(content), formats=formats) as image:
        if image.mode in _DEEP_MODES:
            raise DeepImageError(image.mode)
        ImageOps.exif_transpose(image, in_place=True)  # as LeRobot and OpenCV do
        return np.asarray(image.convert("RGB"))
