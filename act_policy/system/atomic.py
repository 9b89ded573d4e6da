"""Files that are either whole or not there, also after a kill or on a full disk."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PARTIAL_SUFFIX = ".partial"


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` that takes its name once it is whole and on the disk.

    If the body raises, the temporary file goes and whatever `path` held stays. What killed
    writers left in the folder is removed on the way.

    Raises:
        OSError: the folder or the file cannot be written (no space, no permission).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    while True:
        file = partial.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        # Between open and lock another process may have taken the file for a dead writer's.
        if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
            break
        file.close()
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name too survives a power cut
    finally:
        os.close(folder)


def remove_partial_files(folder: Path) -> None:
    """Remove the temporary files of writers that were killed; a living writer holds a lock."""
    for partial in folder.glob(f".*{PARTIAL_SUFFIX}"):
        try:
            with partial.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                partial.unlink(missing_ok=True)
        except OSError:  # still being written, or already removed by another process
            continue
