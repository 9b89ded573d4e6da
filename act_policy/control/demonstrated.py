"""What the demonstrations looked like, as a policy carries it: ranges of joints and of images."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from act_policy.errors import UserError
from act_policy.types import ImageLevels, Schema


class Demonstrated(NamedTuple):
    """Smallest and largest values over every demonstrated step; NaN where a policy does not say.

    state_low, state_high: (s,). action_low, action_high: (a,).
    images: camera -> levels; empty where the policy does not say them.
    """

    state_low: np.ndarray
    state_high: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    images: Mapping[str, ImageLevels]


def demonstrated(schema: Schema, metadata: Mapping[str, Any]) -> Demonstrated:
    """Read the entry `statistics` (JSON, or what it holds) of a policy's metadata.

    Raises:
        UserError: the entry does not fit the schema.
    """
    plain = metadata.get("statistics") or {}
    if isinstance(plain, str):
        plain = json.loads(plain)

    def bound(field: str, name: str, size: int) -> np.ndarray:
        values = (plain.get(field) or {}).get(name)
        # what JSON has no number for is null, and null is NaN here
        array = np.full(size, np.nan) if values is None else np.array(values, np.float64)
        if array.shape != (size,):
            raise UserError(
                f"the policy's statistics of {field} have {array.shape} values of {name}, "
                f"its schema {size}; export it again"
            )
        return array

    images = {
        name: ImageLevels(tuple(levels["mean"]), tuple(levels["deviation"]))
        for name, levels in (plain.get("image_levels") or {}).items()
    }
    return Demonstrated(
        bound("state", "min", schema.state_size),
        bound("state", "max", schema.state_size),
        bound("action", "min", schema.action_size),
        bound("action", "max", schema.action_size),
        images,
    )
