"""Images cut and scaled the same way in training and on the robot; numpy only.

Antialiased linear interpolation, what Pillow calls BILINEAR: each pixel of the result is a weighted
mean of the pixels below a triangle around its centre, which is as wide as two pixels of whichever
image is coarser. The result equals Pillow's within 1 of 255.
"""

from functools import lru_cache

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Camera

Crop = tuple[int, int, int, int]
"""top, left, height and width in pixels."""

_ROWS_AT_ONCE = 16


def camera_image(image: np.ndarray, camera: Camera) -> np.ndarray:
    """Make the policy's image of a frame as the camera takes it.

    Args:
        image: uint8 (h, w, 3), of the camera's source size, or of its size already.
        camera: says what its images were made from.

    Returns:
        uint8 (camera.height, camera.width, 3).

    Raises:
        UserError: the image has neither size.
    """
    if image.shape == (camera.height, camera.width, 3) and image.dtype == np.uint8:
        return image
    source = camera.source_size
    if source is None or image.shape != (*source, 3):
        expected = f"uint8 {(camera.height, camera.width, 3)}"
        expected += f", or {(*source, 3)} as the camera takes it" if source else ""
        raise UserError(
            f"camera {camera.name}: {image.dtype} {image.shape}, expected {expected}; set the "
            "camera to that size, or train on images made from this one (data.select.resize)"
        )
    return crop_and_resize(image, camera.crop, camera.height, camera.width)


def crop_and_resize(image: np.ndarray, crop: Crop | None, height: int, width: int) -> np.ndarray:
    """Cut out a rectangle and scale it to (height, width).

    Args:
        image: uint8 (h, w, 3).
        crop: the rectangle, inside the image; None is the whole image.
        height: of the result in pixels.
        width: of the result in pixels.

    Returns:
        uint8 (height, width, 3), contiguous; the image itself where nothing is to be done.

    Raises:
        UserError: no such image, or a rectangle that is not inside it.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise UserError(f"image: {image.dtype} {image.shape}, expected uint8 (h, w, 3)")
    if crop is not None:
        check_crop(crop, image.shape[0], image.shape[1])
        top, left, rows, columns = crop
        image = image[top : top + rows, left : left + columns]
    if image.shape[:2] != (height, width):
        pixels = _resize_rows(image.astype(np.float32), height)
        pixels = _resize_rows(np.ascontiguousarray(pixels.transpose(1, 0, 2)), width)
        # weights are positive and sum to 1, so nothing leaves 0 to 255
        image = (pixels.transpose(1, 0, 2) + np.float32(0.5)).astype(np.uint8)
    return np.ascontiguousarray(image)


def check_crop(crop: Crop, height: int, width: int) -> None:
    """Raise UserError unless the rectangle lies inside an image of this size."""
    top, left, rows, columns = crop
    inside = min(top, left) >= 0 and min(rows, columns) > 0
    if not inside or top + rows > height or left + columns > width:
        raise UserError(
            f"crop {list(crop)} (top, left, height, width) is not inside an image of "
            f"{height}x{width} pixels"
        )


def _resize_rows(pixels: np.ndarray, count: int) -> np.ndarray:
    """Scale the first axis of float32 (h, w, 3) to `count`."""
    rows, columns, channels = pixels.shape
    if rows == count:
        return pixels
    flat = pixels.reshape(rows, -1)
    result = np.empty((count, flat.shape[1]), np.float32)
    for first, begin, weights in _weights(rows, count):
        # each block of the result looks at few rows only
        part = flat[begin : begin + weights.shape[1]]
        np.matmul(weights, part, out=result[first : first + len(weights)])
    return result.reshape(count, columns, channels)


@lru_cache(maxsize=64)
def _weights(size: int, count: int) -> tuple[tuple[int, int, np.ndarray], ...]:
    """Blocks of the matrix that scales `size` values to `count`: (row, column, float32 block)."""
    scale = size / count
    radius = max(scale, 1.0)
    centres = (np.arange(count) + 0.5) * scale
    distance = np.abs(np.arange(size) + 0.5 - centres[:, None])
    weights = np.maximum(1 - distance / radius, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    blocks = []
    for first in range(0, count, _ROWS_AT_ONCE):
        block = weights[first : first + _ROWS_AT_ONCE]
        used = np.flatnonzero(block.any(axis=0))
        begin, end = int(used[0]), int(used[-1]) + 1
        blocks.append((first, begin, np.ascontiguousarray(block[:, begin:end], np.float32)))
    return tuple(blocks)
