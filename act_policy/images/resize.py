"""Crop and scale images the same way in training and on the robot: by Pillow, BILINEAR.

Pillow antialiases: each pixel of the result is a weighted mean of the pixels below a triangle
around its centre, which is as wide as two pixels of the coarser image.
"""

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Camera, Observation, Schema

Crop = tuple[int, int, int, int]
"""top, left, height and width in pixels."""


def camera_image(image: np.ndarray, camera: Camera) -> np.ndarray:
    """Make the policy's image from a camera's original frame.

    Args:
        image: uint8 (h, w, 3), of the camera's source size, or already of the policy's size.
        camera: its size, and the crop and source size of its images in training.

    Returns:
        uint8 (camera.height, camera.width, 3).

    Raises:
        UserError: the image has neither size.
    """
    if image.shape == (camera.height, camera.width, 3) and image.dtype == np.uint8:
        return image
    source = camera.source_size
    if source is None or image.shape != (*source, 3) or image.dtype != np.uint8:
        expected = f"uint8 {(camera.height, camera.width, 3)}"
        expected += f", or {(*source, 3)} as the camera takes it" if source else ""
        raise UserError(
            f"camera {camera.name}: {image.dtype} {image.shape}, expected {expected}; set the "
            "camera to that size, or train on images made from this one (data.select.resize)"
        )
    return crop_and_resize(image, camera.crop, camera.height, camera.width)


def fit_images(observation: Observation[np.ndarray], schema: Schema) -> Observation[np.ndarray]:
    """Make the policy's images of a single observation from original frames, as in training.

    Whatever else it holds is left for `Schema.check` to judge.

    Raises:
        UserError: an image has neither the policy's size nor that of the original frames.
    """
    made = {camera.name: camera for camera in schema.cameras if camera.source_size is not None}
    if np.ndim(observation.state) != 1 or not made:
        return observation  # its images may not be drawn yet, and need not be
    frames = {name: observation.images[name] for name in observation.images}
    images = {
        name: camera_image(np.asarray(frame), made[name]) if name in made else frame
        for name, frame in frames.items()
    }
    return observation._replace(images=images)


def crop_and_resize(image: np.ndarray, crop: Crop | None, height: int, width: int) -> np.ndarray:
    """Crop an image and scale it to (height, width).

    Args:
        image: uint8 (h, w, 3).
        crop: a rectangle inside the image; None is the whole image.
        height: of the result in pixels.
        width: of the result in pixels.

    Returns:
        uint8 (height, width, 3), contiguous; the image itself where it needs no change.

    Raises:
        UserError: the image has another type or shape, or the rectangle is not inside it.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise UserError(f"image: {image.dtype} {image.shape}, expected uint8 (h, w, 3)")
    if crop is not None:
        check_crop(crop, image.shape[0], image.shape[1])
        top, left, rows, columns = crop
        image = image[top : top + rows, left : left + columns]
    if image.shape[:2] != (height, width):
        try:
            from PIL import Image  # here, since most robots' cameras have the policy's size
        except ImportError:
            raise UserError(
                "scaling images needs pillow; run `pip install '.[robot]'` in a checkout"
            ) from None
        scaled = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
        image = np.asarray(scaled)
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
