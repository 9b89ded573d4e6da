"""One camera's images in an HDF5 file, in every form in which they are stored.

uint8 (T, h, w, 3)              RGB as it is
uint8 (T, h, w, 4)              RGBA; the alpha channel is dropped
uint8 (T, h, w), (T, h, w, 1)   gray, repeated in three channels
uint8 (T, 3, h, w)              channels first
uint8 (T, bytes)                encoded images (JPEG, PNG) in rows, padded with zeros
T byte strings, T uint8 rows    encoded images, of fixed or variable length
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from act_policy.data.dataset import DEPTH, UndecodableFrameError
from act_policy.errors import UserError
from act_policy.images.decode import DeepImageError, decode_rgb
from act_policy.types import Camera


def is_encoded(images: Any) -> bool:
    """Whether each step is an encoded image: a padded row, or a byte string."""
    rows = images.dtype == np.uint8 and images.ndim == 2
    strings = images.ndim == 1 and (
        images.dtype.kind in "SV"
        or h5py.check_string_dtype(images.dtype) is not None
        or h5py.check_vlen_dtype(images.dtype) in (np.dtype(np.uint8), np.dtype(np.int8))
    )
    return bool(rows or strings)


def read_camera(path: Path, name: str, images: Any, steps: int, jpeg_order: str) -> Camera | str:
    """Return the camera with its size, or why its images cannot be used.

    Raises:
        UserError: there are not as many images as steps, or none can be decoded.
    """
    shape, dtype = tuple(images.shape), images.dtype
    if name.endswith("_depth"):
        return DEPTH
    if len(shape) < 2 and not is_encoded(images):
        return f"it is {dtype} {shape}, not one image per step; a video in one piece is not read"
    if shape[0] != steps:
        raise UserError(f"{path}: camera {name} has {shape[0]} frames, the episode {steps} steps")
    if is_encoded(images):
        return _encoded_camera(path, name, images, jpeg_order)
    if dtype in (np.uint16, np.int16, np.uint32, np.int32) and len(shape) in (3, 4):
        return f"it is {dtype} {shape}, more than 8 bits per pixel, as depth has"
    if dtype == np.uint8 and (size := _size(shape)) is not None:
        return Camera(name, *size)
    return (
        f"it is {dtype} {shape}; expected uint8 (steps, height, width, 3), or encoded images: "
        "uint8 (steps, bytes) or byte strings"
    )


def _size(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return height and width of raw images, None where the shape is not that of images."""
    if len(shape) == 3:
        return shape[1], shape[2]
    if len(shape) == 4 and shape[3] in (1, 3, 4):
        return shape[1], shape[2]
    return (shape[2], shape[3]) if _is_channels_first(shape) else None


def _is_channels_first(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[1] in (1, 3, 4) and shape[3] not in (1, 3, 4)


def _encoded_camera(path: Path, name: str, images: Any, jpeg_order: str) -> Camera | str:
    # The first frame that can be decoded gives the size; the others are checked when read.
    for step in range(len(images)):
        try:
            frame = decode(images[step], jpeg_order, f"{path}: camera {name}, step {step}")
        except DeepFrameError as error:
            return f"its images have more than 8 bits per pixel ({error}), as depth has"
        except UndecodableFrameError:
            if step == len(images) - 1:
                raise
            continue
        return Camera(name, *frame.shape[:2])
    raise AssertionError("an episode has at least one step")


class DeepFrameError(UndecodableFrameError):
    """An encoded image has more than 8 bits per pixel; the message is its mode."""


def decode(row: Any, jpeg_order: str, where: str) -> np.ndarray:
    """Decode one image to uint8 (h, w, 3) RGB; raises UndecodableFrameError."""
    content = row.tobytes() if isinstance(row, np.ndarray) else bytes(row)
    try:
        # Pillow refuses a JPEG that ends too early, so the zeros after it are harmless.
        pixels = decode_rgb(content, ("JPEG", "PNG"))
    except DeepImageError as error:
        raise DeepFrameError(f"{error}") from None
    except Exception as error:  # a broken header makes Pillow raise almost anything
        raise UndecodableFrameError(
            f"{where} cannot be decoded ({error}). Repair or remove the episode, or "
            "drop such frames with data.undecodable=skip."
        ) from None
    return np.ascontiguousarray(pixels[:, :, ::-1]) if jpeg_order == "bgr" else pixels


def is_rgb(images: Any) -> bool:
    """Whether the raw frames are RGB as they lie in the file."""
    return bool(images.dtype == np.uint8 and images.ndim == 4 and images.shape[3] == 3)


def to_rgb(images: Any, frame: np.ndarray) -> np.ndarray:
    """Return one raw frame of these images as uint8 (h, w, 3)."""
    if _is_channels_first(tuple(images.shape)):
        frame = frame.transpose(1, 2, 0)
    if frame.ndim == 2:
        frame = frame[..., None]
    if frame.shape[2] == 1:
        frame = frame.repeat(3, axis=2)
    return np.ascontiguousarray(frame[..., :3])
