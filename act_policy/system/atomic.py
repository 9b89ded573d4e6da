"""Files that are either whole or not there, also after a kill or on a full disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from act_policy.system.locks import create_locked, try_lock

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
    try:
        with create_locked(partial, "wb") as file:
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
                if try_lock(file):  # else it is still being written
                    partial.unlink(missing_ok=True)
        except OSError:  # already removed by another process
            continue
