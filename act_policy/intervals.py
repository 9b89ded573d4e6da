"""How sure one may be of a success rate."""

from collections.abc import Sequence
from statistics import NormalDist


def wilson_interval(
    successes: int | float, n: int | float, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval that holds the true rate with the given confidence (Wilson's score interval).

    With p = successes / n and z the normal quantile of (1 + confidence) / 2,

        (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Unlike p +- z sqrt(p (1 - p) / n) it stays inside [0, 1] and is honest at 0 of n and n of n.

    Source: Wilson 1927, Journal of the American Statistical Association 22 (158).
    """
    if not n >= 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    scale = 1 + z * z / n
    # Rounding alone would leave 1e-17 instead of 0, and 0.9999999999999999 instead of 1.
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == n else (centre + half) / scale
    return low, high


def mean_interval(
    rates: Sequence[float],
    episodes: Sequence[int],
    weights: Sequence[float],
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Interval that holds the weighted mean of several true rates with about this confidence.

    It is Wilson's of the mean rate with as many episodes as would leave the mean as uncertain, if
    all rates were alike: 1 / sum(w^2 / n) for weights w whose sum is 1. Where the rates differ, the
    mean is less uncertain than that.

    Source: Kish 1965, Survey Sampling (the effective size of a weighted sample).
    """
    total = sum(weights)
    shares = [weight / total for weight in weights]
    mean = sum(share * rate for share, rate in zip(shares, rates, strict=True))
    effective = 1 / sum(share**2 / n for share, n in zip(shares, episodes, strict=True))
    return wilson_interval(min(mean * effective, effective), effective, confidence)
