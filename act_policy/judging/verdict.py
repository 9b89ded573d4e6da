"""What may be said of two policies after some pairs of episodes."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from act_policy.errors import UserError
from act_policy.judging.difference import (
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


def check_judging(margin: float, confidence: float) -> None:
    """Raise UserError unless `judge` can use them."""
    if not 0 <= margin < 1:
        raise UserError(f"margin={margin}: expected 0 or more and less than 1")
    if not 0.5 <= confidence < 1:
        raise UserError(f"confidence={confidence}: expected 0.5 or more and less than 1")


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
    """Look after each pair of episodes from the same initial state, and stop at the first verdict.

    However often and whenever one looks, the probability that a verdict is wrong is at most
    1 - confidence: that the worse policy or one of two equal policies is called better, or
    that policies further apart than the margin are said not to differ beyond it.

    Args:
        a: bool (n,), successes of A.
        b: bool (n,), successes of B, in the same order of initial states. That order must not
            depend on the outcomes.
        margin: differences up to this one do not matter; 0 never gives NO_DIFFERENCE.
        confidence: between 0 and 1.
    """
    if np.shape(a) != np.shape(b) or np.ndim(a) != 1:
        raise ValueError(f"pairs of shapes {np.shape(a)} and {np.shape(b)}")
    counts = count_pairs(a, b)
    verdicts = _decide(counts, margin, confidence)
    pairs = _first(verdicts) or len(a)
    if pairs == 0:
        return Judgement(Verdict.UNDECIDED, 0.0, -1.0, 1.0, 0, 0)
    last = Counts(*(ended[pairs - 1 : pairs] for ended in counts))
    low, high = bound_difference(last, confidence)
    b_alone, a_alone, _ = (int(ended[0]) for ended in last)
    return Judgement(
        next((kind for kind, holds in verdicts.items() if holds[pairs - 1]), Verdict.UNDECIDED),
        (b_alone - a_alone) / pairs,
        float(low[0]),
        float(high[0]),
        pairs,
        b_alone + a_alone,
    )


def pairs_to_verdict(
    a: np.ndarray, b: np.ndarray, margin: float = 0.05, confidence: float = 0.95
) -> int | None:
    """Return the number of pairs after which there is a verdict, or None; see `judge`."""
    return _first(_decide(count_pairs(a, b), margin, confidence))


def trace_bounds(a: np.ndarray, b: np.ndarray, confidence: float = 0.95) -> Course:
    """Follow the difference and its bounds from the first pair to the last; see `judge`."""
    counts = count_pairs(a, b)
    difference = (counts.b_alone - counts.a_alone) / np.arange(1, len(a) + 1)
    return Course(difference, *bound_difference(counts, confidence))


def _decide(counts: Counts, margin: float, confidence: float) -> dict[Verdict, np.ndarray]:
    """Tell where each verdict holds: bool arrays of the counts' shape."""
    needed = np.log(2 / (1 - confidence))

    def excludes(counts: Counts, difference: float) -> np.ndarray:
        capital: np.ndarray = log_capital(counts, difference) >= needed
        return capital

    verdicts = {
        Verdict.B_BETTER: excludes(counts, 0.0),
        Verdict.A_BETTER: excludes(counts.swapped, 0.0),
    }
    if margin > 0:
        within = excludes(counts, -margin) & excludes(counts.swapped, -margin)
        verdicts[Verdict.NO_DIFFERENCE] = within
    return verdicts


def _first(verdicts: Mapping[Verdict, np.ndarray]) -> int | None:
    decided = np.logical_or.reduce(list(verdicts.values()))
    return int(decided.argmax()) + 1 if decided.any() else None


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
    decided = np.logical_or.reduce(list(_decide(counts, margin, confidence).values()))
    share = np.maximum.accumulate(decided, axis=0).mean(axis=1)
    return int(further[(share >= 0.5).argmax()]) if share[-1] >= 0.5 else None
