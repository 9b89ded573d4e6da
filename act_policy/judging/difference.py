"""The difference of two success rates, bounded so that one may look after every episode.

Both policies start from the same initial states. Pair i gives d_i = b_i - a_i in {-1, 0, 1}, where
a_i and b_i are 1 for a success. Somebody who bets against "the mean of d is D" multiplies his
capital by 1 + v (X / m - 1) at each pair, where X = (1 + d) / 2 lies in [0, 1], m = (1 + D) / 2 is
its mean if D is true, and v in [0, 1) is the fraction that he stakes. If D is true, or lower, his
expected gain is nothing whatever he does, so his capital ever reaches c with probability at most
1 / c (Ville's inequality). A difference that has made him 2 / alpha times richer is excluded, and
so is every lower one. Betting the other way bounds the difference from above.

Because the inequality holds for all numbers of pairs together, the interval may be looked at after
every pair, and the comparison ended because of what it shows. At D = 0 only discordant pairs
change the capital: it is a sign test.

Sources: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting,
Journal of the Royal Statistical Society B 86 (1) (the hedged capital process); Ville 1939,
Étude critique de la notion de collectif; Robbins 1970, Annals of Mathematical Statistics 41 (5)
(mixtures).
"""

from typing import NamedTuple

import numpy as np

_HALVINGS = 30


class Stakes(NamedTuple):
    """How somebody bets: float64 arrays of one length.

    fractions: the stakes v.
    shares: how the starting capital is divided among them; their sum is 1.
    """

    fractions: np.ndarray
    shares: np.ndarray


STAKES = Stakes(
    np.array([0.88, 0.768, 0.46, 0.236, 0.07, 0.03]),
    np.array([0.327, 0.151, 0.277, 0.205, 0.02, 0.02]),
)
"""A large stake decides between very different policies soonest, and a small one in the end between
those that hardly differ. The first four were chosen so that the differences in `simulate` cost the
fewest pairs; whatever they are, the bounds hold."""


class Counts(NamedTuple):
    """How pairs of episodes ended: arrays of integers of one shape.

    b_alone: B succeeded and A failed.
    a_alone: A succeeded and B failed.
    same: both succeeded or both failed.
    """

    b_alone: np.ndarray
    a_alone: np.ndarray
    same: np.ndarray

    @property
    def swapped(self) -> "Counts":
        """The same pairs with the policies' names exchanged."""
        return Counts(self.a_alone, self.b_alone, self.same)


def count_pairs(a: np.ndarray, b: np.ndarray) -> Counts:
    """Count how the pairs ended, after each pair.

    Args:
        a: bool (..., n), successes of A.
        b: bool (..., n), those of B from the same initial states.
    """
    a, b = np.asarray(a, bool), np.asarray(b, bool)
    return Counts(*(np.cumsum(ended, axis=-1) for ended in (b & ~a, a & ~b, a == b)))


def log_capital(
    counts: Counts, difference: np.ndarray | float, stakes: Stakes = STAKES
) -> np.ndarray:
    """Return the logarithm of the capital of bets that B - A is more than `difference`: float64.

    It never rises with `difference`, which is above -1 and at most 1.
    """
    u = 1 / (1 + np.asarray(difference, np.float64))
    axes = max(u.ndim, np.ndim(counts.same))
    v, share = (values.reshape(-1, *[1] * axes) for values in stakes)
    bets = (
        np.log(share)
        + counts.b_alone * np.log1p(v * (2 * u - 1))
        + counts.same * np.log1p(v * (u - 1))
        + counts.a_alone * np.log1p(-v)
    )
    best = bets.max(axis=0)
    capital: np.ndarray = best + np.log(np.exp(bets - best).sum(axis=0))
    return capital


def bound_difference(counts: Counts, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Bound the success rate of B minus that of A: a confidence sequence.

    With the given confidence, all intervals that are ever looked at hold the true difference.

    Returns:
        low and high from -1 to 1, float64 of the counts' shape. Both are excluded themselves: the
        difference is not zero as soon as low >= 0 or high <= 0, and exactly then.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    needed = np.log(2 / (1 - confidence))
    return _lowest(counts, needed), -_lowest(counts.swapped, needed)


def _lowest(counts: Counts, needed: float) -> np.ndarray:
    """Find the largest difference that the capital excludes, by halving; zero is the first try."""
    low = np.full(np.broadcast(*counts).shape, -1.0)
    high = np.ones_like(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        excluded = log_capital(counts, middle) >= needed
        low, high = np.where(excluded, middle, low), np.where(excluded, high, middle)
    return low
