"""Files that are always either whole or absent, even after a kill or on a full disk."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from act_policy.system.locks import create_locked, lock_shared, try_lock

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


def link_or_copy(source: Path, target: Path) -> None:
    """Give `source` a second name; copy it if the file system has no hard links.

    Raises:
        OSError: the folder or the file cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    temporary.unlink(missing_ok=True)
    with source.open("rb") as original:
        lock_shared(original)  # and so its other name, which looks like a killed writer's file
        try:
            os.link(source, temporary)
        except OSError:
            with atomic_file(target) as file:
                shutil.copyfileobj(original, file)
        else:
            os.replace(temporary, target)
            # of two names of one file, which target may have been already, `replace` does nothing
            temporary.unlink(missing_ok=True)


def remove_partial_files(folder: Path) -> None:
    """Remove the temporary files of writers that were killed; a living writer holds a lock."""
    for partial in folder.glob(f".*{PARTIAL_SUFFIX}"):
        try:
            with partial.open("rb") as file:
                if try_lock(file):  # else it is still being written
                    partial.unlink(missing_ok=True)
        except OSError:  # already removed by another process
            continue
