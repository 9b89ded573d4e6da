"""Whose turn it is, until every pair of policies is decided."""

from itertools import combinations, count
from typing import NamedTuple

import numpy as np

from act_policy.judging.several import Pair, corrected, judge_all
from act_policy.judging.verdict import Judgement, pairs_to_verdict


class Turn(NamedTuple):
    """One episode to run: policy and initial state, both by index."""

    policy: int
    state: int


class Schedule:
    """Gives the policies the same initial states in turn, and judges every pair of them.

    A pair is judged on the initial states in their order, up to the first that one of the two has
    not finished. Episodes that happened to end early are more often successes, so to judge
    whatever is finished would be biased, and would depend on the number of workers.

    of_each: confidence of each pair's verdict.

    Args:
        policies: number of policies, two or more.
        states: most initial states.
        margin: as for `judge`.
        confidence: of all verdicts together.
    """

    def __init__(self, policies: int, states: int, margin: float, confidence: float):
        self._states = states
        self._margin = margin
        self._confidence = confidence
        self.of_each = corrected(confidence, policies)
        self._given: list[set[int]] = [set() for _ in range(policies)]
        self._finished: list[dict[int, bool]] = [{} for _ in range(policies)]
        self._in_order: list[list[bool]] = [[] for _ in range(policies)]
        self._decided_after: dict[Pair, int | None] = dict.fromkeys(
            combinations(range(policies), 2)
        )

    def next_turn(self) -> Turn | None:
        """Choose the next episode; None when all pairs are decided or all states given out."""
        turns = []
        for policy, given in enumerate(self._given):
            state = next(i for i in count() if i not in given)
            if state < self._states and self._is_needed(policy):
                turns.append((state, policy))
        if not turns:
            return None
        state, policy = min(turns)
        self._given[policy].add(state)
        return Turn(policy, state)

    def record(self, turn: Turn, success: bool) -> None:
        """Take the outcome of an episode, of this program run or an earlier one."""
        policy, state = turn
        self._given[policy].add(state)
        self._finished[policy][state] = success
        in_order = self._in_order[policy]
        while len(in_order) < self._states and len(in_order) in self._finished[policy]:
            in_order.append(self._finished[policy][len(in_order)])
        for pair, decided in self._decided_after.items():
            if policy in pair and decided is None:
                self._decided_after[pair] = pairs_to_verdict(
                    *self.outcomes(pair), self._margin, self.of_each
                )

    @property
    def judged(self) -> dict[Pair, Judgement]:
        """Every pair's judgement on what is finished."""
        return judge_all(
            [np.array(outcomes, bool) for outcomes in self._in_order],
            self._margin,
            self._confidence,
        )

    def outcomes(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Return the successes of both policies, bool (n,), from the states that both finished."""
        a, b = (self._in_order[policy] for policy in pair)
        n = min(len(a), len(b))
        return np.array(a[:n], bool), np.array(b[:n], bool)

    def states_used(self, policy: int) -> int:
        """Number of initial states, from the first, on which this policy's verdicts rest."""
        return max(
            decided or len(self.outcomes(pair)[0])
            for pair, decided in self._decided_after.items()
            if policy in pair
        )

    @property
    def is_decided(self) -> bool:
        """Whether every pair has a verdict."""
        return None not in self._decided_after.values()

    def _is_needed(self, policy: int) -> bool:
        return any(policy in pair and n is None for pair, n in self._decided_after.items())
