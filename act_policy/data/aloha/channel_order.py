"""Detect JPEGs in HDF5 files whose red and blue seem to be exchanged."""

import numpy as np

_LEAST = 0.05
"""Share of clearly coloured pixels below which an image is not evidence."""
_RATIO = 3.0


def doubt_channel_order(images: list[np.ndarray], jpeg_order: str, is_act_plus_plus: bool) -> str:
    """Say why the chosen channel order may be wrong; "" if nothing indicates that.

    Rooms, wood, cardboard and hands are orange far more often than azure, and exchanging red and
    blue turns one into the other. Many azure pixels and few orange ones are therefore a reason to
    look, not a proof.

    Args:
        images: a sample of the dataset, uint8 (h, w, 3), as read now.
        jpeg_order: the order they are read with, "bgr" or "rgb".
        is_act_plus_plus: the files have the marks of act-plus-plus's compression.
    """
    other = "rgb" if jpeg_order == "bgr" else "bgr"
    if is_act_plus_plus and jpeg_order == "rgb":
        return (
            "the files were compressed by act-plus-plus (they have its attribute `compress` or "
            "/compress_len), which stores red and blue exchanged: jpeg_order=rgb shows them so. "
            "Expected jpeg_order=bgr"
        )
    warm, cool = np.mean([_shares(image) for image in images], axis=0) if images else (0.0, 0.0)
    if cool < _LEAST or cool < _RATIO * warm:
        return ""
    return (
        f"with jpeg_order={jpeg_order} {cool:.0%} of the pixels are blue and {warm:.0%} orange: "
        "red and blue may be exchanged. Look at an image (inspect_dataset.py shows some); if "
        f"its colours are wrong, set jpeg_order={other} (data.jpeg_order= in training)"
    )


def _shares(image: np.ndarray) -> tuple[float, float]:
    """Return the shares of pixels that are clearly orange to red, and clearly azure to blue."""
    red, green, blue = np.moveaxis(image.astype(np.int64), -1, 0)
    high, low = np.maximum(red, blue), np.minimum(red, blue)
    clear = (high - low) * 4 > np.maximum(high, 1)  # a quarter of the brightness or more
    not_green = green <= high
    warm, cool = clear & not_green & (red > blue), clear & not_green & (blue > red)
    return float(warm.mean()), float(cool.mean())
