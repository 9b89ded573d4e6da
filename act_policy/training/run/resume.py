"""Resuming: tell whether a run is finished, and refuse what would not continue it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.checkpoints.bundle import read_policy
from act_policy.checkpoints.files import read_checkpoint
from act_policy.errors import UserError
from act_policy.model.config import ACTConfig
from act_policy.statistics import Statistics
from act_policy.training.fine_tuning import keep_normalisation
from act_policy.training.optimizer import OptimizerConfig
from act_policy.types import Schema


def finished(checkpoint: Path, max_steps: int, max_minutes: float | None = None) -> str | None:
    """Explain why nothing is left to train after this checkpoint; None if something is.

    Raises:
        UserError: the file is not a checkpoint of a run.
    """
    run = _read_run(checkpoint)
    step, minutes = int(run["global_step"]), float(run["training"]["minutes"])
    if step >= max_steps:
        return f"finished: step {step} of {max_steps}; a larger max_steps= or budget= trains on"
    if isinstance(max_minutes, int | float) and minutes >= max_minutes:
        return f"finished: {minutes:.1f} of {max_minutes} minutes; a larger budget= trains on"
    return None


def steps_within(checkpoint: Path, minutes: float) -> int:
    """Return the last step of a run that may train for so many minutes in all.

    It is as fast as it was before. The cosine is stretched to the new end: a run that was finished
    goes on at the learning rate that a longer one would have had by now.

    Raises:
        UserError: the file is not a checkpoint of a run, or that time is over.
    """
    run = _read_run(checkpoint)
    step, taken = int(run["global_step"]), float(run["training"]["minutes"])
    if minutes <= taken:
        raise UserError(
            f"budget: {checkpoint} has {taken:.1f} minutes of training already, and a budget is "
            "for all of them; give more"
        )
    return step + max(int(step * (minutes / taken - 1)), 1) if taken > 0 else step + 1


def check_same_averaging(checkpoint: Path, optimizer: OptimizerConfig) -> None:
    """Raise UserError if weights are averaged now and were not, or the other way round."""
    averaged = any(name.startswith("average.") for name in _read_run(checkpoint)["state_dict"])
    if averaged != bool(optimizer.ema_decay):
        raise UserError(
            f"optim.ema_decay={optimizer.ema_decay}: {checkpoint} was trained "
            f"{'with' if averaged else 'without'} averaged weights, and a resumed run cannot "
            "change that"
        )


def find_statistics(
    checkpoint: Path, config: ACTConfig, schema: Schema, measured: Statistics, fine_tuned: bool
) -> Statistics:
    """Return the run's statistics; UserError if the network or the demonstrations changed.

    fine_tuned: whether the run started from a policy, whose normalisation it kept.
    """
    saved = read_policy(checkpoint)
    if differences := saved.schema.differences(schema):
        raise UserError(f"{checkpoint} has another schema: {'; '.join(differences)}")
    if changed := _list_changes(saved.config.to_dict(), config.to_dict()):
        raise UserError(
            f"{checkpoint}: a resumed run cannot change its network, but {'; '.join(changed)}"
        )
    if fine_tuned:
        measured = keep_normalisation(saved.statistics, measured)
    before, now = saved.statistics.to_dict(), measured.to_dict()
    changed = _list_changes(before, now, ("step_count", "std_floor", "relative_actions"))
    changed += [
        f"statistics of {field} differ"
        for field in ("state", "action", "environment_state")
        if not all(
            # another CPU may add up in another order
            np.allclose(values, now[field][name], rtol=1e-9, atol=1e-12)
            for name, values in (before[field] or {}).items()
        )
    ]
    if changed:
        raise UserError(
            f"{checkpoint} was trained on other data: {'; '.join(changed)}; resume with the same "
            "demonstrations, split and data.std_floor"
        )
    return saved.statistics


def _list_changes(
    before: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str] | None = None
) -> list[str]:
    return [
        f"{name} was {before.get(name)}, now {now.get(name)}"
        for name in names or before
        if before.get(name) != now.get(name)
    ]


def _read_run(checkpoint: Path) -> Mapping[str, Any]:
    found = read_checkpoint(checkpoint)
    if "training" not in found:
        raise UserError(f"{checkpoint} is not a checkpoint of a training run of act_policy")
    return found
