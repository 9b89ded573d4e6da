"""From a config to a training run: the policy, its training, and the call of the trainer."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch

from act_policy.checkpoints.backbone_weights import load_backbone_weights
from act_policy.checkpoints.bundle import read_policy
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.model.act import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.training.fine_tuning import keep_normalisation, start_from
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.policy_training import PolicyTraining
from act_policy.training.stop_on_signal import StopOnSignal
from act_policy.types import Schema, Statistics


def build_policy(
    model: Mapping[str, Any],
    data: DemonstrationDataModule,
    seed: int,
    checkpoint: Path | None = None,
    initial: ACTPolicy | None = None,
    fine_tuned: bool = False,
    backbone_weights: str | Path | None = None,
) -> ACTPolicy:
    """Make the policy for these demonstrations.

    Args:
        model: fields of ACTConfig that the schema does not give.
        data: gives schema, statistics and the seeds of the demonstrations.
        seed: of the random weights.
        checkpoint: of the run to resume: its statistics are kept, its weights are loaded later.
        initial: a policy to start from, see `fine_tuning`.
        fine_tuned: whether the run to resume started from a policy.
        backbone_weights: of a new network's image encoder, see `load_backbone_weights`.

    Raises:
        UserError: the config or the demonstrations differ from those of the checkpoint.
    """
    config = ACTConfig.for_schema(data.schema, **model)
    statistics = data.statistics
    if checkpoint is not None:
        saved = read_policy(checkpoint)
        _check_same(checkpoint, saved.config, config, saved.schema, data.schema)
        if fine_tuned:
            statistics = keep_normalisation(saved.statistics, statistics)
        _check_same_statistics(checkpoint, saved.statistics, statistics)
        statistics = saved.statistics
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: expected 0 to {2**32 - 1}, found {seed}")
    lightning.seed_everything(seed, workers=True, verbose=False)
    if initial is not None:
        policy = start_from(initial, data.schema, statistics)
        shown = {*initial.demonstration_seeds, *data.demonstration_seeds}
        policy.demonstration_seeds = tuple(sorted(shown))
        return policy
    policy = ACTPolicy(config, data.schema, statistics)
    policy.demonstration_seeds = data.demonstration_seeds
    if checkpoint is None:
        load_backbone_weights(policy.act.image_encoder.backbone, backbone_weights)
    return policy


def build_training(
    model: Mapping[str, Any],
    optimizer: OptimizerConfig,
    data: DemonstrationDataModule,
    max_steps: int,
    max_minutes: float | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    initial: ACTPolicy | None = None,
    fine_tuned: bool = False,
    kl_weight: float | None = None,
    backbone_weights: str | Path | None = None,
) -> PolicyTraining:
    """Make the policy and what trains it; see `build_policy` and `PolicyTraining`.

    Raises:
        UserError: a setting is impossible, or a resumed run cannot change it.
    """
    if checkpoint is not None:
        weights = _read_run(checkpoint)["state_dict"]
        averaged = any(name.startswith("average.") for name in weights)
        if averaged != bool(optimizer.ema_decay):
            raise UserError(
                f"optim.ema_decay={optimizer.ema_decay}: {checkpoint} was trained "
                f"{'with' if averaged else 'without'} averaged weights, and a resumed run cannot "
                "change that"
            )
    return PolicyTraining(
        build_policy(model, data, seed, checkpoint, initial, fine_tuned, backbone_weights),
        optimizer,
        max_steps,
        max_minutes,
        kl_weight,
        seed,
        [episode.name for episode in data.dataset.episodes],
    )


def finished(checkpoint: Path, max_steps: int, max_minutes: float | None = None) -> str | None:
    """Explain why nothing is left to train after this checkpoint; None if something is.

    Raises:
        UserError: the file is not a checkpoint of a run.
    """
    run = _read_run(checkpoint)
    step, minutes = int(run["global_step"]), float(run["training"]["minutes"])
    if step >= max_steps:
        return f"finished: step {step} of {max_steps}; a larger max_steps= trains on"
    if isinstance(max_minutes, int | float) and minutes >= max_minutes:
        return f"finished: {minutes:.1f} of {max_minutes} minutes; a larger max_minutes= trains on"
    return None


def train(
    training: PolicyTraining,
    data: DemonstrationDataModule,
    trainer: lightning.Trainer,
    checkpoint: Path | None = None,
) -> None:
    """Train to the end.

    Raises:
        KeyboardInterrupt: a signal stopped training; there is a checkpoint to resume from.
        UserError: the network cannot be trained on these batches, or training diverged.
    """
    _check_last_batch(training.policy, data, trainer.world_size)
    if len(data.held_out_samples) == 0:
        trainer.limit_val_batches = 0
    try:
        trainer.fit(training, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except SystemExit:  # how Lightning ends after the second Ctrl-C
        raise KeyboardInterrupt from None
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, StopOnSignal) and callback.received is not None:
            raise KeyboardInterrupt(
                f"after step {trainer.global_step}; go on with resume={trainer.default_root_dir}"
            )


def _check_same(
    checkpoint: Path, config: ACTConfig, wanted: ACTConfig, schema: Schema, found: Schema
) -> None:
    if differences := schema.differences(found):
        raise UserError(f"{checkpoint} has another schema: {'; '.join(differences)}")
    before, now = config.to_dict(), wanted.to_dict()
    if changed := [f"{n} was {before[n]}, now {now[n]}" for n in before if before[n] != now[n]]:
        raise UserError(
            f"{checkpoint}: a resumed run cannot change its network, but {'; '.join(changed)}"
        )


def _check_same_statistics(checkpoint: Path, before: Statistics, now: Statistics) -> None:
    saved, found = before.to_dict(), now.to_dict()
    changed = [
        f"{name} was {saved.get(name)}, now {found.get(name)}"
        for name in ("step_count", "std_floor", "relative_actions")
        if saved.get(name) != found.get(name)
    ]
    changed += [
        f"statistics of {field} differ"
        for field in ("state", "action", "environment_state")
        if not all(
            # another CPU may add up in another order
            np.allclose(values, found[field][name], rtol=1e-9, atol=1e-12)
            for name, values in (saved[field] or {}).items()
        )
    ]
    if changed:
        raise UserError(
            f"{checkpoint} was trained on other data: {'; '.join(changed)}; resume with the same "
            "demonstrations, split and data.std_floor"
        )


def _check_last_batch(policy: ACTPolicy, data: DemonstrationDataModule, processes: int) -> None:
    """Raise UserError if a batch gives batch norm a single value, which has no variance."""
    backbone = policy.act.image_encoder.backbone
    cells = min(math.prod(backbone.map_size(c.height, c.width)) for c in policy.config.cameras)
    if policy.config.backbone_norm != "batch" or cells > 1:
        return
    size, samples = data.batch_size, math.ceil(data.samples_an_epoch / processes)
    if size == 1 or samples % size == 1:
        raise UserError(
            f"data.batch_size={size}: the last batch of {samples} samples has one sample, whose "
            "feature map is one cell, and batch norm needs more; choose another data.batch_size, "
            "model.backbone_norm=group or fewer model.backbone_stages"
        )


def _read_run(checkpoint: Path) -> Mapping[str, Any]:
    """Read a checkpoint of a run; tensors stay on disk until they are used."""
    try:
        found = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise UserError(f"{checkpoint} cannot be read as a checkpoint: {error}") from error
    if not isinstance(found, Mapping) or "training" not in found:
        raise UserError(f"{checkpoint} is not a checkpoint of a training run of act_policy")
    return found
