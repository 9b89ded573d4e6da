"""Frames of a compact cache: JPEGs in a file with holes.

Each frame has as many bytes as a raw one, and HEADER before them, which hold the length of what
follows: a JPEG (quality 95, colours at full resolution), or the raw frame where a JPEG is larger.
The rest is never written, and a file system keeps no blocks for it.
"""

import numpy as np

from act_policy.images.jpeg import decode_jpeg, encode_jpeg

HEADER = 4
"""Bytes of the length."""
COMPACT_SHARE = 3
"""Times as large is a raw cache at least, but for images of less than about 100x100 pixels."""


def encode(frame: np.ndarray) -> bytes:
    """Encode a frame uint8 (h, w, 3) with its length in front."""
    content = encode_jpeg(frame)
    if len(content) >= frame.nbytes:
        content = frame.tobytes()
    return len(content).to_bytes(HEADER, "little") + content


def decode(place: memoryview, height: int, width: int) -> np.ndarray:
    """Decode what `encode` wrote at the beginning of a place: uint8 (h, w, 3)."""
    length = int.from_bytes(place[:HEADER], "little")
    content = place[HEADER : HEADER + length]
    if length == height * width * 3:
        return np.frombuffer(content, np.uint8).reshape(height, width, 3)
    return decode_jpeg(bytes(content), [(height, width)])
