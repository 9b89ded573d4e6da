"""Says once if training takes much longer, or is over much sooner, than was planned."""

import sys
import time
from collections.abc import Callable
from typing import Any

import lightning

from act_policy.training.plan.plan import show_seconds


class PlannedTime(lightning.Callback):
    """Compares the time of a step with the planned one after a minute of training.

    Args:
        step_seconds: planned for a step.
        patience: seconds after which they are compared.
        clock: gives seconds.
    """

    OFF = 4 / 3
    """A message appears if steps are this many times slower or faster than planned."""

    def __init__(
        self,
        step_seconds: float,
        patience: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.step_seconds = step_seconds
        self.patience = patience
        self._clock = clock
        self._begin: tuple[float, int] | None = None
        self._is_done = False

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Compare, when the time has come; the first step is not counted."""
        if self._is_done or trainer.should_stop or not trainer.is_global_zero:
            return
        now, step = self._clock(), trainer.global_step
        if self._begin is None:
            self._begin = now, step
            return
        seconds = now - self._begin[0]
        if seconds < self.patience:
            return
        self._is_done = True
        taken = seconds / (step - self._begin[1])
        if 1 / self.OFF < taken / self.step_seconds < self.OFF:
            return
        print(self._describe(taken, module), file=sys.stderr, flush=True)

    def _describe(self, taken: float, module: Any) -> str:
        """Say what it means that a step takes this time."""
        text = f"a step takes {taken:.2g} s, not {self.step_seconds:.2g} s as planned"
        whole, planned = (module.max_steps * one for one in (taken, self.step_seconds))
        if whole < planned:
            return (
                f"{text}: training will take {show_seconds(whole)}, not {show_seconds(planned)}; "
                "afterwards, resume=RUN budget=1h trains on until it is an hour in all"
            )
        limit = module.max_minutes
        if limit is None or whole <= 60 * limit:
            return (
                f"{text} (are other programs busy?): training will take {show_seconds(whole)}, "
                f"not {show_seconds(planned)}"
            )
        return (
            f"{text} (are other programs busy?): there is time for about "
            f"{int(60 * limit / taken):,} of {module.max_steps:,} steps; training ends in time all "
            "the same, and afterwards resume=RUN with a larger budget= trains on"
        )
