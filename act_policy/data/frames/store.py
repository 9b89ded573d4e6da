"""Every frame of a dataset in memory-mapped files, for reading by the batch.

Raw frames are read from the file that stores them. Encoded frames are decoded once, into one file
per camera, of raw frames or of JPEGs at the size of training. Its name holds a hash of everything
that it was made from: names, sizes and times of the files, and the selection.
"""

import hashlib
import json
import mmap
import os
import resource
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.frames.building import CacheFile, build
from act_policy.data.frames.encoding import HEADER, decode
from act_policy.errors import UserError, check_choice
from act_policy.types import Camera


class _Source(NamedTuple):
    """A file of frames, with its size and time when it was indexed."""

    path: Path
    size: int
    time: int
    compact: bool = False

    @classmethod
    def of(cls, path: Path, compact: bool = False) -> "_Source":
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns, compact)


class FrameStore:
    """The frames of all episodes, numbered through in the order of the dataset.

    Args:
        dataset: the demonstrations.
        folder: holds a folder of decoded frames per dataset; see `cache_folder`.
        undecodable: "stop" refuses a dataset with a frame that cannot be decoded; "skip" marks
            the frame as unusable.
        cameras: names of the cameras; None takes all.
        cache_format: "raw", or "jpeg" for a third of the bytes at the error of a JPEG.

    Raises:
        UserError: a frame that cannot be decoded, or no space for the decoded ones.
    """

    def __init__(
        self,
        dataset: DemonstrationDataset,
        folder: str | Path | None = None,
        undecodable: str = "stop",
        cameras: Sequence[str] | None = None,
        cache_format: str = "raw",
    ) -> None:
        check_choice("undecodable", undecodable, ("stop", "skip"))
        check_choice("cache_format", cache_format, ("raw", "jpeg"))
        self._compact = cache_format == "jpeg"
        chosen = [c for c in dataset.schema.cameras if cameras is None or c.name in cameras]
        self._starts = np.concatenate([[0], np.cumsum(dataset.lengths)])
        self._folder = cache_folder(dataset, folder)
        self.usable = np.ones(self._starts[-1], bool)
        """bool (frames,), false where some camera's image cannot be decoded."""
        self._shapes = {c.name: (c.height, c.width, 3) for c in chosen}
        self._sources: list[_Source] = []
        self._source_of = {c.name: np.empty(self._starts[-1], np.int64) for c in chosen}
        self._offset_of = {c.name: np.empty(self._starts[-1], np.int64) for c in chosen}
        caches = [self._index(dataset, camera) for camera in chosen]
        self._in_use = build(dataset, self._folder, [c for c in caches if c], undecodable)
        for cache in caches:
            if cache is not None:
                self._index_cache(dataset, cache, undecodable)
        dataset.close()  # a decoder's threads must not live on into the workers' processes

    def read(self, camera: str, frames: np.ndarray) -> np.ndarray:
        """Copy out frames of a camera, uint8 (b, h, w, 3), by number, int (b,), of all episodes."""
        shape = self._shapes[camera]
        size = int(np.prod(shape))
        images = np.empty((len(frames), size), np.uint8)
        sources = self._source_of[camera][frames].tolist()
        offsets = self._offset_of[camera][frames].tolist()
        for image, number, offset in zip(images, sources, offsets, strict=True):
            source = self._sources[number]
            content = _mapped(source)
            if source.compact:
                place = memoryview(content)[offset : offset + HEADER + size]
                image[:] = decode(place, *shape[:2]).reshape(-1)
            else:
                image[:] = np.frombuffer(content, np.uint8, size, offset)
        return images.reshape(len(frames), *shape)

    def _index(self, dataset: DemonstrationDataset, camera: Camera) -> CacheFile | None:
        """Find the camera's raw frames; return the cache that its encoded frames need."""
        source_of, offset_of = self._source_of[camera.name], self._offset_of[camera.name]
        encoded: list[int] = []
        for episode in range(len(dataset.episodes)):
            offsets = dataset.frame_offsets(episode, camera.name)
            if offsets is None:
                encoded.append(episode)
                continue
            span = slice(self._starts[episode], self._starts[episode + 1])
            source_of[span], offset_of[span] = len(self._sources), offsets
            self._sources.append(_Source.of(dataset.image_file(episode, camera.name)))
        if not encoded:
            return None
        return name_cache(dataset, camera, encoded, self._folder, self._compact)

    def _index_cache(
        self, dataset: DemonstrationDataset, cache: CacheFile, undecodable: str
    ) -> None:
        """Point to the frames in a cache that has been built."""
        name, position = cache.camera.name, 0
        for episode in cache.episodes:
            span = slice(self._starts[episode], self._starts[episode + 1])
            steps = int(dataset.lengths[episode])
            self._source_of[name][span] = len(self._sources)
            self._offset_of[name][span] = cache.place_size * (position + np.arange(steps))
            position += steps
        self._sources.append(_Source.of(cache.path, cache.compact))
        broken = json.loads(cache.report.read_text())["undecodable"]
        if broken and undecodable == "stop":
            dataset.frame(broken[0][0], broken[0][1], name)  # raises the error that says why
        for episode, step in broken:
            self.usable[self._starts[episode] + step] = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_in_use": []}  # the locks stay with the process that took them


def name_cache(
    dataset: DemonstrationDataset,
    camera: Camera,
    episodes: Sequence[int],
    folder: Path,
    compact: bool,
) -> CacheFile:
    """Name the cache of a camera's frames in some episodes, whether or not it is there.

    Args:
        dataset: the demonstrations.
        camera: one of theirs.
        episodes: those whose frames are encoded.
        folder: of the dataset's caches.
        compact: whether it holds JPEGs.
    """
    key = hashlib.sha256()
    for episode in episodes:
        source = _Source.of(dataset.image_file(episode, camera.name))
        part = int(dataset.lengths[episode]), *dataset.frame_key(episode, camera.name)
        key.update(repr((source.path.name, source.size, source.time, *part)).encode())
    key.update((repr(camera) + "jpeg" * compact).encode())
    name = camera.name.replace("%", "%25").replace("/", "%2F")  # a slash would be a folder
    path = folder / f"{name}-{key.hexdigest()[:16]}.frames"
    frames = int(dataset.lengths[list(episodes)].sum())
    return CacheFile(path, camera, tuple(episodes), frames, compact)


def cache_folder(dataset: DemonstrationDataset, shared: str | Path | None = None) -> Path:
    """Return the folder for the decoded frames of a dataset.

    In `shared`, a folder for several datasets; without one `.cache` in the dataset's folder, or in
    the user's cache folder where that one is read-only.
    """
    folder = dataset.folder.resolve()
    own = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    if shared is not None:
        return Path(shared) / own
    # An administrator may write anywhere, but a folder marked read-only is meant to stay as it is.
    if os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222:
        return folder / ".cache"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "act_policy" / own


def _mappable_files() -> int:
    """How many files may be mapped at once: each takes one of the process's file descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**15 if limit == resource.RLIM_INFINITY else max(1, limit // 2)


@lru_cache(maxsize=_mappable_files())
def _mapped(source: _Source) -> mmap.mmap:
    if not source.path.exists() or _Source.of(source.path, source.compact) != source:
        raise UserError(f"{source.path}: was changed or removed while it was in use; start again")
    with source.path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
