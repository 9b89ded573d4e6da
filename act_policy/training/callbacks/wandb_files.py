"""What Weights & Biases gets beside the numbers: configuration, pictures, the best checkpoints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.loggers import WandbLogger

from act_policy.data.loading.batches import Batch
from act_policy.training.run.run_folder import BEST_SUCCESS, CONFIG_FILE, REPORT_FILE

PICTURES = 4
"""Number of samples whose images are logged."""


class WandbFiles(lightning.Callback):
    """Logs the configuration, images of the first batch, and at the end the page and checkpoints.

    It comes after the callbacks that write them.

    config: settings of the run.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._has_pictures = False

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Log the configuration."""
        for run in _runs(trainer):
            run.config.update(self._config, allow_val_change=True)

    def on_train_batch_start(
        self, trainer: lightning.Trainer, module: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Log what the first samples look like."""
        if self._has_pictures:
            return
        self._has_pictures = True
        for run in _runs(trainer):
            import wandb

            for camera, images in batch.observation.images.items():
                pictures = [wandb.Image(image.numpy()) for image in images[:PICTURES].cpu()]
                run.log({f"samples/{camera}": pictures}, commit=False)

    def on_fit_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Log the report, and the checkpoints as an artifact."""
        folder = Path(trainer.default_root_dir)
        best = [folder / "checkpoints" / name for name in ("best.ckpt", BEST_SUCCESS)]
        for run in _runs(trainer):
            import wandb

            artifact = wandb.Artifact(f"policy-{run.id}", type="model")
            for path in (*best, folder / REPORT_FILE, folder / CONFIG_FILE):
                if path.is_file():
                    artifact.add_file(str(path))
            run.log_artifact(artifact)


def _runs(trainer: lightning.Trainer) -> list[Any]:
    """Return the runs of Weights & Biases that this process writes."""
    if not trainer.is_global_zero:
        return []
    return [logger.experiment for logger in trainer.loggers if isinstance(logger, WandbLogger)]
