"""Build caches of decoded frames: in parallel, once, and whole or not at all."""

import copy
import errno
import json
import os
import shutil
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.errors import UserError
from act_policy.system.atomic import atomic_file, remove_partial_files
from act_policy.system.locks import lock, lock_shared, try_lock
from act_policy.system.processes import usable_cores
from act_policy.types import Camera


class CacheFile(NamedTuple):
    """A file of one camera's raw frames of some episodes, one episode after the other.

    The report beside it says which frames could not be decoded.
    frames: their number in all.
    """

    path: Path
    camera: Camera
    episodes: tuple[int, ...]
    frames: int

    @property
    def report(self) -> Path:
        """JSON, {"undecodable": [[episode, step], ...]}; written last."""
        return self.path.with_suffix(".json")

    @property
    def frame_size(self) -> int:
        """Bytes per frame."""
        return self.camera.height * self.camera.width * 3

    @property
    def size(self) -> int:
        """Bytes of all frames together."""
        return self.frame_size * self.frames

    @property
    def is_whole(self) -> bool:
        """Whether it has been built."""
        return self.path.exists() and self.report.exists()


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

    A builder that is killed leaves no cache. Caches of other selections that no process uses are
    removed.

    Args:
        dataset: the demonstrations; its `frame` is called in several threads, on copies.
        folder: holds the caches.
        caches: those that are needed.
        undecodable: "stop" at a frame that cannot be decoded, or "skip" it.

    Raises:
        UserError: a frame cannot be decoded, or the disk is full.
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
                    _decode(dataset, missing, undecodable)
        return [InUse(cache.path) for cache in caches]
    except OSError as error:
        need = sum(cache.size for cache in caches)
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


def _camera_part(path: Path) -> str:
    return path.stem.rpartition("-")[0]


def _decode(dataset: DemonstrationDataset, caches: Sequence[CacheFile], undecodable: str) -> None:
    """Decode every frame into its place, episode by episode, with one thread per core."""
    need = sum(cache.size for cache in caches)
    folder = caches[0].path.parent
    remove_partial_files(folder)  # a killed builder's may be as large as what is needed now
    free = shutil.disk_usage(folder).free
    if need > free:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, {_bytes(free)} are free")
    names = ", ".join(cache.camera.name for cache in caches)
    frames = sum(cache.frames for cache in caches)
    print(
        f"decoding {frames} frames of {names}, once: they stay in {folder} and take "
        f"{_bytes(need)} of the {_bytes(free)} that are free",
        flush=True,
    )
    own = threading.local()  # each thread opens its own files
    stop = threading.Event()

    with tqdm(total=frames, desc="decoding", unit="frame", disable=None) as bar:

        def decode_episode(cache: CacheFile, episode: int, place: int, file: int) -> list[int]:
            """Write an episode's frames, the first at `place`; return the undecodable steps."""
            if not hasattr(own, "dataset"):
                own.dataset = copy.copy(dataset)
                own.dataset.close()
            broken: list[int] = []
            for step in range(int(dataset.lengths[episode])):
                if stop.is_set():
                    break
                try:
                    frame = own.dataset.frame(episode, step, cache.camera.name)
                    _write(file, frame, (place + step) * cache.frame_size)
                except UndecodableFrameError:
                    if undecodable == "stop":
                        raise
                    broken.append(step)  # its place stays empty; it is never read
                bar.update()
            return broken

        with ThreadPoolExecutor(usable_cores()) as pool:
            for cache in caches:
                with atomic_file(cache.path) as file:
                    # a file system that is too full says so now
                    os.posix_fallocate(file.fileno(), 0, cache.size)
                    jobs: dict[int, Future[list[int]]] = {}
                    place = 0
                    for episode in cache.episodes:
                        job = pool.submit(decode_episode, cache, episode, place, file.fileno())
                        jobs[episode] = job
                        place += int(dataset.lengths[episode])
                    try:
                        broken = [(e, step) for e, job in jobs.items() for step in job.result()]
                    except BaseException:
                        stop.set()  # the file must stay open while a thread may write
                        pool.shutdown(cancel_futures=True)
                        raise
                with atomic_file(cache.report) as file:
                    file.write(json.dumps({"undecodable": broken}).encode())


def _bytes(size: int) -> str:
    """A number of bytes for a person, with one to three digits before the point."""
    power = min(max((len(f"{size}") - 1) // 3, 1), 4)
    return f"{size / 1000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def _write(file: int, frame: np.ndarray, offset: int) -> None:
    content = np.ascontiguousarray(frame).data.cast("B")
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written
