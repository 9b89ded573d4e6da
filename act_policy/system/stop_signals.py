"""Signals that ask training to stop, and the exit code that says it is to be started again."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Ctrl-C, what schedulers send before they kill, and what SLURM is asked to send earlier."""
BEFORE_TRAINING = "before the first step; start it again with the same command"


class StoppedBySignal(KeyboardInterrupt):
    """Training was asked to stop and has saved; the same command goes on."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h: try again later."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Raise StoppedBySignal where a signal comes while there is nothing to save yet."""

    def stop(number: int, frame: object) -> None:
        raise StoppedBySignal(BEFORE_TRAINING)

    before = handle_stop_signals(stop)
    try:
        yield
    finally:
        restore_handlers(before)


def handle_stop_signals(handler: Callable[[int, Any], None]) -> dict[int, Any]:
    """Install a handler, and return those before it.

    A signal that is ignored stays so, like Ctrl-C where a script trains in the background. Only the
    main thread can install handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


def restore_handlers(before: dict[int, Any]) -> None:
    """Take back what `handle_stop_signals` did."""
    while before:
        signal.signal(*before.popitem())


def ignore_stop_signals() -> None:
    """Let another process decide when this one ends, also at signals to the whole group."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
