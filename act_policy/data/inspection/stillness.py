"""Find stretches in which nothing moves, in spite of sensor noise."""

from collections.abc import Sequence

import numpy as np

STILL_BAND = 0.02
"""A dimension is still if it stays within this share of its deviation for a second: a third of a
degree for a joint with a deviation of 0.3 rad, or twice the resolution of ALOHA's encoders."""
NOISE_BAND = 4.0
"""Or if it stays within this many deviations of the sensor's noise, where that is wider."""
ONLY_NOISE = 0.3
"""A dimension whose noise is more than this share of its deviation tells nothing about motion."""


def longest_still_stretch(episodes: Sequence[np.ndarray], window: int) -> list[range]:
    """Find in each episode the longest stretch of steps in which every window is still.

    Args:
        episodes: float64 (T, dimensions) each.
        window: number of steps in a second; a shorter episode has no still stretch.

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
    """Estimate the noise of each dimension, as a deviation, from second differences.

    The second difference of unit white noise has the deviation sqrt(6). The lower quartile of its
    size ignores starts, stops, and motion that is smooth but fast.
    """
    second = [np.abs(np.diff(episode, 2, axis=0)) for episode in episodes if len(episode) > 2]
    if not second:
        return np.zeros(episodes[0].shape[1])
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
