"""Threads keep the scheduling that they had, whatever a library does to it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextmanager
def keep_scheduling() -> Iterator[None]:
    """Undo what happens inside to the scheduling of this process's threads; Linux only.

    SVT-AV1, run by root as in a container, gives the calling thread and its own the highest
    real-time priority (SCHED_FIFO, 99): everything else on the machine waits, a robot's loop too.
    New threads get the scheduling of the calling one.
    """
    before = _scheduling()
    mine = before.get(threading.get_native_id())
    try:
        yield
    finally:
        for thread, (policy, priority) in _scheduling().items():
            wanted = before.get(thread, mine)
            if wanted is not None and wanted != (policy, priority):
                with suppress(ProcessLookupError):  # it has ended
                    os.sched_setscheduler(thread, wanted[0], os.sched_param(wanted[1]))


def _scheduling() -> dict[int, tuple[int, int]]:
    """Policy and priority of each thread."""
    found: dict[int, tuple[int, int]] = {}
    if not _TASKS.is_dir():
        return found
    for thread in map(int, os.listdir(_TASKS)):
        try:
            policy, parameters = os.sched_getscheduler(thread), os.sched_getparam(thread)
        except ProcessLookupError:
            continue
        found[thread] = policy, parameters.sched_priority
    return found
