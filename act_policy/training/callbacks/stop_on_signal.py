"""Ctrl-C and SIGTERM: training ends after the current step, with a checkpoint."""

import signal
import threading
from typing import Any

import lightning


class StopOnSignal(lightning.Callback):
    """Ends training after the current step at Ctrl-C or SIGTERM, and at once at the second.

    It comes before the callbacks that log and save, so that they see the last step as the last.
    `received` is the signal's number, or None if training ended by itself.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Install the handlers, unless other processes train too: one cannot stop the others."""
        if trainer.world_size > 1 or threading.current_thread() is not threading.main_thread():
            return

        def stop(number: int, frame: Any) -> None:
            self.received = number
            self._restore()

        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, stop)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop here and not in the handler, which may run between two callbacks of a step."""
        if self.received is not None:
            trainer.should_stop = True

    def on_train_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Restore the handlers."""
        self._restore()

    def on_exception(
        self, trainer: lightning.Trainer, module: Any, exception: BaseException
    ) -> None:
        """Restore the handlers."""
        self._restore()

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
