"""Moments that are shown more often in training: a gripper opens or closes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from act_policy.action_kinds import declared_kind
from act_policy.data.dataset import DemonstrationDataset
from act_policy.errors import UserError, check_fields

SECONDS = 0.5
"""How far before and after a step a gripper's movement still makes it such a moment."""
SHARE = 0.25
"""Share of its range by which a gripper moves in such a moment: noise and creep are less."""


@dataclass(frozen=True)
class Emphasis:
    """How often samples of a gripper's opening or closing are shown.

    weight: how often for each time that another sample is shown; 1 treats all alike.
    actions: action dimensions of the grippers by name; None: those that are named so.
    """

    weight: float = 1.0
    actions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.weight, bool) or not self.weight > 0:
            raise UserError(f"data.emphasis.weight={self.weight}: expected a number above 0")

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> "Emphasis":
        """Read the settings as plain values."""
        check_fields("data.emphasis", config or {}, cls)
        return cls(**(config or {}))


def find_moments(
    dataset: DemonstrationDataset, actions: Sequence[str] | None, episodes: Sequence[int]
) -> np.ndarray:
    """Return bool (steps,), true where a gripper moves, over all steps of all episodes.

    Args:
        dataset: the demonstrations.
        actions: as in `Emphasis`.
        episodes: in which there must be such moments, and which give the grippers' ranges.

    Raises:
        UserError: no action is a gripper's, or none moves in these episodes.
    """
    schema = dataset.schema
    names = actions
    if names is None:
        names = [name for name, unit in schema.actions if declared_kind(name, unit) == "switch"]
    missing = sorted(set(names) - set(schema.action_names))
    if missing or not names:
        found = f"there is no {', '.join(missing)}" if missing else "no action is named gripper"
        raise UserError(
            f"data.emphasis: {found} (actions {', '.join(schema.action_names)}); name the grippers "
            "with data.emphasis.actions=[...]"
        )
    places = [schema.action_names.index(name) for name in names]
    every = [dataset.action(episode)[:, places] for episode in range(len(dataset.episodes))]
    ranges = np.ptp(np.concatenate([every[episode] for episode in episodes]), axis=0)
    reach = max(1, round(SECONDS * schema.rate))
    moments = [_moves(values, ranges, reach) for values in every]
    if not any(moments[episode].any() for episode in episodes):
        raise UserError(
            f"data.emphasis: {', '.join(names)} never opens or closes in the training episodes; "
            "leave data.emphasis.weight at 1"
        )
    return np.concatenate(moments)


def _moves(values: np.ndarray, ranges: np.ndarray, reach: int) -> np.ndarray:
    """Return bool (T,): some column of (T, g) moves enough within `reach` steps of each."""
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=0)
    moves = (np.ptp(around, axis=-1) >= SHARE * ranges) & (ranges > 0)
    return np.asarray(moves.any(axis=1))
