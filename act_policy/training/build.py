"""From a config to a training run: the policy, its training, and the call of the trainer."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning

from act_policy.checkpoints.backbone_weights import load_backbone_weights
from act_policy.checkpoints.bundle import read_policy
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.system.stop_signals import BEFORE_TRAINING, StoppedBySignal
from act_policy.training.augmentation import Augmentation, AugmentationConfig
from act_policy.training.fine_tuning import start_from
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.policy_training import PolicyTraining
from act_policy.training.run.resume import check_same_averaging, find_statistics

NOBODY_CHOSE = Execution()


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
    augmentation: AugmentationConfig | None = None,
    execution: Execution = NOBODY_CHOSE,
    skip_non_finite: int = 0,
    compiles: bool = False,
) -> PolicyTraining:
    """Make the policy for these demonstrations and what trains it; see `PolicyTraining`.

    Args:
        model: fields of ACTConfig that the schema does not give.
        optimizer: settings of the optimiser.
        data: gives schema, statistics and the seeds of the demonstrations.
        max_steps: where training ends.
        max_minutes: ends training if this limit is reached first.
        seed: of the random weights and of training.
        checkpoint: of the run to resume: its statistics are kept, its weights are loaded later.
        initial: a policy to start from, see `fine_tuning`.
        fine_tuned: whether the run to resume started from a policy.
        kl_weight: weight of the KL term; None without a CVAE.
        backbone_weights: of a new network's image encoder, see `load_backbone_weights`.
        augmentation: how samples are changed; None leaves them as they are.
        execution: of its chunks by default, which the policy carries.
        skip_non_finite: steps that may be left out because they are not finite.
        compiles: whether to compile the network, where that works.

    Raises:
        UserError: a setting is impossible, or a resumed run cannot change it.
    """
    if checkpoint is not None:
        data.known_tasks = read_policy(checkpoint).schema.tasks
    elif initial is not None:
        data.known_tasks = initial.schema.tasks
    config = ACTConfig.for_schema(data.schema, **model)
    statistics = data.statistics
    if checkpoint is not None:
        check_same_averaging(checkpoint, optimizer)
        statistics = find_statistics(checkpoint, config, data.schema, statistics, fine_tuned)
    if not 0 <= seed < 2**32:
        raise UserError(f"seed: expected 0 to {2**32 - 1}, found {seed}")
    lightning.seed_everything(seed, workers=True, verbose=False)
    if initial is not None:
        policy = start_from(initial, data.schema, statistics)
    else:
        policy = ACTPolicy(config, data.schema, statistics)
        if checkpoint is None:
            load_backbone_weights(policy.act.image_encoder.backbone, backbone_weights)
    policy.execution = execution
    if (execution.execute_steps or 0) > config.chunk_length:
        raise UserError(
            f"execution.execute_steps={execution.execute_steps}: expected at most "
            f"model.chunk_length, {config.chunk_length}"
        )
    shown = {*policy.demonstration_seeds, *data.demonstration_seeds}
    policy.demonstration_seeds = tuple(sorted(shown))
    names = [episode.name for episode in data.dataset.episodes]
    augment = None
    if augmentation is not None:
        augment = Augmentation(augmentation, data.schema.camera_names)
    return PolicyTraining(
        policy,
        optimizer,
        max_steps,
        max_minutes,
        kl_weight,
        seed,
        names,
        augment,
        skip_non_finite,
        compiles,
    )


def train(
    training: PolicyTraining,
    data: DemonstrationDataModule,
    trainer: lightning.Trainer,
    checkpoint: Path | None = None,
) -> None:
    """Train to the end.

    Raises:
        StoppedBySignal: a signal stopped training; nothing that was trained is lost.
        UserError: the network cannot be trained on these batches, or training diverged.
    """
    _check_last_batch(training.policy, data, trainer.world_size, trainer.accumulate_grad_batches)
    if len(data.held_out_samples) == 0:
        trainer.limit_val_batches = 0
    try:
        trainer.fit(training, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    except SystemExit:  # how Lightning ends after a signal before the first step
        raise StoppedBySignal(BEFORE_TRAINING) from None
    if training.interrupted:
        raise StoppedBySignal(
            f"after step {trainer.global_step}; go on with resume={trainer.default_root_dir}"
        )


def _check_last_batch(
    policy: ACTPolicy, data: DemonstrationDataModule, processes: int, batches: int
) -> None:
    """Raise UserError if a batch gives batch norm a single value, which has no variance."""
    backbone = policy.act.image_encoder.backbone
    cells = min(math.prod(backbone.map_size(c.height, c.width)) for c in policy.config.cameras)
    if policy.config.backbone_norm != "batch" or cells > 1:
        return
    size, samples = data.batch_size, math.ceil(data.samples_per_epoch / processes)
    if size == 1 or (batches == 1 and samples % size == 1):
        raise UserError(
            f"data.batch_size={size}: the last batch of {samples} samples has one sample, whose "
            "feature map is one cell, and batch norm needs more; choose another data.batch_size, "
            "model.backbone_norm=group or fewer model.backbone_stages"
        )
