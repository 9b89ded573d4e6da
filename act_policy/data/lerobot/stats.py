"""Statistics in LeRobot's form: per feature, for each episode and for the whole dataset."""

from collections.abc import Iterable
from typing import Any

import numpy as np

_QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

Summary = dict[str, list[Any]]
"""min, max, mean, std (population), count and quantiles, one value per dimension."""


def summarize_numbers(values: np.ndarray) -> Summary:
    """Compute a feature's exact statistics, quantiles included, over steps, (T, ...)."""
    exact = values.reshape(len(values), -1)
    floats = exact.astype(np.float64)
    quantiles = np.quantile(floats, list(_QUANTILES.values()), axis=0)
    return {
        "min": exact.min(axis=0).tolist(),
        "max": exact.max(axis=0).tolist(),
        "mean": floats.mean(axis=0).tolist(),
        "std": floats.std(axis=0).tolist(),
        "count": [len(values)],
        **dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
    }


def sampled_steps(length: int) -> set[int]:
    """Return the steps whose images LeRobot counts: all up to 100, a shrinking share of more."""
    count = max(min(100, length), min(int(length**0.75), 10_000))
    return set(np.round(np.linspace(0, length - 1, count)).astype(int).tolist())


def image_histogram(image: np.ndarray) -> np.ndarray:
    """Count each value in each channel, int64 (3, 256); large images are subsampled."""
    height, width = image.shape[:2]
    if max(height, width) >= 300:
        factor = max(height, width) // 150
        image = image[::factor, ::factor]
    return np.stack([np.bincount(image[..., c].reshape(-1), minlength=256) for c in range(3)])


def summarize_images(histogram: np.ndarray, images: int) -> Summary:
    """Compute statistics of images' pixels in [0, 1], each of shape (3, 1, 1)."""
    values = np.arange(256) / 255
    share = histogram / histogram.sum(axis=1, keepdims=True)
    mean = share @ values
    std = np.sqrt((share * (values - mean[:, None]) ** 2).sum(axis=1))
    found: dict[str, Iterable[float]] = {
        "min": [values[np.flatnonzero(channel)[0]] for channel in histogram],
        "max": [values[np.flatnonzero(channel)[-1]] for channel in histogram],
        "mean": mean,
        "std": std,
    }
    cumulative = np.cumsum(share, axis=1)
    for name, quantile in _QUANTILES.items():
        found[name] = [
            values[min(int(np.searchsorted(channel, quantile)), 255)] for channel in cumulative
        ]
    shaped: Summary = {name: [[[float(v)]] for v in channels] for name, channels in found.items()}
    return shaped | {"count": [images]}
