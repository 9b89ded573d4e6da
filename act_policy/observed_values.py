"""Checks of the numbers that an observation brings, as numpy arrays."""

from typing import Any

import numpy as np

from act_policy.errors import UserError


def check_prefix(key: str, values: Any, batch: tuple[int, ...], action_size: int) -> np.ndarray:
    """Return float32 (*batch, p, a), whole rows of numbers and then whole rows of NaN.

    Raises:
        UserError: it is anything else; the key names it.
    """
    prefix = np.asarray(values, np.float32)
    if (
        prefix.ndim != len(batch) + 2
        or prefix.shape[:-2] != batch
        or prefix.shape[-1] != action_size
    ):
        expected = (*batch, "p", action_size)
        raise UserError(f"{key}: shape {prefix.shape}, expected {expected}")
    free = np.isnan(prefix)
    in_order = (np.diff(free.astype(int), axis=-2) >= 0).all()
    if np.isinf(prefix).any() or not (free.all(-1) == free.any(-1)).all() or not in_order:
        raise UserError(f"{key}: expected rows of finite numbers, and then only rows of NaN")
    return prefix


def check_vector(
    key: str, values: Any, batch: tuple[int, ...], names: tuple[str, ...]
) -> np.ndarray:
    """Return finite float32 (*batch, len(names)); UserError names the key and the dimensions."""
    if np.shape(values) != (*batch, len(names)):
        raise UserError(f"{key}: shape {np.shape(values)}, expected {(*batch, len(names))}")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite
        vector = np.asarray(values, np.float32)
    if not (finite := np.isfinite(vector)).all():
        where = [names[i] for i in np.unique(np.argwhere(~finite)[:, -1])]
        raise UserError(f"{key}: not a finite number in {', '.join(where)}")
    return vector
