"""Check the judge on simulated comparisons: how often it errs, and how many episodes it saves.

    python -m act_policy.judging.simulate

Each simulated comparison is looked at after every pair. The efficiency is computed exactly, beside
McNemar's exact test with a number of pairs that was fixed before, and beside the bets of somebody
who knows the success rates: nobody's bets need fewer pairs in the long run.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from act_policy.judging.difference import STAKES, Counts, Stakes, log_capital

RATES = (0.05, 0.5, 0.95)
CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
UNEQUAL = ((0.5, 0.6), (0.5, 0.7), (0.5, 0.95), (0.8, 0.95), (0.9, 0.98), (0.05, 0.95))
POWERS = (0.8, 0.9, 0.95)


class Outcomes(NamedTuple):
    """Probabilities of how a pair ends."""

    b_alone: float
    a_alone: float
    same: float


def pair_outcomes(a: float, b: float, correlation: float) -> Outcomes:
    """Outcomes of a pair from success rates and their correlation, 1 being the largest possible."""
    both = a * b + correlation * (min(a, b) - a * b)
    return Outcomes(b - both, a - both, 1 - a - b + 2 * both)


def count_misses(
    outcomes: Outcomes, comparisons: int, pairs: int, seed: int = 0, confidence: float = 0.95
) -> int:
    """Count comparisons that exclude the true difference after any of their pairs.

    Where the policies are equal, these are the comparisons that call one of them better.
    """
    truth = outcomes.b_alone - outcomes.a_alone
    needed = np.log(2 / (1 - confidence))
    random = np.random.default_rng(seed)
    missed = 0
    for size in _batches(comparisons, 8):  # that stay in a processor's cache
        drawn = random.random((size, pairs))
        b_alone = np.cumsum(drawn < outcomes.b_alone, axis=1)
        a_alone = np.cumsum(drawn >= 1 - outcomes.a_alone, axis=1)
        counts = Counts(b_alone, a_alone, np.arange(1, pairs + 1) - b_alone - a_alone)
        wrong = (log_capital(counts, truth) >= needed).any(axis=1)
        wrong |= (log_capital(counts.swapped, -truth) >= needed).any(axis=1)
        missed += int(wrong.sum())
    return missed


def _batches(total: int, size: int) -> Iterator[int]:
    yield from (min(size, total - done) for done in range(0, total, size))


class Cost(NamedTuple):
    """Pairs that reach a power: of the exact test, at most of the judge, and its mean."""

    fixed: int
    most: int
    mean: float

    @property
    def saved(self) -> float:
        """Share of the exact test's episodes that the judge does without, on average."""
        return 1 - self.mean / self.fixed


def best_stakes(outcomes: Outcomes) -> Stakes:
    """Return the stake whose capital grows fastest if these are the probabilities.

    Source: Kelly 1956, A new interpretation of information rate, Bell System Technical Journal 35.
    """
    difference = abs(outcomes.b_alone - outcomes.a_alone)
    fraction = difference / (outcomes.b_alone + outcomes.a_alone)
    return Stakes(np.array([min(fraction, 0.999)]), np.array([1.0]))


def compare_cost(
    outcomes: Outcomes, power: float, confidence: float = 0.95, stakes: Stakes = STAKES
) -> Cost:
    """Compute the pairs that either test needs to find a difference with the given power."""
    discordant = outcomes.b_alone + outcomes.a_alone
    share = outcomes.b_alone / discordant
    length = 256
    while True:  # until the walk is long enough for the judge's power
        exact = _exact_power(share, length, 1 - confidence)
        judged = _decided_after(share, length, confidence, stakes)
        fixed = _first(exact, discordant, power)
        most = _first(judged, discordant, power)
        if fixed is not None and most is not None:
            break
        length *= 2
    mean = sum(1 - _after_pairs(judged, discordant, n) for n in range(most))
    return Cost(fixed, most, mean)


def _first(by_discordant: np.ndarray, rate: float, power: float) -> int | None:
    """Find the number of pairs whose probability of a decision is `power`; None in this length."""
    enough = (len(by_discordant) - 1) // 2  # so that pairs with more discordant ones hardly occur
    for n in range(1, enough if rate > 0.5 else int(enough / rate)):
        if _after_pairs(by_discordant, rate, n) >= power:
            return n
    return None


