"""Build caches of decoded frames: in parallel, once, and continued after an interruption."""

import copy
import errno
import json
import os
import shutil
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from tqdm import tqdm

from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.data.frames.encoding import COMPACT_SHARE, HEADER, encode
from act_policy.data.frames.journal import Journal
from act_policy.errors import UserError
from act_policy.system.atomic import atomic_file, remove_partial_files
from act_policy.system.locks import lock, lock_shared, try_lock
from act_policy.system.processes import usable_cores
from act_policy.types import Camera


class CacheFile(NamedTuple):
    """A file of one camera's frames of some episodes, one episode after the other.

    The report beside it says which frames could not be decoded.
    frames: their number in all.
    compact: whether each place holds a JPEG where a raw frame would be, see `encoding`.
    """

    path: Path
    camera: Camera
    episodes: tuple[int, ...]
    frames: int
    compact: bool = False

    @property
    def report(self) -> Path:
        """JSON, {"undecodable": [[episode, step], ...]}; written when every frame is."""
        return self.path.with_suffix(".json")

    @property
    def unfinished(self) -> Path:
        """The file until every frame is in it."""
        return self.path.with_suffix(".unfinished")

    @property
    def journal(self) -> Path:
        """Says which episodes are in `unfinished`, see `Journal`."""
        return self.path.with_suffix(".journal")

    @property
    def place_size(self) -> int:
        """Bytes from the beginning of one frame to that of the next."""
        raw = self.camera.height * self.camera.width * 3
        return raw + HEADER if self.compact else raw

    @property
    def size(self) -> int:
        """Bytes of the file; a compact one takes fewer on disk."""
        return self.place_size * self.frames

    @property
    def need(self) -> int:
        """Bytes that it takes on disk, about."""
        return self.size // COMPACT_SHARE if self.compact else self.size

    @property
    def is_whole(self) -> bool:
        """Whether it has been built."""
        return self.path.exists() and self.report.exists()

    def open_journal(self) -> Journal:
        """Read which episodes an interrupted builder has decoded."""
        return Journal(self.journal, self.unfinished, self.size)


