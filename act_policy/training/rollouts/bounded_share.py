"""How much a process beside training may run, so that training stays almost as fast as alone."""

LIMIT = 0.1
"""Of the time that the steps would have taken alone: at most this much may be added to it."""
AIM = 0.08
"""Share of the time at which the process rests; the difference is for what cannot be foreseen."""
WINDOW_SECONDS, WINDOW_STEPS = 1.0, 5
"""A process runs or rests at least for so long, so that both can be told apart."""
LONGEST_WINDOW = 20.0
"""Seconds after which it rests for a moment: how fast steps are alone must stay known."""
START_SECONDS = 10.0
"""In which a process that is started loads what it needs and cannot rest."""
UNKNOWN = 1.0
"""Slowdown that is expected before any was measured: steps take twice as long."""
MEMORY = 0.98
"""Weight of what was known about a step's time, against the time of one more step."""


class BoundedShare:
    """Compares steps while a process runs beside them with steps while it rests, and rations it.

    What the steps lost by the process is known from the difference. The process may run while this
    is less than `AIM` of the time that they would have taken alone.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of all steps."""
        self.shared_seconds = 0.0
        """Of the steps during which the process ran."""
        self.lost = 0.0
        """Of these, what they took longer than alone."""
        self._alone = self._shared = 0.0
        self._runs = False
        self._window_seconds, self._window_steps = 0.0, 0

    def add_step(self, seconds: float) -> None:
        """Count a step and the waiting for its data."""
        self.seconds += seconds
        self._window_seconds += seconds
        self._window_steps += 1
        if self._runs:
            self.shared_seconds += seconds
            self.lost += seconds - self._alone
            self._shared = _average(self._shared, seconds)
        elif self._window_steps > 1:  # the process may have rested for a part of the first only
            self._alone = _average(self._alone, seconds)

    def let_run(self, runs: bool) -> None:
        """Take note that the process runs from now on, or rests."""
        if runs != self._runs:
            self._runs = runs
            self._window_seconds, self._window_steps = 0.0, 0

    def may_start(self) -> bool:
        """Tell whether the process may be started, after which it cannot rest for a while."""
        return self._is_known() and self._fits(START_SECONDS)

    def may_run(self) -> bool:
        """Tell whether the process, once it can rest, may run during the next step."""
        if self._window_seconds < WINDOW_SECONDS or self._window_steps < WINDOW_STEPS:
            return self._runs
        if self._runs:
            return self._window_seconds < LONGEST_WINDOW and self._fits(0.0)
        return self._is_known() and self._fits(max(WINDOW_SECONDS, WINDOW_STEPS * self._alone))

    @property
    def slowdown(self) -> float:
        """How much longer the steps took than they would have taken alone, as a share of that."""
        return max(self.lost, 0.0) / (self.seconds - self.lost) if self.seconds else 0.0

    def describe(self) -> str:
        """Say how long the process ran and what it cost."""
        if not self.shared_seconds:
            return "nothing was evaluated beside the steps"
        share = self.shared_seconds / self.seconds
        return (
            f"evaluations ran beside {share:.0%} of the training, which took {self.slowdown:.1%} "
            f"longer for it (at most {LIMIT:.0%})"
        )

    def _is_known(self) -> bool:
        return not self._runs and self._window_steps > WINDOW_STEPS

    def _fits(self, seconds: float) -> bool:
        """Tell whether steps that would take so long alone can be taken beside the process."""
        slowed = max(self._shared / self._alone - 1, 0.0) if self._shared else UNKNOWN
        return self.lost + seconds * slowed <= AIM * (self.seconds - self.lost)


def _average(before: float, seconds: float) -> float:
    return seconds if before == 0.0 else MEMORY * before + (1 - MEMORY) * seconds
