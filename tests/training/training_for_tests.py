"""A whole training run of about a second in this process, and a record of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch

from act_policy.data.aloha.episode import write_episode
from act_policy.data.loading.batches import Batch
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.model.policy import ACTPolicy
from act_policy.training.augmentation import AugmentationConfig
from act_policy.training.build import build_training, train
from act_policy.training.callbacks.checkpoints import Checkpoints
from act_policy.training.callbacks.progress import Progress
from act_policy.training.callbacks.stop_on_signal import StopOnSignal
from act_policy.training.engine.trainer import build_trainer
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.policy_training import PolicyTraining
from act_policy.training.run.metrics_file import MetricsFile
from act_policy.types import Camera, Schema
from tests.policy_for_tests import SMALLEST

SCHEMA = Schema(
    cameras=(Camera("front", 16, 16), Camera("wrist", 12, 20)),
    state_names=("x", "y"),
    state_units=("m", "m"),
    action_names=("dx", "dy", "grip"),
    action_units=("m", "m", ""),
    rate=10.0,
)


def write_demonstrations(
    folder: Path, lengths: tuple[int, ...] = (9, 2, 7, 6), seed: int = 0, environment: str = ""
) -> Path:
    """Write episodes of the given lengths with random content."""
    rng, schema = np.random.default_rng(seed), replace(SCHEMA, environment=environment)
    for episode, steps in enumerate(lengths):
        state = rng.normal(size=(steps, 2)).astype(np.float32)
        action = np.concatenate([2 * state, state[:, :1] > 0], axis=1).astype(np.float32)
        images = {
            camera.name: rng.integers(
                0, 256, (steps, camera.height, camera.width, 3), dtype=np.uint8
            )
            for camera in SCHEMA.cameras
        }
        write_episode(
            folder / f"episode_{episode:06}.hdf5", schema, images, state, action, seed=100 + episode
        )
    return folder


TINY: dict[str, Any] = SMALLEST | {
    "pre_norm": True,
    "activation": "gelu",
    "dropout": 0.1,
    "latent_size": 4,
    "latent_layers": 1,
    "backbone": "resnet18",
    "backbone_norm": "batch",
    "camera_embedding": True,
    "prefix_length": 0,
    "prefix_as": "tokens",
}
NO_CVAE: dict[str, Any] = {"latent_size": 0, "latent_layers": 0}


@dataclass
class Recorder(lightning.Callback):
    """Records each step, and stops after `stop_at` steps like Ctrl-C."""

    stop_at: int | None = None
    samples: list[list[tuple[int, int]]] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def on_train_batch_start(
        self, trainer: lightning.Trainer, module: Any, batch: Batch, batch_idx: int
    ) -> None:
        self.samples.append(list(zip(batch.episode.tolist(), batch.step.tolist(), strict=True)))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.steps.append(trainer.global_step)
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])
        if trainer.global_step == self.stop_at:
            trainer.should_stop = True


@dataclass
class Run:
    folder: Path
    training: PolicyTraining
    recorder: Recorder
    trainer: lightning.Trainer

    def weights(self) -> dict[str, torch.Tensor]:
        return self.training.state_dict()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"


def make_data(demonstrations: Path, **options: Any) -> DemonstrationDataModule:
    defaults: dict[str, Any] = {"chunk_length": 4, "batch_size": 4, "held_out_fraction": 0.25}
    config = {"path": demonstrations, **defaults, **options}
    chunk_length, seed = config.pop("chunk_length"), config.pop("seed", 0)
    return DemonstrationDataModule.from_config(config, chunk_length, seed)


def run_training(
    demonstrations: Path,
    folder: Path,
    *,
    max_steps: int = 10,
    validate_every: int = 5,
    stop_at: int | None = None,
    checkpoint: Path | None = None,
    model: dict[str, Any] | None = None,
    optimizer: OptimizerConfig | None = None,
    callbacks: Sequence[lightning.Callback] = (),
    max_minutes: float | None = None,
    initial: ACTPolicy | None = None,
    fine_tuned: bool = False,
    kl_weight: float = 1.0,
    augmentation: AugmentationConfig | None = None,
    accumulate: int = 1,
    keep_every: int | None = None,
    skip_non_finite: int = 0,
    compiles: bool = False,
    precision: str = "auto",
    **options: Any,
) -> Run:
    """Train act_tiny on the CPU; options are the data module's."""
    data = make_data(demonstrations, **options)
    network = TINY | (model or {})
    training = build_training(
        network,
        optimizer or OptimizerConfig(warmup_steps=2, ema_decay=0.9),
        data,
        max_steps,
        max_minutes,
        seed=3,
        checkpoint=checkpoint,
        initial=initial,
        fine_tuned=fine_tuned,
        kl_weight=kl_weight if network["latent_size"] else None,
        augmentation=augmentation,
        skip_non_finite=skip_non_finite,
        compiles=compiles,
    )
    recorder = Recorder(stop_at)
    trainer = build_trainer(
        folder,
        max_steps,
        validate_every,
        log_every=1,
        callbacks=[StopOnSignal(), recorder, Progress(), Checkpoints(keep_every), *callbacks],
        loggers=[MetricsFile(folder / "metrics.csv")],
        accelerator="cpu",
        precision=precision,
        accumulate=accumulate,
    )
    train(training, data, trainer, checkpoint)
    return Run(folder, training, recorder, trainer)


def assert_same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Check that both are equal to the bit."""
    assert one.keys() == other.keys()
    different = [name for name in one if not torch.equal(one[name], other[name])]
    assert different == []
