"""Where the time of a run went: training steps, waiting for data, held-out losses, checkpoints."""

import time
from collections.abc import Callable

from lightning.pytorch.profilers import Profiler

STEPS, DATA, HELD_OUT, CHECKPOINTS = (
    "forward and backward",
    "waiting for data",
    "held-out losses",
    "checkpoints",
)
OTHER = "the rest"
_BEGINS = {
    "run_training_batch": STEPS,
    "[_TrainingEpochLoop].train_dataloader_next": DATA,
    "save_checkpoint": CHECKPOINTS,
}
_HELD_OUT_BEGINS = "[LightningModule]PolicyTraining.on_validation_start"
_HELD_OUT_ENDS = "[LightningModule]PolicyTraining.on_validation_end"
_WHOLE = "run_training_epoch"
LARGE = 0.1
"""Share of the time from which a phase other than the steps is worth a remark."""


class TimeSpent(Profiler):
    """Lightning's profiler, which adds up seconds of each phase; what is inside another is not its.

    clock: returns seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.seconds = dict.fromkeys((STEPS, DATA, HELD_OUT, CHECKPOINTS, OTHER), 0.0)
        self._clock = clock
        self._phases: list[str] = []
        self._since = 0.0

    def start(self, action_name: str) -> None:
        """Begin a phase, if this is where one begins."""
        if action_name in _BEGINS or action_name == _WHOLE:
            self._enter(_BEGINS.get(action_name, OTHER))
        elif action_name == _HELD_OUT_BEGINS:
            self._enter(HELD_OUT)

    def stop(self, action_name: str) -> None:
        """End a phase, if this is where one ends."""
        if action_name in _BEGINS or action_name in (_WHOLE, _HELD_OUT_ENDS):
            self._leave()

    def _enter(self, phase: str) -> None:
        self._add()
        self._phases.append(phase)

    def _leave(self) -> None:
        self._add()
        if self._phases:
            self._phases.pop()

    def _add(self) -> None:
        now = self._clock()
        if self._phases:
            self.seconds[self._phases[-1]] += now - self._since
        self._since = now

    def describe_shares(self, workers: int) -> str:
        """Say which share of the time each phase took, and what would make the run faster.

        workers: processes that fetched batches.
        """
        total = sum(self.seconds.values())
        if total == 0:
            return "no time was spent"
        shares = {phase: spent / total for phase, spent in self.seconds.items()}
        listed = ", ".join(
            f"{share:.0%} {phase}"
            for phase, share in sorted(shares.items(), key=lambda item: -item[1])
            if share >= 0.005
        )
        return f"time: {listed}; faster: {self._advise(shares, workers)}"

    @staticmethod
    def _advise(shares: dict[str, float], workers: int) -> str:
        advice = {
            DATA: (
                f"data.workers={max(2, 2 * workers)} fetches while the network computes; "
                "data.cache=auto decodes only once"
            ),
            HELD_OUT: "a larger validate_every, or a smaller data.held_out_fraction",
            CHECKPOINTS: "a larger validate_every, which also spaces checkpoints, or a faster disk",
        }
        if remarks := [text for phase, text in advice.items() if shares[phase] >= LARGE]:
            return "; ".join(remarks)
        return "the steps themselves decide: a GPU, compile=true, smaller images or network"
