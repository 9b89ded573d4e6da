"""Mean, deviation and range of state and action, in float64, over exactly the given episodes."""

from collections.abc import Callable, Sequence

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, place_of
from act_policy.errors import UserError
from act_policy.types import FieldStatistics, Statistics


def compute_statistics(
    dataset: DemonstrationDataset, episodes: Sequence[int] | np.ndarray, std_floor: float = 1e-2
) -> Statistics:
    """Measure every step of the given episodes as if they were one long one.

    Args:
        dataset: the demonstrations.
        episodes: indices of the episodes that are trained on.
        std_floor: smallest divisor of the normaliser, in physical units.

    Raises:
        UserError: no episode, a floor that is not positive, or a value that is not finite
            (named by file, step and dimension).
    """
    if len(episodes) == 0:
        raise UserError("statistics need at least one episode")
    if not std_floor > 0:
        raise UserError(f"std_floor must be positive, found {std_floor}")
    episodes = [int(episode) for episode in episodes]
    check_finite(dataset, episodes)
    return Statistics(
        state=_field(dataset.state, episodes),
        action=_field(dataset.action, episodes),
        step_count=int(sum(dataset.lengths[episode] for episode in episodes)),
        std_floor=std_floor,
    )


def check_finite(
    dataset: DemonstrationDataset, episodes: Sequence[int] | np.ndarray | None = None
) -> None:
    """Raise UserError at the first state or action that is NaN or infinite, naming its place."""
    for episode in range(dataset.episode_count) if episodes is None else episodes:
        for field, values, names in (
            ("state", dataset.state(episode), dataset.schema.state_names),
            ("action", dataset.action(episode), dataset.schema.action_names),
        ):
            if not (finite := np.isfinite(values)).all():
                step, dimension = np.argwhere(~finite)[0]
                raise UserError(
                    f"{place_of(dataset, episode)}: {field} {names[dimension]} at step {step} "
                    f"is {values[step, dimension]}; expected a finite number. "
                    "Repair the episode or take it out of the dataset."
                )


def _field(
    values_of: Callable[[int], np.ndarray], episodes: Sequence[int] | np.ndarray
) -> FieldStatistics:
    # Two passes: the deviation from the mean is exact where a sum of squares would cancel.
    steps = sum(len(values_of(episode)) for episode in episodes)
    mean = sum(values_of(e).sum(axis=0, dtype=np.float64) for e in episodes) / steps
    variance = sum(((values_of(e) - mean) ** 2).sum(axis=0) for e in episodes) / steps
    return FieldStatistics(
        mean=np.asarray(mean),
        std=np.sqrt(variance),
        min=np.min([values_of(e).min(axis=0) for e in episodes], axis=0).astype(np.float64),
        max=np.max([values_of(e).max(axis=0) for e in episodes], axis=0).astype(np.float64),
    )
