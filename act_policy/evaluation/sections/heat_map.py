"""Attention over a camera's image, as colours on it, and as one image for a README."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from act_policy.system.atomic import atomic_file
from act_policy.types import Observation

HEIGHT, GAP = 168, 6
"""Height of each image of attention.png, and what lies between two, in pixels."""

_STOPS = np.linspace(0, 1, 5)
_COLOURS = np.array([(0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164)])
"""From dark to bright in even steps of lightness (the anchors of matplotlib's inferno)."""


class AttentionShares(NamedTuple):
    """Shares of attention of one observation's queries; over all of them they sum to 1.

    vectors: "latent", "state" (and "environment state", "task", "committed actions") -> (heads, k).
    maps: camera name -> (heads, k, y, x), one share a cell of its feature map.
    """

    vectors: dict[str, np.ndarray]
    maps: dict[str, np.ndarray]

    def shares(self) -> dict[str, np.ndarray]:
        """Name of what is read -> (heads, k); each camera as a whole."""
        cameras = {f"camera {name}": m.sum(axis=(-2, -1)) for name, m in self.maps.items()}
        return self.vectors | cameras


def overlay(
    image: UInt8[np.ndarray, "h w 3"], shares: Float[np.ndarray, "y x"], height: int
) -> UInt8[np.ndarray, "_ _ 3"]:
    """Lay shares of attention over a grey image, brightest where the largest share lies.

    The smaller the sum of the shares, the fainter the colours: nothing is seen of an image that
    is hardly read.

    Args:
        image: what the camera saw.
        shares: one per cell of its feature map; the largest sets the scale.
        height: of the result in pixels, the image's aspect is kept.
    """
    grey = enlarged(image, height).mean(axis=-1, keepdims=True)
    size = (grey.shape[1], grey.shape[0])
    relative = (shares / max(float(shares.max()), 1e-12)).astype(np.float32)
    smooth = Image.fromarray(relative).resize(size, Image.Resampling.BICUBIC)
    heat = np.asarray(smooth).clip(0, 1)[..., None]
    colours = np.concatenate([np.interp(heat, _STOPS, _COLOURS[:, c]) for c in range(3)], axis=-1)
    strength = (0.15 + 0.65 * np.sqrt(heat)) * min(1.0, float(shares.sum())) ** 0.5
    mixed: np.ndarray = (1 - strength) * 0.8 * grey + strength * colours
    return mixed.clip(0, 255).astype(np.uint8)


def enlarged(image: UInt8[np.ndarray, "h w 3"], height: int) -> UInt8[np.ndarray, "_ _ 3"]:
    """Scale an image to a height in pixels."""
    size = (round(image.shape[1] * height / image.shape[0]), height)
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))


def write_attention_image(
    path: Path,
    observations: Sequence[Observation[np.ndarray]],
    readings: Sequence[AttentionShares],
    query: int = 0,
) -> None:
    """Write a PNG: a column for each moment, what a query reads below what is seen.

    That is the mean over the heads; every camera has its two rows.
    """
    columns = []
    for observation, reading in zip(observations, readings, strict=True):
        tiles = []
        for camera, shares in reading.maps.items():
            image = np.asarray(observation.images[camera])
            tiles += [
                enlarged(image, HEIGHT),
                overlay(image, shares[:, query].mean(axis=0), HEIGHT),
            ]
        columns.append(_spaced(tiles, axis=0))
    with atomic_file(path) as file:
        Image.fromarray(_spaced(columns, axis=1)).save(file, format="png", optimize=True)


def _spaced(tiles: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Put images side by side (axis 1) or below each other (axis 0), a white gap between them."""
    other = 1 - axis
    length = max(tile.shape[other] for tile in tiles)
    parts: list[np.ndarray] = []
    for index, tile in enumerate(tiles):
        missing = [(0, 0), (0, 0), (0, 0)]
        missing[other] = (0, length - tile.shape[other])
        missing[axis] = (GAP if index else 0, 0)
        parts.append(np.pad(tile, missing, constant_values=255))
    return np.concatenate(parts, axis=axis)
