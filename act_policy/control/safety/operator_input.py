"""A person's stop and go: keys, a pedal, a signal, a hook. Stop always wins.

    space, or any other key     stop: hold, until
    enter                       go: at the start, and again after a stop or a fault
    t                           take over with the operator's device, and hand back
    p                           stop, and go slowly to the parking place
    q                           end the run

A pedal is a keyboard to the computer: set it to send a space. SIGINT (Ctrl-C), SIGTERM, SIGQUIT
and SIGHUP (the terminal is gone) end the run, a second one even if something hangs, and SIGUSR1
stops like the space bar. Ctrl-S and Ctrl-Z are keys like any other. Losing the keyboard stops, too.
"""

import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
BUNCH_SECONDS = 0.5
"""Signals that follow one another faster are of one occasion, such as a system that shuts down."""


class OperatorInput:
    """Collects what the operator wants until the loop asks.

    Args:
        stop_hook: the owner's stop input, asked at every tick; True stops.
    """

    def __init__(self, stop_hook: Callable[[], bool] | None = None):
        self._stop_hook = stop_hook
        # Written by the keyboard's thread and by signals, at any moment: each stop is kept.
        self._stops: deque[str] = deque()
        self._go = self._take_over = self._park = False
        self.ended = ""  # what ends the run
        self._ended_at = -math.inf  # when a signal did

    def stop_requested(self) -> str:
        """Return the source of a stop since the last call; "" if there was none."""
        try:
            if self._stop_hook is not None and self._stop_hook():
                self.stop("stop hook")
        except Exception as error:  # a pedal that cannot be read may well be pressed
            self.stop(f"the stop hook failed: {error!r}")
        stopped = ""
        while self._stops:
            stopped = self._stops.popleft()
        if stopped:
            self._go = self._park = False  # it also withdraws what nobody has seen yet
        return stopped

    def go_requested(self) -> bool:
        """Whether the operator lets the arm move, once."""
        go, self._go = self._go, False
        return go

    def handover_requested(self) -> bool:
        """Whether the operator takes over or hands back, once."""
        take_over, self._take_over = self._take_over, False
        return take_over

    def park_requested(self) -> bool:
        """Whether the operator sends the arm to its parking place, once."""
        park, self._park = self._park, False
        return park

    def forget(self) -> None:
        """Forget all but stops and the end: a fault has come, which nobody had seen by then."""
        self._go = self._take_over = self._park = False

    def key(self, character: str) -> None:
        """A key was pressed."""
        if character in ("\n", "\r"):
            self._go = True
        elif character == "t":
            self._take_over = True
        elif character == "p":
            self._park = True
        elif character == "q":
            self.ended = "key q"
        else:
            self.stop("key")

    def stop(self, source: str) -> None:
        """Stop, from anywhere."""
        self._stops.append(source)

    @contextmanager
    def listening(self, stream: TextIO | None = None) -> Iterator[None]:
        """Listen to signals and to the keyboard, `stream` or the standard input."""
        before = {
            number: signal.signal(number, self._signal)
            for number in (*ENDING_SIGNALS, signal.SIGUSR1)
        }
        try:
            with _unbuffered(stream or sys.stdin) as keys:
                threading.Thread(target=self._read, args=(keys,), daemon=True).start()
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if number == signal.SIGUSR1:
            self.stop(name)
        elif not self.ended:
            self.ended, self._ended_at = name, time.monotonic()
        elif time.monotonic() - self._ended_at > BUNCH_SECONDS:
            raise KeyboardInterrupt(f"a second {name}")  # something hangs: get out of it

    def _read(self, keys: TextIO) -> None:
        """Read keys until the keyboard is gone, then stop."""
        raw = keys.buffer  # as bytes: a key that is not text must not end the reading
        why = "the keyboard is gone"
        try:
            while key := raw.read(1):
                self.key(key.decode("latin-1"))
        except Exception as error:
            why = f"{why}: {error!r}"
        if not self.ended:  # else it closed behind the last key
            self.stop(why)


@contextmanager
def _unbuffered(stream: TextIO) -> Iterator[TextIO]:
    """Let a terminal pass on every key at once; anything else is read as it comes."""
    if not stream.isatty():
        yield stream
        return
    import termios
    import tty

    before = termios.tcgetattr(stream)
    # Nothing waits for what was printed: on a terminal that nobody reads it is never shown.
    tty.setcbreak(stream, termios.TCSANOW)
    termios.tcflush(stream, termios.TCIFLUSH)  # keys of the time before are not meant for the arm
    mode = termios.tcgetattr(stream)
    mode[0] &= ~termios.IXON  # Ctrl-S would hold up the next line that is printed, and so the loop
    mode[3] &= ~termios.IEXTEN
    for key in (termios.VSUSP, termios.VQUIT):  # Ctrl-Z and Ctrl-\ would leave the arm alone
        mode[6][key] = b"\0"
    termios.tcsetattr(stream, termios.TCSANOW, mode)
    try:
        yield stream
    finally:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(stream, termios.TCSANOW, before)
