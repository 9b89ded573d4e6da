"""What action queries read, as a section of a page."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from act_policy.evaluation.sections.heat_map import AttentionShares, enlarged, overlay
from act_policy.report.page import details, figure, image, paragraph, row, section, table
from act_policy.types import Observation

TILE = 104
"""Height of an image in pixels."""


class Moment(NamedTuple):
    """One observation, its place in words, and what the queries read of it."""

    says: str
    observation: Observation[np.ndarray]
    reading: AttentionShares


def attention_section(moments: Sequence[Moment]) -> Markup:
    """Shares of what the first, middle and last action query read; heat maps for each head."""
    chunk_length = next(iter(moments[0].reading.vectors.values())).shape[1]
    queries = sorted({0, chunk_length // 2, chunk_length - 1})
    shares = list(moments[0].reading.shares())
    rows = [
        [moment.says, query + 1, *(f"{share[:, query].mean():.1%}" for share in found.values())]
        for moment in moments
        for found in [moment.reading.shares()]
        for query in queries
    ]
    return section(
        "Attention",
        paragraph(
            "What the queries of the last decoder block read, as shares of the whole; an action "
            f"is numbered from 1 to {chunk_length}, its place in the chunk. On the images each "
            "head's brightest place is the one that it reads most; the less it reads of a camera "
            "in all, the fainter the colours."
        ),
        table(["", "action", *shares], rows),
        *(
            details(f"{moment.says}, action {query + 1}", _maps(moment, query), unfolded=first)
            for index, moment in enumerate(moments)
            for query in queries
            for first in [index == 0 and query == 0]
        ),
    )


def _maps(moment: Moment, query: int) -> Markup:
    """The shares of all heads and of each; then where in each camera's image they lie."""

    def of_heads(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[:, query].mean(axis=0)[None], values[:, query]])

    shares = moment.reading.shares()
    heads = ["all heads", *(f"head {i + 1}" for i in range(len(shares["state"])))]
    said = [[read, *(f"{one:.0%}" for one in of_heads(share))] for read, share in shares.items()]
    rows = [table(["", *heads], said)]
    for camera, maps in moment.reading.maps.items():
        seen = np.asarray(moment.observation.images[camera])
        tiles = [figure(image(enlarged(seen, TILE), f"camera {camera}"), camera)]
        for head, places in zip(heads, of_heads(maps), strict=True):
            tiles.append(figure(image(overlay(seen, places, TILE), f"{camera}, {head}"), head))
        rows.append(row(*tiles))
    return Markup("\n").join(rows)
