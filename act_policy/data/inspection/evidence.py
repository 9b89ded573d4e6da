"""What the findings about demonstrations look at, read once for all of them."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.inspection import InspectionConfig
from act_policy.data.inspection.timestamps import read_timestamps


class Pair(NamedTuple):
    """A state and an action dimension of the same joint, by their places, and its name."""

    state: int
    action: int
    name: str
    unit: str


class Evidence:
    """What the findings look at, read once.

    Args:
        dataset: the demonstrations.
        config: see InspectionConfig.
    """

    def __init__(self, dataset: DemonstrationDataset, config: InspectionConfig) -> None:
        self.dataset = dataset
        self.config = config
        self.rate = dataset.schema.rate
        episodes = range(dataset.episode_count)
        self.states = [_filled(dataset.state(e)) for e in episodes]
        """float64 (T, s) each; a value that is not finite is replaced by the one before it."""
        self.actions = [_filled(dataset.action(e)) for e in episodes]
        """float64 (T, a) each, likewise."""
        self.pairs = _pairs(dataset)

    @cached_property
    def timestamps(self) -> list[np.ndarray | None]:
        """float64 (T,) seconds at which each step was recorded, None where the file has none."""
        return read_timestamps(self.dataset)

    def listed(self, remarks: dict[int, str], most: int = 5) -> str:
        """Name the first few of some episodes, each with its remark, and say how many there are."""
        names = self.dataset.episode_names
        some = "; ".join(
            f"{names[episode]}: {remark}" if remark else names[episode]
            for episode, remark in list(remarks.items())[:most]
        )
        more = f"; and {len(remarks) - most} more" if len(remarks) > most else ""
        return f"{len(remarks)} of {len(names)} episodes ({some}{more})"


def _filled(values: np.ndarray) -> np.ndarray:
    """float64; a value that is not finite repeats the last finite one, or the next, or is 0."""
    filled = values.astype(np.float64)
    for column in filled.T:
        finite = np.flatnonzero(np.isfinite(column))
        if len(finite) == 0:
            column[:] = 0.0
        elif len(finite) < len(column):
            before = np.searchsorted(finite, np.arange(len(column)), side="right") - 1
            column[:] = column[finite[np.maximum(before, 0)]]
    return filled


def _pairs(dataset: DemonstrationDataset) -> list[Pair]:
    """Match dimensions by name and unit.

    Names that the reader made up, state_0 and action_0, match by their numbers.
    """
    schema = dataset.schema
    states = {
        (name.removeprefix("state_"), unit): place
        for place, (name, unit) in _numbered(schema.state_names, schema.state_units)
    }
    return [
        Pair(states[key], place, name, unit)
        for place, (name, unit) in _numbered(schema.action_names, schema.action_units)
        if (key := (name.removeprefix("action_"), unit)) in states
    ]


def _numbered(
    names: tuple[str, ...], units: tuple[str, ...]
) -> Iterator[tuple[int, tuple[str, str]]]:
    return enumerate(zip(names, units, strict=True))
