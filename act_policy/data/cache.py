"""Every frame of a dataset as raw bytes in memory-mapped files, for reading by the batch.

Frames that a file stores raw are read where they lie. Encoded ones are decoded once, into a file
of raw frames for each camera, which is found again by the names, sizes and times of the episodes.
"""

import hashlib
import json
import mmap
import os
import resource
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from act_policy.atomic import atomic_file
from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.errors import UserError
from act_policy.types import Camera


class _Source(NamedTuple):
    """A file of raw frames, as it was when it was indexed."""

    path: Path
    size: int
    time: int

    @classmethod
    def of(cls, path: Path) -> "_Source":
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns)


class FrameStore:
    """The frames of all episodes, numbered through in the order of the dataset.

    Args:
        dataset: the demonstrations.
        folder: where decoded frames are kept, in a folder of this dataset's own; by default
            `.cache` in the dataset's folder, or the user's cache folder where that one cannot be
            written.
        undecodable: "stop" refuses a dataset with a frame that cannot be decoded; "skip" marks
            the frame as not usable.

    Raises:
        UserError: a frame that cannot be decoded, or no space for the decoded ones.
    """

    def __init__(
        self,
        dataset: DemonstrationDataset,
        folder: str | Path | None = None,
        undecodable: str = "stop",
    ) -> None:
        if undecodable not in ("stop", "skip"):
            raise UserError(f"undecodable must be stop or skip, found {undecodable!r}")
        self._starts = np.concatenate([[0], np.cumsum(dataset.lengths)])
        self._folder = cache_folder(dataset, folder)
        self._undecodable = undecodable
        self.usable = np.ones(self._starts[-1], bool)
        """bool (frames,), false where some camera's image cannot be decoded."""
        self._shapes = {c.name: (c.height, c.width, 3) for c in dataset.schema.cameras}
        self._sources: list[_Source] = []
        self._source_of: dict[str, np.ndarray] = {}
        self._offset_of: dict[str, np.ndarray] = {}
        for camera in dataset.schema.cameras:
            self._index(dataset, camera)

    def read(self, camera: str, frames: np.ndarray) -> np.ndarray:
        """Copy out some frames of one camera.

        Args:
            camera: its name.
            frames: int (b,), numbers of frames counted through all episodes.

        Returns:
            uint8 (b, h, w, 3).
        """
        shape = self._shapes[camera]
        size = int(np.prod(shape))
        images = np.empty((len(frames), size), np.uint8)
        sources = self._source_of[camera][frames].tolist()
        offsets = self._offset_of[camera][frames].tolist()
        for image, source, offset in zip(images, sources, offsets, strict=True):
            image[:] = np.frombuffer(_mapped(self._sources[source]), np.uint8, size, offset)
        return images.reshape(len(frames), *shape)

    def _index(self, dataset: DemonstrationDataset, camera: Camera) -> None:
        """Find where each of the camera's frames lies, decoding what is encoded."""
        source_of = self._source_of[camera.name] = np.empty(self._starts[-1], np.int64)
        offset_of = self._offset_of[camera.name] = np.empty(self._starts[-1], np.int64)
        encoded: list[int] = []
        for episode, path in enumerate(dataset.episode_paths):
            offsets = dataset.frame_offsets(episode, camera.name)
            if offsets is None:
                encoded.append(episode)
                continue
            span = slice(self._starts[episode], self._starts[episode + 1])
            source_of[span], offset_of[span] = len(self._sources), offsets
            self._sources.append(_Source.of(path))
        if not encoded:
            return
        size = camera.height * camera.width * 3
        cache, undecodable = self._decoded(dataset, camera, encoded)
        position = 0
        for episode in encoded:
            span = slice(self._starts[episode], self._starts[episode + 1])
            steps = int(dataset.lengths[episode])
            source_of[span] = len(self._sources)
            offset_of[span] = size * (position + np.arange(steps))
            position += steps
        self._sources.append(_Source.of(cache))
        for episode, step in undecodable:
            self.usable[self._starts[episode] + step] = False

    def _decoded(
        self, dataset: DemonstrationDataset, camera: Camera, episodes: list[int]
    ) -> tuple[Path, list[tuple[int, int]]]:
        """The camera's file of decoded frames and the (episode, step) that could not be decoded."""
        key = hashlib.sha256()
        for episode in episodes:
            source = _Source.of(dataset.episode_paths[episode])
            key.update(repr((source.path.name, source.size, source.time)).encode())
        key.update(repr((camera, sorted(dataset.decoding_options().items()))).encode())
        cache = self._folder / f"{camera.name}-{key.hexdigest()[:16]}.frames"
        report = cache.with_suffix(".json")
        if not (cache.exists() and report.exists()):
            self._decode(dataset, camera, episodes, cache, report)
        undecodable = [(e, s) for e, s in json.loads(report.read_text())["undecodable"]]
        if undecodable and self._undecodable == "stop":
            dataset.frame(*undecodable[0], camera.name)  # says what is wrong with it
        return cache, undecodable

    def _decode(
        self,
        dataset: DemonstrationDataset,
        camera: Camera,
        episodes: list[int],
        cache: Path,
        report: Path,
    ) -> None:
        undecodable: list[tuple[int, int]] = []
        blank = np.zeros((camera.height, camera.width, 3), np.uint8)
        steps = [
            (episode, step) for episode in episodes for step in range(dataset.lengths[episode])
        ]
        try:
            with atomic_file(cache) as file:
                for episode, step in tqdm(steps, desc=f"decoding {camera.name}", disable=None):
                    try:
                        frame = dataset.frame(episode, step, camera.name)
                    except UndecodableFrameError:
                        if self._undecodable == "stop":
                            raise
                        undecodable.append((episode, step))
                        frame = blank  # holds the place; never read, since it is not usable
                    file.write(frame.tobytes())
            with atomic_file(report) as file:
                file.write(json.dumps({"undecodable": undecodable}).encode())
        except OSError as error:
            raise UserError(
                f"{cache}: decoded frames could not be written ({error.strerror}); they need "
                f"{len(steps) * blank.size / 1e9:.1f} GB. "
                "Free some space or choose another folder with data.cache=FOLDER."
            ) from error
        for old in self._folder.glob(f"{camera.name}-????????????????.*"):
            if old.stem != cache.stem:
                old.unlink(missing_ok=True)


def cache_folder(dataset: DemonstrationDataset, shared: str | Path | None = None) -> Path:
    """Where the decoded frames of a dataset are kept; datasets may share a folder of the user's."""
    folder = dataset.episode_paths[0].resolve().parent
    own = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    if shared is not None:
        return Path(shared) / own
    # An administrator may write anywhere, but a folder marked read-only is meant to stay as it is.
    if os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222:
        return folder / ".cache"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "act_policy" / own


def _mappable_files() -> int:
    """How many files may be mapped at once: each holds one of the process's file descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**15 if limit == resource.RLIM_INFINITY else max(1, limit // 2)


@lru_cache(maxsize=_mappable_files())
def _mapped(source: _Source) -> mmap.mmap:
    if not source.path.exists() or _Source.of(source.path) != source:
        raise UserError(f"{source.path}: was changed or removed while it was in use; start again")
    with source.path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
