"""Wilson's interval against published values and its own definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy.intervals import wilson_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_values(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_none_and_all() -> None:
    z2 = 1.959963984540054**2
    assert wilson_interval(0, 100) == pytest.approx((0.0, z2 / (100 + z2)))
    assert wilson_interval(100, 100) == pytest.approx((100 / (100 + z2), 1.0))
    assert wilson_interval(0, 1)[0] == 0.0
    assert wilson_interval(1, 1)[1] == 1.0


@given(st.integers(1, 500), st.data())
def test_it_holds_the_rate_and_is_symmetric(n: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, n))
    low, high = wilson_interval(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    mirrored = wilson_interval(n - successes, n)
    assert (1 - high, 1 - low) == pytest.approx(mirrored)


def test_more_confidence_is_wider() -> None:
    narrow, wide = wilson_interval(7, 10, 0.5), wilson_interval(7, 10, 0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 5)])
def test_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        wilson_interval(successes, n)
