"""Shares of attention and their heat maps, as values for the report's template."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from act_policy.evaluation.sections.heat_map import AttentionShares, enlarged, overlay
from act_policy.report.pieces import Image, Table, encode_image, tabulate
from act_policy.types import Observation

TILE = 104
"""Height of an image in pixels."""


class Moment(NamedTuple):
    """One observation, its place in words, and what the queries read of it."""

    says: str
    observation: Observation[np.ndarray]
    reading: AttentionShares


class HeadMaps(NamedTuple):
    """The shares of each head, and per camera the captioned images that show where they lie."""

    summary: str
    table: Table
    cameras: list[list[tuple[Image, str]]]


class Attention(NamedTuple):
    """Shares of what the first, middle and last action query read; maps of each head."""

    chunk_length: int
    table: Table
    maps: list[HeadMaps]


def show_attention(moments: Sequence[Moment]) -> Attention:
    """Lay out shares and heat maps of the first, middle and last action query."""
    chunk_length = next(iter(moments[0].reading.vectors.values())).shape[1]
    queries = sorted({0, chunk_length // 2, chunk_length - 1})
    rows = []
    for moment in moments:
        shares = moment.reading.shares().values()
        rows += [
            [moment.says, query + 1, *(f"{share[:, query].mean():.1%}" for share in shares)]
            for query in queries
        ]
    return Attention(
        chunk_length,
        tabulate(["", "action", *moments[0].reading.shares()], rows),
        [_show_heads(moment, query) for moment in moments for query in queries],
    )


def _show_heads(moment: Moment, query: int) -> HeadMaps:
    """Lay out the mean over the heads, then each head."""

    def mean_and_each(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[:, query].mean(axis=0)[None], values[:, query]])

    shares = moment.reading.shares()
    heads = ["all heads", *(f"head {i + 1}" for i in range(len(shares["state"])))]
    rows = [
        [name, *(f"{one:.0%}" for one in mean_and_each(share))] for name, share in shares.items()
    ]
    cameras = []
    for camera, maps in moment.reading.maps.items():
        pixels = np.asarray(moment.observation.images[camera])
        tiles = [(encode_image(enlarged(pixels, TILE), f"camera {camera}"), camera)]
        for head, cells in zip(heads, mean_and_each(maps), strict=True):
            tiles.append((encode_image(overlay(pixels, cells, TILE), f"{camera}, {head}"), head))
        cameras.append(tiles)
    summary = f"{moment.says}, action {query + 1}"
    return HeadMaps(summary, tabulate(["", *heads], rows), cameras)
