"""The bar or lines shown during training, and the values that the loggers get."""

import sys
import time
from typing import Any

import lightning
import torch
from tqdm import tqdm

from act_policy.training.plan.plan import show_seconds
from act_policy.training.run.metrics_file import MetricsFile

BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_fmt}{postfix}]"
"""tqdm's own, without the time that it expects to be left: a limit in minutes may come first."""


class Progress(lightning.Callback):
    """Logs every few steps and after each held-out loss; shows one bar for the whole run.

    Without a terminal, a line every `line_seconds` takes the place of the bar. Both tell the time
    that is left, at the speed so far with held-out losses included.
    """

    def __init__(self, line_seconds: float = 20.0) -> None:
        self.line_seconds = line_seconds
        self.stream = sys.stderr
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}
        self._samples = 0
        self._since = self._last_line = time.monotonic()
        self._begin = self._since, 0

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Start at the step from which training goes on."""
        for logger in trainer.loggers:
            if isinstance(logger, MetricsFile) and trainer.global_step:
                logger.continue_from(trainer.global_step)
        self._since = self._last_line = time.monotonic()
        self._begin = self._since, trainer.global_step
        if trainer.is_global_zero and self.stream.isatty():
            self._bar = tqdm(
                total=module.max_steps,
                initial=trainer.global_step,
                unit="step",
                file=self.stream,
                dynamic_ncols=True,
                bar_format=BAR,
            )

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the samples; log every log_every_n_steps of the trainer, and at the end."""
        self._samples += len(batch.actions) * trainer.world_size
        if self._bar is not None:
            self._bar.update(trainer.global_step - self._bar.n)
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        is_end = trainer.should_stop and not module.interrupted  # which adds no row to the file
        if not module.step_is_complete or (trainer.global_step % every and not is_end):
            return
        metrics = {name: float(value) for name, value in module.measured.items()}
        # each process has the losses of its own part of the batch
        for name in ("train_l1", "train_kl"):
            if name in metrics and trainer.world_size > 1:
                local = torch.tensor(metrics[name], device=module.device)
                metrics[name] = float(trainer.strategy.reduce(local, reduce_op="mean"))
        now = time.monotonic()
        metrics |= {
            "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            "samples_per_second": self._samples / max(now - self._since, 1e-9),
        }
        self._samples, self._since = 0, now
        self._log(trainer, module, metrics)
        if "train_l1" in metrics:  # else the step was left out
            self._show(trainer, module, {"train": f"{metrics['train_l1']:.4f}"})

    def on_validation_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Stop the clock: held-out losses do not count as training time."""
        self._paused = time.monotonic()

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Log the held-out losses in the row of the step they judge."""
        self._since += time.monotonic() - self._paused
        self._log(trainer, module, module.held_out)
        self._show(trainer, module, {"held-out": f"{module.held_out['held_out_l1']:.4f}"})

    def on_train_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Show the last step."""
        self._last_line = 0.0
        self._show(trainer, module, {})
        if self._bar is not None:
            self._bar.close()

    def on_exception(
        self, trainer: lightning.Trainer, module: Any, exception: BaseException
    ) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def _log(self, trainer: lightning.Trainer, module: Any, values: dict[str, float]) -> None:
        step = trainer.global_step
        metrics = {"epoch": float(trainer.current_epoch), "minutes": module.minutes, **values}
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step)

    def _show(self, trainer: lightning.Trainer, module: Any, values: dict[str, str]) -> None:
        self._shown |= values
        if self._bar is not None:
            left = show_seconds(self._seconds_left(trainer, module))
            self._bar.set_postfix({**self._shown, "left": left})
        elif trainer.is_global_zero and time.monotonic() - self._last_line >= self.line_seconds:
            self._last_line = time.monotonic()
            losses = "  ".join(f"{name} {value}" for name, value in self._shown.items())
            step = f"step {trainer.global_step}/{module.max_steps}"
            left = show_seconds(self._seconds_left(trainer, module))
            print(
                f"{step}  {module.minutes:.1f} min  {losses}  {left} left",
                file=self.stream,
                flush=True,
            )

    def _seconds_left(self, trainer: lightning.Trainer, module: Any) -> float:
        """Seconds until the last step, or until the limit in minutes if that comes first."""
        began, first = self._begin
        pace = (time.monotonic() - began) / max(trainer.global_step - first, 1)
        left: float = pace * max(module.max_steps - trainer.global_step, 0)
        if module.max_minutes is not None:
            left = min(left, 60 * max(module.max_minutes - module.minutes, 0.0))
        return left
