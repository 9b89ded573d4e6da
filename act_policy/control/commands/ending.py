"""The signals that end a command: at any moment, and always with the robot disconnected.

A signal raises `Ended` where the command is, and everything that was begun is undone on the way
out. While the loop runs, `OperatorInput` has the signals instead, and the loop ends with a hold.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from act_policy.control.safety.operator_input import BUNCH_SECONDS, ENDING_SIGNALS


class Ended(KeyboardInterrupt):
    """A signal ends the command.

    number: of the signal.
    """

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


class EndingSignals:
    """Raise `Ended` at a signal, but not in the middle of what must be finished.

    Signals that come in a bunch count once.
    """

    def __init__(self) -> None:
        self._finishing = self._spared = False
        self._last = -math.inf

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Listen to the signals."""
        before = {number: signal.signal(number, self._handle) for number in ENDING_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Let only somebody who insists interrupt what follows: by a second signal, later."""
        self._finishing, outer = True, self._finishing
        try:
            yield
        finally:
            self._finishing = outer

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        bunch, self._last = now - self._last < BUNCH_SECONDS, now
        if bunch:
            return
        if self._finishing and not self._spared:
            self._spared = True
            return
        raise Ended(number)
