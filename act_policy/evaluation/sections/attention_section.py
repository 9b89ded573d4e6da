"""Shares of attention and their heat maps, as values for the report's template."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy, prefix_length
from act_policy.evaluation.sections.heat_map import (
    AttentionShares,
    enlarged,
    overlay,
    write_attention_image,
)
from act_policy.report.pieces import Image, Table, encode_image, tabulate
from act_policy.types import Observation

TILE = 104
"""Height of an image in pixels."""

MOMENTS = 4
"""Most moments of an episode that are shown."""


class HeadMaps(NamedTuple):
    """The shares of each head, and per camera the captioned images that show where they lie."""

    summary: str
    table: Table
    cameras: list[list[tuple[Image, str]]]


class Attention(NamedTuple):
    """Shares of what the first, middle and last action query read; maps of each head.

    committed: number of actions that are committed; the first query is that of the next one.
    """

    chunk_length: int
    committed: int
    table: Table
    maps: list[HeadMaps]


def commit_actions(
    observation: Observation[np.ndarray], actions: np.ndarray, policy: ChunkPolicy
) -> Observation[np.ndarray]:
    """Tell a policy that knows of them which actions (T, a) followed an observation."""
    if not (length := prefix_length(policy)):
        return observation
    prefix = np.full((length, policy.schema.action_size), np.nan, np.float32)
    prefix[: len(actions)] = actions[:length]
    return observation._replace(prefix=prefix)


def show_attention(
    out: Path, moments: Mapping[str, Observation[np.ndarray]], policy: ChunkPolicy
) -> Attention | None:
    """Lay out shares and heat maps of the first, middle and last query; write attention.png.

    Args:
        out: folder of the image.
        moments: place in words -> what was observed there.
        policy: None is returned for one that hides its attention.
    """
    if not hasattr(policy, "act"):  # an ONNX file; torch may not be installed either
        return None
    from act_policy.evaluation.sections.attention import read_attention

    readings = read_attention(policy, list(moments.values()))  # type: ignore[arg-type]
    length, committed = policy.chunk_length, prefix_length(policy)
    # the queries of committed actions say nothing; a rolled state leaves them out
    shift = committed if committed and policy.config.rolls_state else 0  # type: ignore[attr-defined]
    first = committed - shift
    write_attention_image(out / "attention.png", list(moments.values()), readings, first)
    queries = sorted({first, max(first, length // 2), length - 1 - shift})
    rows, maps = [], []
    for (says, observation), reading in zip(moments.items(), readings, strict=True):
        shares = reading.shares()
        for query in queries:
            means = [f"{share[:, query].mean():.1%}" for share in shares.values()]
            action = query + 1 + shift
            rows.append([says, action, *means])
            maps.append(_show_heads(f"{says}, action {action}", observation, reading, query))
    return Attention(length, committed, tabulate(["", "action", *shares], rows), maps)


def _show_heads(
    summary: str, observation: Observation[np.ndarray], reading: AttentionShares, query: int
) -> HeadMaps:
    """Lay out the mean over the heads, then each head."""

    def mean_and_each(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[:, query].mean(axis=0)[None], values[:, query]])

    shares = reading.shares()
    heads = ["all heads", *(f"head {i + 1}" for i in range(len(shares["latent"])))]
    rows = [
        [name, *(f"{one:.0%}" for one in mean_and_each(share))] for name, share in shares.items()
    ]
    cameras = []
    for camera, maps in reading.maps.items():
        pixels = np.asarray(observation.images[camera])
        tiles = [(encode_image(enlarged(pixels, TILE), f"camera {camera}"), camera)]
        for head, cells in zip(heads, mean_and_each(maps), strict=True):
            tiles.append((encode_image(overlay(pixels, cells, TILE), f"{camera}, {head}"), head))
        cameras.append(tiles)
    return HeadMaps(summary, tabulate(["", *heads], rows), cameras)
