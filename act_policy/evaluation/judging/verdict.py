"""What may be said of two policies after some pairs of episodes."""

from enum import Enum
from typing import NamedTuple

import numpy as np

from act_policy.evaluation.judging.difference import (
    Counts,
    bound_difference,
    count_pairs,
    log_capital,
)

MOST_FURTHER_PAIRS = 10_000
"""A forecast looks no further."""


class Verdict(Enum):
    """What may be said of policies A and B."""

    A_BETTER = "A is better"
    B_BETTER = "B is better"
    NO_DIFFERENCE = "no difference beyond the margin"
    UNDECIDED = "cannot tell yet"


class Judgement(NamedTuple):
    """A verdict and what it rests on.

    difference: success rate of B minus that of A in these pairs.
    low, high: its confidence sequence at the last of them.
    pairs: number of pairs up to the verdict, or of all pairs without one.
    discordant: number of those that ended differently.
    """

    verdict: Verdict
    difference: float
    low: float
    high: float
    pairs: int
    discordant: int

    @property
    def is_decided(self) -> bool:
        """Whether no more episodes are needed."""
        return self.verdict is not Verdict.UNDECIDED


class Course(NamedTuple):
    """How the difference and its bounds developed: float64 (n,) each, after each pair."""

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray


def judge(
    a: np.ndarray, b: np.ndarray, margin: float = 0.05, confidence: float = 0.95
) -> Judgement:
    """Compare two policies by episodes from the same initial states; see `follow`."""
    return follow(a, b, margin, confidence)[0]


def follow(
    a: np.ndarray, b: np.ndarray, margin: float = 0.05, confidence: float = 0.95
) -> tuple[Judgement, Course]:
    """Look after each pair, and stop at the first verdict.

    However often and whenever one looks, the probability that a verdict is wrong is at most
    1 - confidence: that the worse policy or one of two equal policies is called better, or
    that policies further apart than the margin are said not to differ beyond it.

    Args:
        a: bool (n,), successes of A.
        b: bool (n,), successes of B, in the same order of initial states. That order must not
            depend on the outcomes.
        margin: differences up to this one do not matter; 0 never gives NO_DIFFERENCE.
        confidence: between 0 and 1.

    Returns:
        the judgement, and its course up to the verdict.
    """
    if np.shape(a) != np.shape(b) or np.ndim(a) != 1:
        raise ValueError(f"pairs of shapes {np.shape(a)} and {np.shape(b)}")
    counts = count_pairs(a, b)
    low, high = bound_difference(counts, confidence)
    b_better, a_better = low >= 0, high <= 0
    decided = b_better | a_better | _is_within(low, high, margin)
    pairs = int(decided.argmax()) + 1 if decided.any() else len(decided)
    if pairs == 0:
        return Judgement(Verdict.UNDECIDED, 0.0, -1.0, 1.0, 0, 0), Course(*[np.empty(0)] * 3)
    last = pairs - 1
    verdict = Verdict.UNDECIDED
    if decided[last]:
        verdict = Verdict.NO_DIFFERENCE
        if a_better[last] or b_better[last]:
            verdict = Verdict.B_BETTER if b_better[last] else Verdict.A_BETTER
    b_alone, a_alone, _ = (np.asarray(n)[:pairs] for n in counts)
    difference = (b_alone - a_alone) / np.arange(1, pairs + 1)
    judgement = Judgement(
        verdict,
        float(difference[-1]),
        float(low[last]),
        float(high[last]),
        pairs,
        int(b_alone[-1] + a_alone[-1]),
    )
    return judgement, Course(difference, low[:pairs], high[:pairs])


def _is_within(low: np.ndarray, high: np.ndarray, margin: float) -> np.ndarray:
    within: np.ndarray = (low >= -margin) & (high <= margin) & (margin > 0)
    return within


def forecast_pairs(
    a: np.ndarray, b: np.ndarray, margin: float = 0.05, confidence: float = 0.95, draws: int = 400
) -> int | None:
    """Estimate how many more pairs would probably bring a verdict: in half of imagined futures.

    A future is drawn from what the pairs so far make plausible: shares of the three outcomes from
    their posterior under Jeffreys' prior, Dirichlet(1/2, 1/2, 1/2), and pairs with these shares.
    It is a rule of thumb for planning; no verdict depends on it.

    Returns:
        a number of pairs, or None where more than `MOST_FURTHER_PAIRS` would be needed.
    """
    totals = np.array([ended[-1] if len(ended) else 0 for ended in count_pairs(a, b)])
    random = np.random.default_rng(0)
    shares = random.dirichlet(totals + 0.5, draws)
    further = np.unique(np.geomspace(1, MOST_FURTHER_PAIRS, 60).astype(int))
    steps = np.diff(further, prepend=0)
    # the futures after each of these numbers of pairs: (numbers, draws, outcomes)
    ended = totals + np.cumsum([random.multinomial(n, shares) for n in steps], axis=0)
    counts = Counts(*np.moveaxis(ended, -1, 0))
    needed = np.log(2 / (1 - confidence))

    def excluded(counts: Counts, difference: float) -> np.ndarray:
        capital: np.ndarray = log_capital(counts, difference) >= needed
        return capital

    decided = excluded(counts, 0.0) | excluded(counts.swapped, 0.0)
    if margin > 0:
        decided |= excluded(counts, -margin) & excluded(counts.swapped, -margin)
    share = np.maximum.accumulate(decided, axis=0).mean(axis=1)
    return int(further[(share >= 0.5).argmax()]) if share[-1] >= 0.5 else None
