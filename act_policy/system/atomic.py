"""Files that are always either whole or absent, even after a kill or on a full disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from act_policy.system.locks import create_locked, try_lock

PARTIAL_SUFFIX = ".partial"


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`, and rename it to `path` once it is whole and on disk.

    If the body raises, the temporary file is removed and `path` stays as it was. Temporary files
    that killed writers left in the folder are removed as well.

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
        os.fsync(folder)  # so that the new name survives a power cut, too
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
