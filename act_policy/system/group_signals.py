"""Processes that the signals to a whole group, as of a terminal that closes, do not end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def unreached_by_group_signals() -> Iterator[None]:
    """Start processes that never get SIGHUP and SIGQUIT, and multiprocessing's tracker with them.

    This process is to end them. A signal that comes meanwhile waits for the end of the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGQUIT})
    try:
        resource_tracker.ensure_running()  # shared memory starts it, and complains if it dies
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
