"""Stretches in which nothing moves, although sensors are noisy."""

from collections.abc import Sequence

import numpy as np

STILL_BAND = 0.02
"""Still is what stays within this share of each dimension's deviation for a second: of a joint
that deviates by 0.3 rad, a third of a degree, the finest that ALOHA's encoders tell apart twice
over."""
NOISE_BAND = 4.0
"""Or within so many deviations of the sensor's noise, where that is wider."""
ONLY_NOISE = 0.3
"""A dimension whose noise is more than this share of its deviation says nothing of motion."""


def longest_still_stretch(episodes: Sequence[np.ndarray], window: int) -> list[range]:
    """Find in each episode the longest stretch of steps in which every window is still.

    Args:
        episodes: float64 (T, dimensions) each.
        window: steps of a second; an episode that is shorter has no still stretch.

    Returns:
        The steps of each, an empty range where nothing is still.
    """
    window = max(window, 2)
    values = np.concatenate(episodes)
    deviation = values.std(axis=0)
    noise = _noise(episodes)
    tells = (deviation > 0) & (noise <= ONLY_NOISE * deviation)
    if not tells.any():
        return [range(0)] * len(episodes)
    band = np.maximum(STILL_BAND * deviation, NOISE_BAND * noise)[tells]
    return [_longest(episode[:, tells], band, window) for episode in episodes]


def _noise(episodes: Sequence[np.ndarray]) -> np.ndarray:
    """Deviation of the noise of each dimension: what is left after differencing twice.

    Of white noise the second difference has the deviation sqrt(6); the median passes over the few
    steps at which something starts and stops.
    """
    second = [np.abs(np.diff(episode, 2, axis=0)) for episode in episodes if len(episode) > 2]
    if not second:
        return np.zeros(episodes[0].shape[1])
    # The lower quartile, so that smooth but fast motion does not count as noise.
    quartile: np.ndarray = np.quantile(np.concatenate(second), 0.25, axis=0)
    noise: np.ndarray = quartile / 0.3186 / np.sqrt(6)
    return noise


def _longest(values: np.ndarray, band: np.ndarray, window: int) -> range:
    if len(values) < window:
        return range(0)
    span = _highest(values, window) + _highest(-values, window)
    still = (span <= band).all(axis=-1)  # (T - window + 1,)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still, [0]])))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) == 0:
        return range(0)
    longest = int(np.argmax(ends - starts))
    return range(int(starts[longest]), int(ends[longest]) + window - 1)


def _highest(values: np.ndarray, window: int) -> np.ndarray:
    """(T - window + 1, dimensions), the maximum of every window."""
    size = 1
    while 2 * size <= window:
        values, size = np.maximum(values[:-size], values[size:]), 2 * size
    rest = window - size
    highest: np.ndarray = np.maximum(values[: len(values) - rest], values[rest:])
    return highest
