"""Checkpoints that survive a kill: each file is whole, either the old one or the new one."""

import math
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from act_policy.errors import UserError, check_whole_number
from act_policy.system.atomic import atomic_file, link_or_copy
from act_policy.training.callbacks.disk_room import check_room, size_of_checkpoint


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint writer, by a temporary file that is renamed when it is complete."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        """Write the checkpoint, or raise UserError and keep those that are there."""
        path = Path(path)
        try:
            with atomic_file(path) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
            raise UserError(
                f"{path}: the checkpoint cannot be written ({error}); free some space, then "
                f"{how_to_go_on(path.parent.parent)}"
            ) from None


def how_to_go_on(run: Path) -> str:
    """Say how a run that failed goes on: from its last checkpoint, or from the beginning."""
    if any((run / "checkpoints").glob("*.ckpt")):
        return f"go on from the last checkpoint, which is intact, with resume={run}"
    return "start it again: the run has no checkpoint yet"


class Checkpoints(lightning.Callback):
    """Keeps RUN/checkpoints/last.ckpt, and best.ckpt, the one with the lowest held-out L1.

    Checkpoints are written after each held-out loss, and last also where a signal ends training.
    Without held-out episodes they are written equally often, and best is the same as last, as it is
    before the first held-out loss.

    keep_every: keep step_<number>.ckpt as well, every so many steps; None keeps no others.
    """

    def __init__(self, keep_every: int | None = None) -> None:
        check_whole_number("callbacks.checkpoints.keep_every", keep_every or 1, 1)
        self.keep_every = keep_every
        self.kept_by_others = 0
        """Checkpoints that another callback keeps at a time."""
        self.best: float | None = None
        self.saved_step = -1

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Refuse to begin what the disk has no room for."""
        if trainer.is_global_zero:
            kept = (module.max_steps - trainer.global_step) // (self.keep_every or math.inf)
            kept = int(kept) + self.kept_by_others
            check_room(Path(trainer.default_root_dir), size_of_checkpoint(module), kept)

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Save the policy that was just judged."""
        if not trainer.sanity_checking:
            self._save(trainer, module.held_out.get("held_out_l1"))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if there is no held-out loss to wait for."""
        if not module.step_is_complete:
            return
        if module.validation_is_due or trainer.should_stop:
            if not trainer.enable_validation:  # else the held-out loss comes first
                self._save(trainer, None)
        elif self.keep_every and trainer.global_step % self.keep_every == 0:
            trainer.save_checkpoint(self._kept(trainer))

    def _save(self, trainer: lightning.Trainer, held_out: float | None) -> None:
        if trainer.global_step == self.saved_step:
            return
        is_best = self.best is None or (held_out is not None and held_out < self.best)
        if is_best:
            self.best = held_out
        for logger in trainer.loggers:
            logger.save()  # so that no kill leaves a checkpoint without the rows up to it
        folder = Path(trainer.default_root_dir) / "checkpoints"
        best, last = folder / "best.ckpt", folder / "last.ckpt"
        trainer.save_checkpoint(best if is_best else last)
        self.saved_step = trainer.global_step
        if is_best and trainer.is_global_zero:
            # after a kill between the two, a resumed run repeats the steps since the old last
            link_or_copy(best, last)
        keeps = self.keep_every and trainer.global_step % self.keep_every == 0
        if keeps and trainer.is_global_zero:
            link_or_copy(last, self._kept(trainer))

    @staticmethod
    def _kept(trainer: lightning.Trainer) -> Path:
        folder = Path(trainer.default_root_dir) / "checkpoints"
        return folder / f"step_{trainer.global_step:08}.ckpt"

    def state_dict(self) -> dict[str, Any]:
        """Hold the lowest held-out loss so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the lowest held-out loss of the resumed run."""
        self.best = state_dict["best"]
