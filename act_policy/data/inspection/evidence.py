"""Everything that findings depend on: the demonstrations, read once, their statistics, settings."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from act_policy.action_kinds import DeclaredKind, ShownKind, contradicts, declared_kind
from act_policy.data.action_relations import (
    ActionRelation,
    find_relations,
    own_states,
    shown_kinds,
)
from act_policy.data.dataset import DemonstrationDataset
from act_policy.errors import UserError, check_choice, check_whole_number


@dataclass(frozen=True)
class InspectionConfig:
    """Settings that the findings depend on.

    Args:
        chunk_length: k, actions per prediction of the policy; None leaves the chunk unchecked.
        std_floor: smallest divisor of the normaliser, in physical units.
        undecodable: "stop" or "skip", what training will do with a frame that cannot be decoded.
    """

    chunk_length: int | None = None
    std_floor: float = 1e-2
    undecodable: str = "stop"

    def __post_init__(self) -> None:
        if self.chunk_length is not None:
            check_whole_number("chunk_length", self.chunk_length, 1)
        if not self.std_floor > 0:
            raise UserError(f"std_floor must be positive, found {self.std_floor}")
        check_choice("undecodable", self.undecodable, ("stop", "skip"))


class Pair(NamedTuple):
    """Places of a joint's state and action dimension, the joint's name and their unit."""

    state: int
    action: int
    name: str
    unit: str


class DimensionReport(NamedTuple):
    """One dimension of state or action over the finite values of all episodes."""

    field: str
    name: str
    unit: str
    mean: float
    std: float
    min: float
    max: float
    remark: str


class ActionReport(NamedTuple):
    """What one dimension of the action is.

    kind: in words, by name, unit and numbers.
    state: the dimension that follows it, "" where none does.
    scale: units of the action per unit of the state, or of its change in one step.
    lag: steps after which the state follows.
    explained: share of the variance of the state, or of its change, that the action explains.
    """

    action: str
    unit: str
    kind: str
    state: str
    scale: float | None
    lag: int | None
    explained: str


class Evidence:
    """Demonstrations as the findings need them, read once.

    Args:
        dataset: the demonstrations.
        config: settings that the findings depend on.
    """

    def __init__(self, dataset: DemonstrationDataset, config: InspectionConfig) -> None:
        self.dataset = dataset
        self.config = config
        self.rate = dataset.schema.rate
        episodes = range(len(dataset.episodes))
        self.states = [_filled(dataset.state(e)) for e in episodes]
        """float64 (T, s) per episode; a value that is not finite repeats the one before it."""
        self.actions = [_filled(dataset.action(e)) for e in episodes]
        """float64 (T, a) per episode, filled likewise."""
        self.pairs = _pairs(dataset)
        self.own = own_states(dataset.schema)
        """For each action the state dimension of the same joint, -1 where there is none."""

    @cached_property
    def relations(self) -> list[ActionRelation]:
        """How the state follows each dimension of the action."""
        return find_relations(self.states, self.actions, self.rate, self.own)

    @cached_property
    def shown(self) -> tuple[ShownKind, ...]:
        """What the numbers show of each dimension of the action."""
        return shown_kinds(self.dataset.schema, self.relations)

    @cached_property
    def timestamps(self) -> list[np.ndarray | None]:
        """float64 (T,) seconds at which each step was recorded, None where the file has none."""
        return [self.dataset.timestamps(e) for e in range(len(self.dataset.episodes))]

    @cached_property
    def dimensions(self) -> list[DimensionReport]:
        """Those of the state, then those of the action."""
        return report_dimensions(self.dataset, self.config.std_floor)

    @cached_property
    def action_reports(self) -> list[ActionReport]:
        """What each dimension of the action is."""
        schema = self.dataset.schema
        return [
            ActionReport(
                name,
                unit or "unknown",
                describe_kind(declared_kind(name, unit), shown),
                *(
                    (schema.state_names[r.state], r.scale, r.lag, f"{r.confidence:.0%}")
                    if r.state >= 0
                    else ("", None, None, "")
                ),
            )
            for (name, unit), shown, r in zip(
                schema.actions, self.shown, self.relations, strict=True
            )
        ]


def report_dimensions(
    dataset: DemonstrationDataset, std_floor: float = 1e-2
) -> list[DimensionReport]:
    """Statistics of each dimension; the remark says what is unusual: constant, not finite, ..."""
    reports = []
    for field, read, dimensions in (
        ("state", dataset.state, dataset.schema.states),
        ("action", dataset.action, dataset.schema.actions),
    ):
        values = np.concatenate([read(e) for e in range(len(dataset.episodes))]).astype(np.float64)
        for column, (name, unit) in zip(values.T, dimensions, strict=True):
            finite = column[np.isfinite(column)]
            mean = std = low = high = np.nan
            if len(finite):
                mean, std, low, high = finite.mean(), finite.std(), finite.min(), finite.max()
            remarks = []
            if broken := len(column) - len(finite):
                remarks.append(f"{broken} values are not finite")
            if low == high:
                remarks.append("constant")
            elif std < std_floor:
                remarks.append(f"nearly constant: std below the floor {std_floor:g}")
            reports.append(
                DimensionReport(field, name, unit, mean, std, low, high, "; ".join(remarks))
            )
    return reports


def describe_kind(declared: DeclaredKind, shown: ShownKind) -> str:
    """Say what a dimension is by its file and its numbers."""
    words = {"target": "position or velocity", "motion": "displacement or velocity"}
    seen = words.get(shown, shown)
    if contradicts(declared, shown):
        return f"{declared}? moves as {seen}"
    return declared or seen or "unknown"


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
        for place, (name, unit) in enumerate(schema.states)
    }
    return [
        Pair(states[key], place, name, unit)
        for place, (name, unit) in enumerate(schema.actions)
        if (key := (name.removeprefix("action_"), unit)) in states
    ]
