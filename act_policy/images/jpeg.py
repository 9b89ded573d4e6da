"""Images as JPEG: a fraction of the bytes for a network, at an error (docs/robot.md)."""

import io
from collections.abc import Collection

import numpy as np

from act_policy.errors import UserError

JPEG_START = b"\xff\xd8\xff"
QUALITY = 95


def encode_jpeg(image: np.ndarray) -> bytes:
    """Encode an image uint8 (h, w, 3) at QUALITY, with colours at full resolution."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()


def decode_jpeg(content: bytes, sizes: Collection[tuple[int, int]]) -> np.ndarray:
    """Decode an image that has one of the sizes (height, width): uint8 (h, w, 3).

    Nothing is decoded before format and size are known: the bytes may be hostile.

    Raises:
        UserError: it is not a JPEG in colour of such a size.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as opened:
            width, height = opened.size
            if (height, width) not in sizes or opened.mode != "RGB":
                expected = " or ".join(f"{h}x{w}" for h, w in sizes)
                raise UserError(
                    f"a JPEG of {height}x{width} in mode {opened.mode}, expected RGB of {expected}"
                )
            return np.asarray(opened)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise UserError(f"{len(content)} bytes that are not a JPEG image") from None
