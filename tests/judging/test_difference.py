"""Bounds on the difference of two success rates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy.judging.difference import (
    STAKES,
    Counts,
    bound_difference,
    count_pairs,
    log_capital,
)
from act_policy.judging.simulate import best_stakes, compare_cost, count_misses, pair_outcomes

Numbers = st.integers(0, 60)


def counted(b_alone: int, a_alone: int, same: int) -> Counts:
    return Counts(np.array([b_alone]), np.array([a_alone]), np.array([same]))


def test_counts_after_each_pair() -> None:
    counts = count_pairs(np.array([1, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 0]))
    assert [n.tolist() for n in counts] == [[0, 1, 1, 1, 1], [1, 1, 1, 1, 2], [0, 0, 1, 2, 2]]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    st.floats(-0.95, 1.0),
)
def test_the_capital_is_that_of_the_bets_made_one_after_the_other(
    pairs: list[tuple[bool, bool]], difference: float
) -> None:
    mean = (1 + difference) / 2
    capital = STAKES.shares.copy()
    for a, b in pairs:
        capital *= 1 + STAKES.fractions * ((1 + int(b) - int(a)) / 2 / mean - 1)
    a, b = np.array(pairs).T
    counts = Counts(*(n[-1:] for n in count_pairs(a, b)))
    assert log_capital(counts, difference) == pytest.approx(np.log(capital.sum()))


@given(st.floats(-0.9, 0.9), st.floats(0.0, 1.0))
def test_a_bet_gains_nothing_on_average_where_its_difference_is_true(
    difference: float, discordant: float
) -> None:
    discordant = abs(difference) + (1 - abs(difference)) * discordant
    chances = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    after = [np.exp(log_capital(counted(*one), difference)[0]) for one in np.eye(3, dtype=int)]
    assert np.dot(chances, after) == pytest.approx(1.0)


@given(Numbers, Numbers, Numbers)
def test_the_bounds_hold_what_was_observed_and_mirror_each_other(
    b_alone: int, a_alone: int, same: int
) -> None:
    low, high = bound_difference(counted(b_alone, a_alone, same))
    n = b_alone + a_alone + same
    assert -1 <= low[0] <= ((b_alone - a_alone) / n if n else 0.0) <= high[0] <= 1
    mirrored = bound_difference(counted(a_alone, b_alone, same))
    assert np.allclose(mirrored, (-high, -low))
    wider = bound_difference(counted(b_alone, a_alone, same), 0.99)
    assert wider[0] <= low <= high <= wider[1]


@given(Numbers, Numbers, Numbers)
def test_what_excludes_a_difference_excludes_every_lower_one(
    b_alone: int, a_alone: int, same: int
) -> None:
    counts = counted(b_alone, a_alone, same)
    capital = log_capital(Counts(*(np.repeat(n, 50) for n in counts)), np.linspace(-0.99, 1, 50))
    assert (np.diff(capital) <= 1e-9).all()


def test_zero_is_excluded_by_discordant_pairs_alone() -> None:
    for same in (0, 5, 500):
        assert bound_difference(counted(6, 0, same))[0] < 0
        assert bound_difference(counted(7, 0, same))[0] >= 0


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_equal_policies_are_rarely_told_apart_however_often_one_looks(
    rate: float, correlation: float
) -> None:
    missed = count_misses(pair_outcomes(rate, rate, correlation), 2000, 300, seed=3)
    assert missed <= 0.05 * 2000


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.2), (0.5, 0.55), (0.95, 0.5)])
def test_the_true_difference_is_rarely_excluded_at_any_time(a: float, b: float) -> None:
    assert count_misses(pair_outcomes(a, b, 0.3), 2000, 300, seed=3) <= 0.05 * 2000


def test_identical_policies_are_never_told_apart() -> None:
    assert count_misses(pair_outcomes(0.5, 0.5, 1.0), 100, 2000) == 0


def test_fewer_episodes_than_the_exact_test_of_the_same_power() -> None:
    cost = compare_cost(pair_outcomes(0.8, 0.95, 0.0), power=0.95)
    assert cost.fixed == 130
    assert cost.saved > 0.4


def test_the_stakes_lose_little_to_those_of_somebody_who_knows_the_rates() -> None:
    for a, b in ((0.5, 0.95), (0.8, 0.95)):
        outcomes = pair_outcomes(a, b, 0.0)
        judged, known = (
            compare_cost(outcomes, 0.9, stakes=s) for s in (STAKES, best_stakes(outcomes))
        )
        assert known.mean < judged.mean < 1.2 * known.mean


def test_a_confidence_is_a_probability() -> None:
    with pytest.raises(ValueError, match="confidence 95"):
        bound_difference(counted(1, 0, 0), 95.0)
