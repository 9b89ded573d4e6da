"""From settings to a training run: the policy, its training, and the call of the trainer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
import torch

from act_policy.data.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.model.act import ACTConfig
from act_policy.model.backbone import load_backbone_weights
from act_policy.model.checkpoint import read_policy
from act_policy.model.policy import ACTPolicy
from act_policy.training.module import PolicyTraining
from act_policy.training.monitor import StopOnSignal
from act_policy.training.optimizer import OptimizerConfig
from act_policy.types import Schema


def build_policy(
    model: Mapping[str, Any],
    data: DemonstrationDataModule,
    seed: int,
    checkpoint: Path | None = None,
) -> ACTPolicy:
    """Make the policy for these demonstrations.

    Args:
        model: fields of ACTConfig that the schema does not give, and backbone_weights.
        data: gives schema, statistics and the seeds that were shown.
        seed: of the random weights.
        checkpoint: of a run that goes on: its statistics are kept, its weights come later.

    Raises:
        UserError: the settings or the demonstrations are not those of the checkpoint.
    """
    fields = {name: value for name, value in model.items() if name != "backbone_weights"}
    config = ACTConfig.for_schema(data.schema, **fields)
    statistics = data.statistics
    if checkpoint is not None:
        saved = read_policy(checkpoint)
        _check_same(checkpoint, saved.config, config, saved.schema, data.schema)
        if saved.statistics.step_count != statistics.step_count:
            raise UserError(
                f"{checkpoint} was trained on {saved.statistics.step_count} steps, the training "
                f"episodes now have {statistics.step_count}; resume with the same demonstrations"
            )
        statistics = saved.statistics
    lightning.seed_everything(seed, workers=True, verbose=False)
    policy = ACTPolicy(config, data.schema, statistics)
    policy.demonstration_seeds = data.demonstration_seeds
    if checkpoint is None:
        weights = model.get("backbone_weights")
        load_backbone_weights(policy.act.image_encoder.backbone, weights)
    # convolutions then read the images as they come, channels last: faster on GPU and CPU
    return policy.to(memory_format=torch.channels_last)


def build_training(
    model: Mapping[str, Any],
    optimizer: OptimizerConfig,
    data: DemonstrationDataModule,
    max_steps: int,
    max_minutes: float | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> PolicyTraining:
    """Make the policy and what trains it; see `build_policy` and `PolicyTraining`.

    model also holds kl_weight.
    """
    if checkpoint is not None:
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
        done, minutes = int(saved["global_step"]), float(saved["training"]["minutes"])
        if done >= max_steps:
            raise UserError(
                f"{checkpoint} is at step {done} of {max_steps}: the run is finished; give a "
                "larger max_steps= to train on"
            )
        if max_minutes is not None and minutes >= max_minutes:
            raise UserError(
                f"{checkpoint} has had {minutes:.1f} of {max_minutes} minutes: the run is "
                "finished; give a larger max_minutes= to train on"
            )
    fields = {name: value for name, value in model.items() if name != "kl_weight"}
    return PolicyTraining(
        build_policy(fields, data, seed, checkpoint),
        optimizer,
        max_steps,
        max_minutes,
        model.get("kl_weight"),
        seed,
        data.dataset.episode_names,
    )


def train(
    training: PolicyTraining,
    data: DemonstrationDataModule,
    trainer: lightning.Trainer,
    checkpoint: Path | None = None,
) -> None:
    """Train to the end.

    Raises:
        KeyboardInterrupt: a signal ended it before; there is a checkpoint to resume from.
    """
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
        raise UserError(f"{checkpoint} is of another schema: {'; '.join(differences)}")
    before, now = config.to_dict(), wanted.to_dict()
    if changed := [f"{n} was {before[n]}, now {now[n]}" for n in before if before[n] != now[n]]:
        raise UserError(
            f"{checkpoint}: a resumed run cannot change its network, but {'; '.join(changed)}"
        )
