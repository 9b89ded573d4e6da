"""Locks on open files, by which processes take turns; a process that is killed holds none.

A lock ends when its file is closed.
"""

import fcntl
import os
from pathlib import Path
from typing import Any, BinaryIO

File = BinaryIO | int
"""An open file, or its descriptor."""


def lock(file: File) -> None:
    """Lock a file for this process alone, waiting until every other lock on it has ended."""
    fcntl.flock(file, fcntl.LOCK_EX)


def lock_shared(file: File) -> None:
    """Lock a file beside other processes that share it, and against those that want it alone."""
    fcntl.flock(file, fcntl.LOCK_SH)


def try_lock(file: File) -> bool:
    """Lock a file for this process alone without waiting; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def create_locked(path: Path, mode: str, buffering: int = -1) -> Any:
    """Create a file that this process alone has locked; mode and buffering as for `open`."""
    while True:
        file: Any = path.open(mode, buffering)
        lock(file)
        # Between open and lock another process may have taken the file for a dead writer's.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()
