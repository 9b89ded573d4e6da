"""Signals that ask training to stop: it saves after the current step, then ends."""

import signal
from typing import Any

import lightning

from act_policy.system.stop_signals import handle_stop_signals, restore_handlers


class StopOnSignal(lightning.Callback):
    """Ends training after the current step at one of the stop signals, at once at the second.

    It comes before the callbacks that log and save, so that they see the last step as the last. Of
    several processes, one that gets the signal is enough: they agree after each step.
    """

    def __init__(self) -> None:
        self._received = False
        self._before: dict[int, Any] = {}

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Install the handlers."""
        self._received = False
        self._before = handle_stop_signals(self._stop)

    def _stop(self, number: int, frame: Any) -> None:
        self._received = True
        for each in self._before:
            # no Python: it would wait for a call that never returns, if another process has died
            signal.signal(each, signal.SIG_DFL)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop here and not in the handler, which may run between two callbacks of a step."""
        if not module.step_is_complete:
            return
        stop = self._received
        if trainer.world_size > 1:
            stop = trainer.strategy.reduce_boolean_decision(stop, all=False)
        if stop and not trainer.should_stop:  # else this is the last step anyway
            module.interrupted = trainer.should_stop = True
            if not module.validation_is_due:
                trainer.limit_val_batches = 0  # whoever sent the signal may not wait for it

    def on_train_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Restore the handlers, unless a further signal is still to end the process at once."""
        if not self._received:
            restore_handlers(self._before)

    def on_exception(
        self, trainer: lightning.Trainer, module: Any, exception: BaseException
    ) -> None:
        """Restore the handlers."""
        restore_handlers(self._before)
