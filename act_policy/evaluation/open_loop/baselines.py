"""Baselines that a policy must clearly beat: holding still, and the nearest demonstration."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from act_policy.action_kinds import declared_kind
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.loading.batches import chunk_rows
from act_policy.data.statistics import compute_statistics
from act_policy.types import Schema

Held = Literal["zero", "state", "last action"]
"""What holding still repeats."""


class Pool(NamedTuple):
    """Demonstrations among which the nearest is sought; says tells which they are."""

    dataset: DemonstrationDataset
    episodes: Sequence[int]
    says: str


class HoldStill:
    """Repeats the action that does not move the robot over the whole chunk.

    A displacement or a velocity is 0. An action that is a state dimension too, by name and unit,
    is held where it is. Any other is repeated as it was at the step before (at an episode's first
    step there is none: NaN).

    Args:
        schema: of the policy.
        shown: what demonstrations show of each action, `action_kinds.ShownKind`.
    """

    def __init__(self, schema: Schema, shown: Sequence[str]) -> None:
        self.repeats: dict[str, Held] = {}
        """By the action's name."""
        self._columns: dict[int, int] = {}  # action -> state
        for i, (action, kind) in enumerate(zip(schema.actions, shown, strict=True)):
            repeated: Held = "last action"
            if {kind, declared_kind(*action)} & {"displacement", "velocity", "motion"}:
                repeated = "zero"
            elif action in schema.states:
                repeated = "state"
                self._columns[i] = schema.states.index(action)
            self.repeats[action[0]] = repeated
        self._zero = [repeated == "zero" for repeated in self.repeats.values()]

    def predict(
        self, states: np.ndarray, actions: np.ndarray, steps: np.ndarray, chunk_length: int
    ) -> np.ndarray:
        """Return chunks float32 (b, k, a) for some steps (b,) of an episode (T, s) and (T, a)."""
        held = np.concatenate([np.full((1, actions.shape[1]), np.nan), actions])[steps]
        held[:, self._zero] = 0.0
        for action, state in self._columns.items():
            held[:, action] = states[steps, state]
        chunks: np.ndarray = held[:, None].repeat(chunk_length, axis=1)
        return chunks.astype(np.float32)


class NearestDemonstration:
    """Repeats what was done in the demonstrated state nearest to the current one.

    Distances are measured in standard deviations of each state dimension. The episode itself is
    left out where the pool holds it, and images are not looked at: a policy that is no better
    does without its cameras.
    """

    def __init__(self, pool: Pool, chunk_length: int) -> None:
        self._pool = pool
        self._chunk_length = chunk_length
        statistics = compute_statistics(pool.dataset, pool.episodes)
        self._scale = statistics.scale(statistics.state)
        lengths = pool.dataset.lengths[np.asarray(pool.episodes)]
        self._episode = np.repeat(np.asarray(pool.episodes), lengths)
        self._last = np.repeat(np.cumsum(lengths) - 1, lengths)
        self._states = np.concatenate([pool.dataset.state(e) for e in pool.episodes]) / self._scale
        self._actions = np.concatenate([pool.dataset.action(e) for e in pool.episodes])

    def predict(
        self, dataset: DemonstrationDataset, episode: int, states: np.ndarray
    ) -> np.ndarray:
        """Return chunks float32 (b, k, a) for states (b, s) of an episode."""
        nearest = np.empty(len(states), np.int64)
        own = dataset is self._pool.dataset
        others = np.flatnonzero(self._episode != episode) if own else np.arange(len(self._states))
        for i, state in enumerate(states / self._scale):
            distance = ((self._states[others] - state) ** 2).sum(axis=1)
            nearest[i] = others[distance.argmin()]
        rows, _ = chunk_rows(nearest, self._last[nearest], self._chunk_length)
        chunks: np.ndarray = self._actions[rows]
        return chunks
