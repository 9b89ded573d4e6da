"""Whose turn it is in a race: a policy that another one beats drops out."""

from itertools import combinations

import numpy as np

from act_policy.judging.schedule import Schedule, Turn
from act_policy.judging.several import Pair
from act_policy.judging.verdict import Judgement, Verdict, judge


class Race(Schedule):
    """Finds the best of several policies; those that are beaten get no more episodes.

    All that are left play each initial state before it counts, so that the result depends neither
    on the number of workers nor on who finishes first. The race ends when one is left, when those
    that are left do not differ beyond the margin, or after the last state.

    The best policy drops out only if one of the other k - 1 is wrongly called better. Each pair is
    therefore judged with confidence 1 - (1 - confidence) / (k - 1), which is less than all
    verdicts together would need (Bonferroni's inequality).

    Args:
        policies, states, margin: as for `Schedule`.
        confidence: that the best policy is among those that are left.
    """

    def __init__(self, policies: int, states: int, margin: float, confidence: float):
        super().__init__(policies, states, margin, confidence)
        self.of_each = 1 - (1 - confidence) / max(1, policies - 1)
        self.left = list(range(policies))
        self._ended = False
        self._counted = [0] * policies  # states of each until it dropped out

    def record(self, turn: Turn, success: bool) -> None:
        """Take the outcome of an episode, of this program run or an earlier one."""
        policy, state = turn
        self._given[policy].add(state)
        self._finished[policy][state] = success
        while not self._ended and all(self._has_next(policy) for policy in self.left):
            self._count_state()

    def outcomes(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Return the successes of both policies, bool (n,), from the states that counted."""
        n = min(self._counted[policy] for policy in pair)
        a, b = ([self._finished[policy][state] for state in range(n)] for policy in pair)
        return np.array(a, bool), np.array(b, bool)

    @property
    def judged(self) -> dict[Pair, Judgement]:
        """Every pair's judgement on the states that counted for both."""
        pairs = combinations(range(len(self._counted)), 2)
        return {pair: self._judge(pair) for pair in pairs}

    def states_used(self, policy: int) -> int:
        """Number of initial states, from the first, that counted for this policy."""
        return self._counted[policy]

    @property
    def is_decided(self) -> bool:
        """Whether one is left, or only such as do not differ beyond the margin."""
        return all(
            self._judge(pair).verdict is Verdict.NO_DIFFERENCE
            for pair in combinations(self.left, 2)
        )

    def _count_state(self) -> None:
        for policy in self.left:
            self._counted[policy] += 1
        beaten = set()
        for pair in combinations(self.left, 2):
            verdict = self._judge(pair).verdict
            if verdict in (Verdict.A_BETTER, Verdict.B_BETTER):
                beaten.add(pair[0] if verdict is Verdict.B_BETTER else pair[1])
        # in a circle, of which at least one verdict is wrong, nobody is the best
        self.left = [policy for policy in self.left if policy not in beaten] or self.left
        self._ended = self.is_decided

    def _has_next(self, policy: int) -> bool:
        state = self._counted[policy]
        return state < self._states and state in self._finished[policy]

    def _judge(self, pair: Pair) -> Judgement:
        return judge(*self.outcomes(pair), self._margin, self.of_each)

    def _is_needed(self, policy: int) -> bool:
        return not self._ended and policy in self.left
