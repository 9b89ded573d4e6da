"""RUN/report.html during training: losses, and the error of each action in physical units."""

import time
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from act_policy.data.loading.batches import Batch
from act_policy.report.learning_curves import ERROR_PREFIX, draw_learning_curves
from act_policy.report.page import render_page, write_page
from act_policy.training.run.metrics_file import MetricsFile
from act_policy.training.run.run_folder import REPORT_FILE


class TrainingReport(lightning.Callback):
    """Measures and logs held-out errors in physical units; keeps the run's report up to date.

    The report is written every `refresh_seconds` and after each held-out loss. A browser that
    shows it reloads it every `refresh_seconds` until training ends.
    """

    def __init__(self, refresh_seconds: int = 60) -> None:
        self.refresh_seconds = refresh_seconds
        self._written = time.monotonic()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write the report if `refresh_seconds` have passed."""
        if time.monotonic() - self._written >= self.refresh_seconds:
            self._write(trainer, module, self.refresh_seconds)

    def on_validation_epoch_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Reset the sums: of each action's errors, then of the steps."""
        self._sums: Tensor | None = None

    def on_validation_batch_end(
        self,
        trainer: lightning.Trainer,
        module: Any,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add up; outputs is the normalised |error| (b, k, a) that validation_step returns."""
        valid = ~batch.is_pad
        errors = outputs[valid].double().sum(dim=0) * module.policy.normalizer.action_scale
        sums = torch.cat([errors, valid.sum().double()[None]])
        self._sums = sums if self._sums is None else self._sums + sums

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Log the mean over all processes and write the report."""
        if self._sums is not None:
            sums = trainer.strategy.reduce(self._sums, reduce_op="sum")
            means = (sums[:-1] / sums[-1].clamp(min=1)).tolist()
            names = module.policy.schema.action_names
            errors = {ERROR_PREFIX + n: mean for n, mean in zip(names, means, strict=True)}
            for logger in trainer.loggers:
                logger.log_metrics(errors, trainer.global_step)
        self._write(trainer, module, self.refresh_seconds)

    def on_fit_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write the page a last time, without reloading; every result has been logged."""
        self._write(trainer, module, None)

    def _write(self, trainer: lightning.Trainer, module: Any, refresh: int | None) -> None:
        self._written = time.monotonic()
        files = [logger for logger in trainer.loggers if isinstance(logger, MetricsFile)]
        if not files or not trainer.is_global_zero:
            return
        rows = [{name: float(value) for name, value in row.items()} for row in files[0].rows]
        folder = Path(trainer.default_root_dir)
        curves = draw_learning_curves(rows, module.policy.schema)
        page = render_page("training", f"Training of {folder.name}", refresh, curves=curves)
        write_page(folder / REPORT_FILE, page)
