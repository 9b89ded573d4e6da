"""Choose the actions that a sample predicts, and the episodes that are trained on."""

import numpy as np

from act_policy.errors import UserError


def chunk_rows(
    first: np.ndarray, last: np.ndarray, chunk_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the actions of many chunks, and which of them are padding.

    Args:
        first: int (b,), the row of each sample's own step.
        last: int (b,), the last row of each sample's episode.
        chunk_length: k, at least 1.

    Returns:
        int (b, k) rows, clamped to `last`, and bool (b, k), true exactly past it.
    """
    rows = first[:, None] + np.arange(chunk_length)
    return np.minimum(rows, last[:, None]), rows > last[:, None]


def split_episodes(
    count: int, held_out_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the episodes to hold out of training.

    A fraction above 0 holds out at least one of two or more episodes; at least one episode is
    always left to train on. The same count, fraction and seed give the same split.

    Returns:
        int64 (train,) and int64 (held out,), each ascending; together every episode once.
    """
    if not 0 <= held_out_fraction < 1:
        raise UserError(f"held_out_fraction must be at least 0 and below 1: {held_out_fraction}")
    wanted = round(count * held_out_fraction)
    if held_out_fraction > 0:
        wanted = max(wanted, 1)
    wanted = min(wanted, count - 1)
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[wanted:]), np.sort(order[:wanted])
