"""Verdicts on two and on several policies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy.judging.several import (
    assign_letters,
    corrected,
    different_pairs,
    judge_all,
)
from act_policy.judging.verdict import Verdict, forecast_pairs, judge, trace_bounds


def draw(rate: float, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(n) < rate


def test_the_better_policy_is_found_and_the_comparison_ends_there() -> None:
    bad, good = draw(0.2, 200, 1), draw(0.8, 200, 2)
    judgement = judge(bad, good)
    course = trace_bounds(bad[: judgement.pairs], good[: judgement.pairs])
    assert judgement.verdict is Verdict.B_BETTER
    assert judgement.is_decided
    assert judgement.pairs < 30
    assert course.low[-1] >= 0 > course.low[:-1].max()
    assert judgement.difference == course.difference[-1] > 0
    assert (judgement.low, judgement.high) == (course.low[-1], course.high[-1])
    mirrored = judge(good, bad)
    assert mirrored.verdict is Verdict.A_BETTER
    assert (mirrored.pairs, mirrored.low) == (judgement.pairs, pytest.approx(-judgement.high))
    assert judge(bad[: judgement.pairs], good[: judgement.pairs]) == judgement


@given(st.lists(st.booleans(), max_size=120), st.floats(0.0, 0.2), st.floats(0.5, 0.99))
def test_identical_policies_are_never_called_different(
    outcomes: list[bool], margin: float, confidence: float
) -> None:
    same = np.array(outcomes, bool)
    verdict = judge(same, same, margin, confidence).verdict
    assert verdict in (Verdict.UNDECIDED, Verdict.NO_DIFFERENCE)


def test_policies_that_always_end_alike_need_99_states() -> None:
    """As docs/evaluation.md says."""
    assert judge(np.ones(150, bool), np.ones(150, bool)).pairs == 99


def test_a_small_difference_is_none_beyond_the_margin() -> None:
    a = draw(0.9, 400)
    b = a.copy()
    b[::80] ^= True  # each other time to the good of one of them
    judgement = judge(a, b, margin=0.05)
    assert judgement.verdict is Verdict.NO_DIFFERENCE
    assert -0.050001 < judgement.low < judgement.high < 0.050001
    assert judge(a, b, margin=0.0).verdict is Verdict.UNDECIDED


def test_nothing_is_known_before_the_first_pair() -> None:
    judgement = judge(np.empty(0, bool), np.empty(0, bool))
    assert (judgement.verdict, judgement.pairs) == (Verdict.UNDECIDED, 0)
    assert (judgement.low, judgement.high) == (-1.0, 1.0)


def test_outcomes_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="pairs of shapes"):
        judge(draw(0.5, 3), draw(0.5, 4))


def test_the_forecast_is_about_what_it_takes() -> None:
    needed = [judge(draw(0.4, 400, seed), draw(0.6, 400, seed + 99)).pairs for seed in range(15)]
    # as often as such pairs end in each of the four ways, in 50 pairs
    a, b = np.repeat([[0, 1, 0, 1], [0, 0, 1, 1]], (12, 8, 18, 12), axis=1).astype(bool)
    further = forecast_pairs(a, b)
    assert further is not None
    assert 0.3 * np.median(needed) < 50 + further < 3 * np.median(needed)


def test_there_is_no_forecast_for_what_takes_forever() -> None:
    a, b = np.tile([[True, False], [False, True]], 500)
    assert forecast_pairs(a, b, margin=0.001) is None


def test_a_pair_among_several_needs_more_evidence() -> None:
    assert corrected(0.95, 2) == pytest.approx(0.95)
    assert corrected(0.95, 3) == pytest.approx(1 - 0.05 / 3)
    bad, good = draw(0.3, 100, 1), draw(0.7, 100, 2)
    of_two = judge_all([bad, good])[0, 1]
    of_three = judge_all([bad, good, good])
    assert of_three[0, 1].verdict is of_two.verdict is Verdict.B_BETTER
    assert of_three[0, 1].pairs > of_two.pairs
    assert of_three[1, 2].verdict not in (Verdict.A_BETTER, Verdict.B_BETTER)
    assert different_pairs(of_three) == {(0, 1), (0, 2)}


def test_a_policy_that_stopped_is_compared_on_its_own_episodes() -> None:
    judged = judge_all([draw(0.1, 200, 1), draw(0.9, 40, 2), draw(0.5, 200, 3)])
    assert judged[0, 1].verdict is Verdict.B_BETTER
    assert judged[1, 2].pairs <= 40


@pytest.mark.parametrize(
    ("rates", "different", "letters"),
    [
        ([0.9, 0.5], [], ["a", "a"]),
        ([0.5, 0.9], [(0, 1)], ["b", "a"]),
        ([0.9, 0.7, 0.5], [(0, 2)], ["a", "ab", "b"]),
        ([0.9, 0.7, 0.5], [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
        ([0.8, 0.7, 0.6, 0.5], [(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
    ],
)
def test_letters(rates: list[float], different: list[tuple[int, int]], letters: list[str]) -> None:
    assert assign_letters(rates, different) == letters


@given(st.integers(1, 7), st.data())
def test_policies_share_a_letter_exactly_if_they_do_not_differ(k: int, data: st.DataObject) -> None:
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    different = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    letters = assign_letters([1 - i / 10 for i in range(k)], different)
    for i, j in pairs:
        assert bool(set(letters[i]) & set(letters[j])) is ((i, j) not in different)
