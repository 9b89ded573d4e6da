"""Tables, images, videos and words for pages; templates/pieces.html.j2 lays them out."""

import base64
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_NUMBER = re.compile(r"[-+]?(\d[\d.,]*(e[-+]?\d+)?|nan|inf)( ?[%°\w/²]{1,6})?|-|")


class Table(NamedTuple):
    """Cells as text; numeric: whether each column holds only numbers and is aligned right."""

    head: Sequence[str]
    rows: list[list[str]]
    numeric: list[bool]


class Image(NamedTuple):
    """An encoded image; width and height in pixels are those at which it is shown."""

    uri: str
    alt: str
    width: int
    height: int


class Video(NamedTuple):
    """An encoded video, its width on the page in pixels and the line under it."""

    uri: str
    width: int
    caption: str


def tabulate(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Make a table of texts and numbers; a float is written with four significant digits."""
    cells = [[_format_cell(value) for value in values] for values in rows]
    for values in cells:
        if len(values) != len(head):
            raise ValueError(f"a row of {len(values)} cells under {len(head)} headings: {values}")
    columns = range(len(head))
    numeric = [bool(cells) and all(_NUMBER.fullmatch(r[i]) for r in cells) for i in columns]
    return Table(head, cells, numeric)


def encode_image(pixels: np.ndarray, alt: str, scale: int | float = 1) -> Image:
    """Encode an image (h, w, 3) or (h, w) uint8, shown `scale` times as large."""
    from PIL import Image as PillowImage  # the status page does without pillow

    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise ValueError(f"an image of {pixels.dtype} {pixels.shape}; expected uint8 (h, w, 3)")
    file = io.BytesIO()
    PillowImage.fromarray(np.ascontiguousarray(pixels)).save(file, format="webp", quality=90)
    height, width = (round(size * scale) for size in pixels.shape[:2])
    return Image(_encode_uri("image/webp", file.getvalue()), alt, width, height)


def spread(length: int, count: int) -> list[int]:
    """Choose at most `count` of the numbers below `length`, the first and the last among them."""
    chosen: list[int] = np.linspace(0, length - 1, min(count, length)).round().astype(int).tolist()
    return chosen


def encode_strip(
    frames: Iterable[np.ndarray], labels: Iterable[str], scale: int | float = 1
) -> list[Image]:
    """Encode frames uint8 (h, w, 3) of a film strip, each with its label."""
    return [encode_image(one, label, scale) for one, label in zip(frames, labels, strict=True)]


def encode_video(path: Path, width: int, caption: str) -> Video:
    """Read an mp4 file to be played on a page."""
    return Video(_encode_uri("video/mp4", path.read_bytes()), width, caption)


def format_count(number: int, noun: str) -> str:
    """Write "1 episode" or "2 episodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _format_cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _encode_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
