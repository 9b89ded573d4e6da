"""Which faults a fake robot has now: said beforehand, or switched while it runs.

The environment variable FAULT has names, separated by commas: `NAME` is there from the beginning,
`NAME:SECONDS` from so long after the first command on. The file that SWITCH names holds the names
of those that a test has switched on meanwhile.
"""

import multiprocessing
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path


class Faults:
    """Faults by name; the first command sets the clock."""

    def __init__(self) -> None:
        told = [fault.partition(":") for fault in os.environ.get("FAULT", "").split(",")]
        self._from = {name: float(seconds or 0) for name, _, seconds in told}
        self._switch = Path(os.environ.get("SWITCH", os.devnull))
        self._asked: Counter[str] = Counter()
        self._stopped = False
        self.first_command: float | None = None

    def on(self, name: str) -> bool:
        """Whether this fault is present now."""
        if name in self._switched():
            return True
        begin = self._from.get(name)
        if begin is None or begin == 0:
            return begin == 0
        first = self.first_command
        return first is not None and time.monotonic() - first >= begin

    def once(self, name: str, times: int = 1) -> bool:
        """Whether this fault is present now, at the first so many questions."""
        if self._asked[name] >= times or not self.on(name):
            return False
        self._asked[name] += 1
        return True

    def _switched(self) -> list[str]:
        with suppress(OSError):
            return self._switch.read_text().split()
        return []

    def strike_policy(self) -> None:
        """Stop, continue or kill the policy's process."""
        stop, kill = self.on("stop_policy"), self.once("kill_policy")
        if stop == self._stopped and not kill:
            return
        (child,) = multiprocessing.active_children()
        assert child.pid is not None
        if kill:
            os.kill(child.pid, signal.SIGKILL)
        else:
            os.kill(child.pid, signal.SIGSTOP if stop else signal.SIGCONT)
        self._stopped = stop