class InUse:
    """Keeps a cache from being removed by other processes for as long as this object lives."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, file)
        lock_shared(file)


def build(
    dataset: DemonstrationDataset,
    folder: Path,
    caches: Sequence[CacheFile],
    undecodable: str = "stop",
) -> list[InUse]:
    """Decode the caches that are missing; of several processes one decodes and the others wait.

    Where a builder is interrupted or killed the next one goes on, episode by episode; an error
    leaves nothing. Caches of other selections that no process uses are removed.

    Args:
        dataset: the demonstrations; its `frame` is called in several threads, on copies.
        folder: holds the caches.
        caches: those that are needed.
        undecodable: "stop" at a frame that cannot be decoded, or "skip" it.

    Raises:
        UserError: a frame cannot be decoded, or the disk is full.
        KeyboardInterrupt: with a message that says how to go on.
    """
    if not caches:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not all(cache.is_whole for cache in caches):
            with (folder / ".lock").open("wb") as file:
                if not try_lock(file):
                    print(f"{folder}: another process is decoding; waiting for it", flush=True)
                    lock(file)
                if missing := [cache for cache in caches if not cache.is_whole]:
                    _remove_unused(folder, caches)
                    try:
                        _decode(dataset, missing, undecodable)
                    except Exception:  # not an interruption: nothing is in the way of a new attempt
                        for cache in missing:
                            cache.journal.unlink(missing_ok=True)
                            cache.unfinished.unlink(missing_ok=True)
                        raise
        return [InUse(cache.path) for cache in caches]
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"while decoding; the episodes that are decoded stay in {folder}, and the same command "
            "goes on with the others"
        ) from None
    except OSError as error:
        need = sum(cache.need for cache in caches)
        raise UserError(
            f"{folder}: decoded frames could not be written ({error.strerror}); they need "
            f"{_bytes(need)}. Free some space, choose another folder with data.cache=FOLDER, "
            "smaller images with data.select.resize, or decode while training with data.cache=null."
        ) from error


def _remove_unused(folder: Path, needed: Sequence[CacheFile]) -> None:
    """Remove what earlier selections left for these cameras, unless some process still reads it."""
    kept = {cache.path for cache in needed}
    cameras = {_camera_part(cache.path) for cache in needed}
    for path in folder.glob("*-????????????????.frames"):
        if path in kept or _camera_part(path) not in cameras:
            continue
        with path.open("rb") as file:
            if try_lock(file):
                path.with_suffix(".json").unlink(missing_ok=True)
                path.unlink(missing_ok=True)
    for path in folder.glob("*-????????????????.unfinished"):
        if path.with_suffix(".frames") not in kept and _camera_part(path) in cameras:
            path.with_suffix(".journal").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def _camera_part(path: Path) -> str:
    return path.stem.rpartition("-")[0]


def _decode(dataset: DemonstrationDataset, caches: Sequence[CacheFile], undecodable: str) -> None:
    """Decode every frame into its place, episode by episode, with one thread per core."""
    folder = caches[0].path.parent
    remove_partial_files(folder)
    journals = [cache.open_journal() for cache in caches]
    begun = [bool(journal.undecodable) for journal in journals]
    need = sum(cache.need for cache, there in zip(caches, begun, strict=True) if not there)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {_bytes(free)} are free")
    names = ", ".join(cache.camera.name for cache in caches)
    frames = sum(cache.frames for cache in caches)
    done = sum(int(dataset.lengths[e]) for journal in journals for e in journal.undecodable)
    print(
        f"decoding {frames} frames of {names}, once: they stay in {folder} and take "
        f"{'about ' * caches[0].compact}{_bytes(sum(cache.need for cache in caches))} of the "
        f"{_bytes(free)} that are free" + (f"; {done} are decoded already" if done else ""),
        flush=True,
    )
    own = threading.local()  # each thread opens its own files
    stop = threading.Event()

    with tqdm(total=frames, initial=done, desc="decoding", unit="frame", disable=None) as bar:

        def decode_episode(
            cache: CacheFile, episode: int, place: int, file: int
        ) -> list[int] | None:
            """Write an episode's frames, the first at `place`; return the undecodable steps.

            None if it was told to stop before it had written all of them.
            """
            if not hasattr(own, "dataset"):
                own.dataset = copy.copy(dataset)
                own.dataset.close()
            broken: list[int] = []
            for step in range(int(dataset.lengths[episode])):
                if stop.is_set():
                    return None
                try:
                    frame = own.dataset.frame(episode, step, cache.camera.name)
                    content = encode(frame) if cache.compact else frame
                    _write(file, content, (place + step) * cache.place_size)
                except UndecodableFrameError:
                    if undecodable == "stop":
                        raise
                    broken.append(step)  # its place stays empty; it is never read
                bar.update()
            return broken

        with ThreadPoolExecutor(usable_cores()) as pool:
            for cache, journal in zip(caches, journals, strict=True):
                with _open_unfinished(cache, new=not journal.undecodable) as file:
                    jobs: dict[Future[list[int] | None], int] = {}
                    place = 0
                    for episode in cache.episodes:
                        if episode not in journal.undecodable:
                            job = pool.submit(decode_episode, cache, episode, place, file.fileno())
                            jobs[job] = episode
                        place += int(dataset.lengths[episode])
                    try:
                        for job in as_completed(jobs):
                            if (broken := job.result()) is not None:
                                journal.note(jobs[job], broken)
                            if journal.is_due():
                                journal.write(file)
                    except BaseException:
                        stop.set()  # the file must stay open while a thread may write
                        pool.shutdown(cancel_futures=True)
                        for job, episode in jobs.items():
                            if job.cancelled() or job.exception() is not None:
                                continue
                            if (broken := job.result()) is not None:
                                journal.note(episode, broken)
                        raise
                    finally:
                        journal.write(file)
                    every = [(e, step) for e in cache.episodes for step in journal.undecodable[e]]
                    with atomic_file(cache.report) as report:
                        report.write(json.dumps({"undecodable": every}).encode())
                    os.replace(cache.unfinished, cache.path)
                cache.journal.unlink(missing_ok=True)


def _open_unfinished(cache: CacheFile, new: bool) -> BinaryIO:
    """Open the file to write into, with its whole size; that of raw frames is reserved."""
    if new:
        cache.journal.unlink(missing_ok=True)
    file = cache.unfinished.open("w+b" if new else "r+b")
    if cache.compact:
        file.truncate(cache.size)  # holes, which take no space
    else:
        os.posix_fallocate(file.fileno(), 0, cache.size)  # a disk that is too full says so now
    return file


def _bytes(size: int) -> str:
    """A number of bytes for a person, with one to three digits before the point."""
    power = min(max((len(f"{size}") - 1) // 3, 1), 4)
    return f"{size / 1000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def _write(file: int, frame: np.ndarray | bytes, offset: int) -> None:
    raw = frame if isinstance(frame, bytes) else np.ascontiguousarray(frame).data
    content = memoryview(raw).cast("B")
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written