def _after_pairs(by_discordant: np.ndarray, rate: float, pairs: int) -> float:
    """Average what holds for each number of discordant pairs over those among `pairs`."""
    m = np.arange(min(pairs, len(by_discordant) - 1) + 1)
    return float(_binomial(pairs, rate)[: len(m)] @ by_discordant[: len(m)])


def _exact_power(share: float, length: int, alpha: float) -> np.ndarray:
    """Power of McNemar's exact test for each number of discordant pairs."""
    power = np.zeros(length + 1)
    for m in range(1, length + 1):
        tails = np.cumsum(_binomial(m, 0.5))
        rejects = 2 * tails <= alpha  # k or fewer of one kind
        chances = _binomial(m, share)
        power[m] = chances[rejects].sum() + chances[::-1][rejects].sum()
    return power


def _decided_after(share: float, length: int, confidence: float, stakes: Stakes) -> np.ndarray:
    """Probability that the judge has excluded zero within each number of discordant pairs."""
    needed = np.log(2 / (1 - confidence))
    decided = np.zeros(length + 1)
    open_walks = np.zeros(length + 1)  # by the number of pairs that B alone won
    open_walks[0] = 1.0
    for m in range(1, length + 1):
        open_walks[1:] = open_walks[1:] * (1 - share) + open_walks[:-1] * share
        open_walks[0] *= 1 - share
        wins = np.arange(m + 1)
        counts = Counts(wins, m - wins, np.zeros_like(wins))
        ends = log_capital(counts, 0.0, stakes) >= needed
        ends |= log_capital(counts.swapped, 0.0, stakes) >= needed
        decided[m] = decided[m - 1] + open_walks[: m + 1][ends].sum()
        open_walks[: m + 1][ends] = 0.0
    return decided


def _binomial(n: int, p: float) -> np.ndarray:
    """Probabilities of 0 to n successes."""
    if p in (0.0, 1.0):
        return np.where(np.arange(n + 1) == n * p, 1.0, 0.0)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    chosen = log_factorial[n] - log_factorial - log_factorial[::-1]
    probabilities: np.ndarray = np.exp(chosen + k * math.log(p) + (n - k) * math.log1p(-p))
    return probabilities


def main() -> None:
    """Print both tables."""
    comparisons, pairs = 10_000, 1000
    print(f"wrong of {comparisons} comparisons, looked at after each of {pairs} pairs (at most 5%)")
    equal = [(rate, rate) for rate in RATES]
    for a, b in (*equal, *UNEQUAL):
        shares = [
            f"{count_misses(pair_outcomes(a, b, r), comparisons, pairs) / comparisons:7.2%}"
            for r in CORRELATIONS
        ]
        print(f"  A {a:.2f} B {b:.2f}, correlation 0 to 1: {' '.join(shares)}", flush=True)
    print("pairs to find a difference: exact test, judge at most, judge on average, saved")
    saved: dict[float, list[float]] = {power: [] for power in POWERS}
    known: dict[float, list[float]] = {power: [] for power in POWERS}
    for a, b in UNEQUAL:
        for r in (0.0, 0.5):
            outcomes = pair_outcomes(a, b, r)
            costs = [compare_cost(outcomes, power) for power in POWERS]
            for power, cost in zip(POWERS, costs, strict=True):
                saved[power].append(cost.saved)
                best = compare_cost(outcomes, power, stakes=best_stakes(outcomes))
                known[power].append(best.saved)
            cells = [
                f"power {power}: {c.fixed:4} {c.most:4} {c.mean:6.1f} {c.saved:4.0%}"
                for power, c in zip(POWERS, costs, strict=True)
            ]
            print(f"  A {a:.2f} B {b:.2f} correlation {r}: {'; '.join(cells)}", flush=True)
    for who, of_each in (("the judge", saved), ("who knows the rates", known)):
        means = [f"power {power}: {np.mean(values):.0%}" for power, values in of_each.items()]
        print(f"saved on average by {who}: {'; '.join(means)}")


if __name__ == "__main__":
    main()
