"""The ranges of joints, actions and image levels in the demonstrations of a policy."""

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from act_policy.action_kinds import ShownKind
from act_policy.errors import UserError
from act_policy.statistics import FieldStatistics, ImageLevels, Statistics
from act_policy.types import Schema


class DemonstratedRanges(NamedTuple):
    """Smallest and largest values over every demonstrated step; NaN where they are not known.

    state_low, state_high: (s,). action_low, action_high: (a,).
    images: camera -> levels; empty where they are not known.
    relative_actions: dimensions whose statistics are of differences from the state; their range is
        that of the state of the same name.
    action_kinds: what the demonstrations show of each action, "" where they do not tell; (a,).
    """

    state_low: np.ndarray
    state_high: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    images: Mapping[str, ImageLevels]
    relative_actions: tuple[str, ...] = ()
    action_kinds: tuple[ShownKind, ...] = ()

    @classmethod
    def from_statistics(cls, schema: Schema, statistics: Statistics | None) -> "DemonstratedRanges":
        """Read the ranges from a policy's statistics; without any, nothing is known.

        Raises:
            UserError: the statistics do not fit the schema.
        """
        unknown_kinds = cast(tuple[ShownKind, ...], ("",) * schema.action_size)
        if statistics is None:
            unknown_state = np.full(schema.state_size, np.nan)
            unknown_action = np.full(schema.action_size, np.nan)
            return cls(
                *(unknown_state, unknown_state, unknown_action, unknown_action),
                images={},
                action_kinds=unknown_kinds,
            )
        state = _read_bounds("state", statistics.state, schema.state_size)
        action = _read_bounds("action", statistics.action, schema.action_size)
        for name in statistics.relative_actions:
            if name not in schema.action_names or name not in schema.state_names:
                raise UserError(
                    f"the policy's statistics say that action {name} is relative to the state, but "
                    "its schema does not have it in both; export it again"
                )
            i, j = schema.action_names.index(name), schema.state_names.index(name)
            for action_bound, state_bound in zip(action, state, strict=True):
                action_bound[i] = state_bound[j]
        action_kinds = cast(tuple[ShownKind, ...], statistics.action_kinds) or unknown_kinds
        if len(action_kinds) != schema.action_size:
            raise UserError(
                f"the policy's statistics give the kinds of {len(action_kinds)} actions, its "
                f"schema has {schema.action_size}; export it again"
            )
        return cls(
            *(*state, *action),
            images=statistics.image_levels or {},
            relative_actions=statistics.relative_actions,
            action_kinds=action_kinds,
        )

    def including(self, other: "DemonstratedRanges") -> "DemonstratedRanges":
        """Return what either of two policies' demonstrations showed, for the same schema.

        Raises:
            UserError: they show different kinds of an action: a number means two things.
        """
        kinds = []
        for here, there in zip(self.action_kinds, other.action_kinds, strict=True):
            if here and there and here != there:
                raise UserError(
                    f"the demonstrations of one policy show a {here} where those of another show a "
                    f"{there}; they cannot move the same arm"
                )
            kinds.append(here or there)
        shared = [name for name in self.images if name in other.images]
        either = {**self.images, **other.images}
        both = {name: _widest(self.images[name], other.images[name]) for name in shared}
        return DemonstratedRanges(
            np.fmin(self.state_low, other.state_low),
            np.fmax(self.state_high, other.state_high),
            np.fmin(self.action_low, other.action_low),
            np.fmax(self.action_high, other.action_high),
            {**either, **both},
            tuple(dict.fromkeys((*self.relative_actions, *other.relative_actions))),
            tuple(kinds),
        )


def _widest(a: ImageLevels, b: ImageLevels) -> ImageLevels:
    """The range of each level in either."""
    return ImageLevels(
        *(
            (float(np.fmin(x[0], y[0])), float(np.fmax(x[1], y[1])))
            for x, y in zip(a, b, strict=True)
        )
    )


def _read_bounds(name: str, measured: FieldStatistics, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Copies of min and max, each (size,); NaN replaces infinity, which means unknown too."""
    low, high = (np.array(bound, np.float64) for bound in (measured.min, measured.max))
    for bound in (low, high):
        if bound.shape != (size,):
            raise UserError(
                f"the policy's statistics of {name} have {bound.shape} values, "
                f"its schema {size}; export it again"
            )
        bound[np.isinf(bound)] = np.nan
    return low, high
