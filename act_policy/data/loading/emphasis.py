"""Moments that are shown more often in training: grippers move, a person has taken over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from act_policy.action_kinds import declared_kind
from act_policy.data.dataset import OPERATOR, DemonstrationDataset
from act_policy.data.selection.mixed import MixedDataset
from act_policy.errors import UserError, check_fields

SECONDS = 0.5
"""How far before and after a step a gripper's movement still makes it such a moment."""
SHARE = 0.25
"""Share of its range by which a gripper moves in such a moment: noise and creep are less."""


@dataclass(frozen=True)
class Emphasis:
    """How often some samples are shown for each time that another one is; 1 treats all alike.

    weight: of a gripper's opening or closing.
    actions: action dimensions of the grippers by name; None: those that are named so.
    takeovers: weight of the steps in which a person had taken over from a policy.
    """

    weight: float = 1.0
    actions: Sequence[str] | None = None
    takeovers: float = 1.0

    def __post_init__(self) -> None:
        for name in ("weight", "takeovers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise UserError(f"data.emphasis.{name}={value}: expected a number above 0")

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> "Emphasis":
        """Read the settings as plain values."""
        check_fields("data.emphasis", config or {}, cls)
        return cls(**(config or {}))


def weigh_moments(
    dataset: DemonstrationDataset, emphasis: Emphasis, episodes: Sequence[int]
) -> list[tuple[float, np.ndarray]]:
    """Return each weight that is not 1, and bool (steps,), which steps of all episodes have it.

    `episodes` are those that are trained on. Raises UserError as the functions that find them.
    """
    found = []
    if emphasis.weight != 1:
        found.append((emphasis.weight, find_moments(dataset, emphasis.actions, episodes)))
    if emphasis.takeovers != 1:
        found.append((emphasis.takeovers, find_takeovers(dataset, episodes)))
    return found


def find_takeovers(dataset: DemonstrationDataset, episodes: Sequence[int]) -> np.ndarray:
    """Return bool (steps,), true where a person had taken over from the policy of a recorded run.

    Demonstrations are a person's from beginning to end, and no takeover.

    Raises:
        UserError: nobody took over in any of `episodes`.
    """
    parts = dataset.parts if isinstance(dataset, MixedDataset) else [dataset]
    every = [_taken_over(part, e) for part in parts for e in range(len(part.episodes))]
    if not any(every[episode].any() for episode in episodes):
        raise UserError(
            "data.emphasis.takeovers: in no training episode a person takes over from a policy. "
            "It needs recorded runs with both; where data.select.operator=person leaves the "
            "person's steps alone, give their folder a weight in data.mix"
        )
    return np.concatenate(every)


def _taken_over(dataset: DemonstrationDataset, episode: int) -> np.ndarray:
    """Return bool (T,)."""
    person = np.ones(int(dataset.lengths[episode]), bool)
    if OPERATOR in dataset.vector_names:
        person = dataset.vector(episode, OPERATOR)[:, 0] > 0
    return np.zeros_like(person) if person.all() else person


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
