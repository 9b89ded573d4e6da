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
    relative_actions: of which the policy's statistics measure differences from the state; the
        range of the state of the same name stands in for that of the action.
    """

    state_low: np.ndarray
    state_high: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    images: Mapping[str, ImageLevels]
    relative_actions: tuple[str, ...] = ()


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
        # what JSON has no number for is null, and null is NaN here; infinite is not known either
        array = np.full(size, np.nan) if values is None else np.array(values, np.float64)
        array[np.isinf(array)] = np.nan
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
    state = [bound("state", name, schema.state_size) for name in ("min", "max")]
    action = [bound("action", name, schema.action_size) for name in ("min", "max")]
    relative = tuple(plain.get("relative_actions") or ())
    for name in relative:
        if name not in schema.action_names or name not in schema.state_names:
            raise UserError(
                f"the policy's statistics say that action {name} is relative to the state, but its "
                "schema has it not in both; export it again"
            )
        i, j = schema.action_names.index(name), schema.state_names.index(name)
        for values, measured in zip(action, state, strict=True):
            values[i] = measured[j]
    (state_low, state_high), (action_low, action_high) = state, action
    return Demonstrated(state_low, state_high, action_low, action_high, images, relative)
