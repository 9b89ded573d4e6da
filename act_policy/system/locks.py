"""Locks on open files, with which processes take turns; killing a process releases its locks.

A lock ends when its file is closed.
"""

import fcntl
import os
from pathlib import Path
from typing import Any, BinaryIO

File = BinaryIO | int
"""An open file, or its descriptor."""


def lock(file: File) -> None:
    """Lock a file exclusively; wait until every other lock on it has ended."""
    fcntl.flock(file, fcntl.LOCK_EX)


def lock_shared(file: File) -> None:
    """Share the lock on a file with other processes; exclusive locks have to wait."""
    fcntl.flock(file, fcntl.LOCK_SH)


def try_lock(file: File) -> bool:
    """Lock a file exclusively without waiting; return False if another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def create_locked(path: Path, mode: str, buffering: int = -1) -> Any:
    """Create a file and lock it exclusively; mode and buffering as for `open`."""
    while True:
        file: Any = path.open(mode, buffering)
        lock(file)
        # Between open and lock another process may have removed it as a dead writer's file.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()
