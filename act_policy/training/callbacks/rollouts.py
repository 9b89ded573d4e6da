"""Evaluates the policy in simulation every few steps while training goes on."""

import time
from pathlib import Path
from typing import Any

import lightning

from act_policy.system.atomic import link_or_copy
from act_policy.training.callbacks.checkpoints import Checkpoints
from act_policy.training.rollouts.queue import RolloutConfig, RolloutQueue
from act_policy.training.rollouts.records import RolloutFolder, hash_weights


class Rollouts(lightning.Callback):
    """Hands the policy to a `RolloutQueue` every few steps, and once more at the end.

    It comes after `Checkpoints`, whose file it shares where both write one.

    every: steps between two policies that are evaluated.
    config: how they are evaluated.
    """

    KEPT = 3
    """Checkpoints more than without it: under way, waiting, and the best so far."""

    def __init__(self, every: int, config: RolloutConfig) -> None:
        self.every = every
        self.config = config
        self._queue: RolloutQueue | None = None
        self._is_due = False
        self._since: float | None = None

    def setup(self, trainer: lightning.Trainer, module: Any, stage: str) -> None:
        """Say how much room on the disk this takes."""
        for callback in _checkpoints(trainer):
            callback.kept_by_others = self.KEPT

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Take up what a resumed run has left."""
        self._since = None
        if not trainer.is_global_zero:
            return
        run, step = Path(trainer.default_root_dir), trainer.global_step
        self._queue = RolloutQueue(run, self.config, trainer.loggers)
        self._queue.go_on(step)
        if step and step % self.every == 0 and trainer.ckpt_path is not None:
            # it may have been killed after it had saved the policy and before it handed it over
            link_or_copy(Path(trainer.ckpt_path), RolloutFolder(run).policy_path(step))
            self._queue.add(step, hash_weights(module.best_policy.state_dict()))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measure the step; hand over the policy if its time has come."""
        if not module.step_is_complete:
            return
        if self._queue is not None:
            now = time.monotonic()
            if self._since is not None:
                self._queue.share.add_step(now - self._since)
            self._since = now
            self._queue.attend(trainer.global_step)
        is_end = trainer.should_stop and not module.interrupted
        self._is_due = trainer.global_step % self.every == 0 or is_end
        judged = module.validation_is_due or trainer.should_stop
        if self._is_due and not (judged and trainer.enable_validation):
            self._hand_over(trainer, module)

    def on_validation_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Leave held-out losses out of the time of a step."""
        self._since = None

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Hand over the policy that was just judged and saved."""
        if self._is_due:
            self._hand_over(trainer, module)

    def on_train_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Finish what is under way, unless a signal is to end the run."""
        queue = self._queue
        if queue is None:
            return
        if not module.interrupted:
            try:
                queue.evaluate_rest(trainer.global_step)
            except KeyboardInterrupt:  # of a signal that comes now
                module.interrupted = True
        queue.stop()
        if not module.interrupted:
            print(queue.describe(trainer.global_step), flush=True)

    def on_exception(
        self, trainer: lightning.Trainer, module: Any, exception: BaseException
    ) -> None:
        """End the process."""
        if self._queue is not None:
            self._queue.stop()

    def _hand_over(self, trainer: lightning.Trainer, module: Any) -> None:
        self._is_due, self._since = False, None
        run, step = Path(trainer.default_root_dir), trainer.global_step
        is_saved = any(callback.saved_step == step for callback in _checkpoints(trainer))
        queue, path = self._queue, RolloutFolder(run).policy_path(step)
        if not is_saved:
            trainer.save_checkpoint(path)  # by all processes together
        if queue is None:
            return
        if is_saved:
            link_or_copy(run / "checkpoints" / "last.ckpt", path)
        queue.add(step, hash_weights(module.best_policy.state_dict()))


def _checkpoints(trainer: lightning.Trainer) -> list[Checkpoints]:
    """Return the callback that writes checkpoints, if there is one."""
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, Checkpoints)]
