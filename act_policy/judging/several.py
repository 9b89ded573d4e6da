"""More than two policies: every pair of them, and letters that show which cannot be told apart."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from string import ascii_lowercase

import numpy as np

from act_policy.judging.verdict import Judgement, Verdict, judge

Pair = tuple[int, int]
"""Indices of two policies, the smaller one first; it plays A."""


def corrected(confidence: float, policies: int) -> float:
    """Return the confidence of each pair with which all pairs together have the one given.

    1 - (1 - confidence) / (k (k - 1) / 2) for k policies (Bonferroni's inequality).
    """
    return 1 - (1 - confidence) / max(1, policies * (policies - 1) // 2)


def judge_all(
    successes: Sequence[np.ndarray], margin: float = 0.05, confidence: float = 0.95
) -> dict[Pair, Judgement]:
    """Compare each pair of policies, so that all verdicts are right with the given confidence.

    Args:
        successes: bool (n,) of each policy, from the same initial states in the same order; a
            policy that stopped earlier has fewer, and is compared on those it has.
        margin: as for one pair.
        confidence: of all verdicts together.
    """
    of_each = corrected(confidence, len(successes))
    judged = {}
    for i, j in combinations(range(len(successes)), 2):
        n = min(len(successes[i]), len(successes[j]))
        judged[i, j] = judge(successes[i][:n], successes[j][:n], margin, of_each)
    return judged


def different_pairs(judged: Mapping[Pair, Judgement]) -> set[Pair]:
    """Return the pairs in which one policy is better."""
    better = (Verdict.A_BETTER, Verdict.B_BETTER)
    return {pair for pair, judgement in judged.items() if judgement.verdict in better}


def assign_letters(rates: Sequence[float], different: Collection[Pair]) -> list[str]:
    """Give each policy letters: two that share a letter were not found to differ.

    The letter a belongs to the highest success rate.

    Source: the insert-and-absorb algorithm, Piepho 2004, Journal of Computational and Graphical
    Statistics 13 (2).
    """
    groups: list[set[int]] = [set(range(len(rates)))]
    for pair in different:
        i, j = pair
        split = [group - {one} for group in groups if {i, j} <= group for one in (i, j)]
        groups = [group for group in groups if not {i, j} <= group]
        for group in split:
            if not any(group <= other for other in groups):
                groups = [other for other in groups if not other <= group] + [group]
    order = sorted(range(len(rates)), key=lambda i: -rates[i])
    groups.sort(key=lambda group: sorted(order.index(i) for i in group))
    return [
        "".join(_letter(index) for index, group in enumerate(groups) if policy in group)
        for policy in range(len(rates))
    ]


def _letter(index: int) -> str:
    """A to z, then a2, b2 and so on."""
    again, letter = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[letter] + (str(again + 1) if again else "")
