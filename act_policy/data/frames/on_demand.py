"""Frames from wherever they come: read from a cache on disk, or decoded when they are needed."""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.data.frames.store import FrameStore
from act_policy.data.selection.demonstrations import Demonstrations
from act_policy.data.selection.mixed import MixedDataset
from act_policy.errors import UserError
from act_policy.types import Camera

MEMORY = 256 * 2**20
"""Bytes of decoded frames that a process keeps until they are read."""
LEAST_BLOCKS = 16
"""Frames that are mixed with each other come from at least this many places."""
SHORT_GROUP = 2
"""Groups of pictures as short as LeRobot's are not kept together: decoding one frame alone costs
little more, and the order of samples can be random."""


class DecodedFrames:
    """Encoded frames, decoded a block at a time and kept until each has been read once.

    A block is a group of pictures, from one key frame to the next, or a part of a long one. Read in
    the order of `EpochOrder`, each block is decoded once.
    """

    def __init__(self, dataset: DemonstrationDataset, cameras: Sequence[Camera]) -> None:
        self._dataset = dataset
        self._shapes = {camera.name: (camera.height, camera.width, 3) for camera in cameras}
        self._ends = np.cumsum(dataset.lengths)
        bytes_per_step = sum(int(np.prod(shape)) for shape in self._shapes.values())
        self.pool = max(MEMORY // bytes_per_step, LEAST_BLOCKS)
        """Number of steps whose frames fit into memory."""
        self.blocks = self._find_blocks([camera.name for camera in cameras])
        """int64 (frames,), the number of each step's block, ascending; all differ where every frame
        is a block by itself."""
        firsts = np.flatnonzero(np.diff(self.blocks, prepend=-1))
        self._spans = np.append(firsts, len(self.blocks))
        self._kept: OrderedDict[tuple[str, int], np.ndarray] = OrderedDict()
        dataset.close()

    def read(self, camera: str, frames: np.ndarray) -> np.ndarray:
        """uint8 (b, h, w, 3) of frames counted through all episodes; UndecodableFrameError."""
        images = np.empty((len(frames), *self._shapes[camera]), np.uint8)
        for i in np.argsort(frames, kind="stable").tolist():
            images[i] = self._take(camera, int(frames[i]))
        return images

    def _take(self, camera: str, number: int) -> np.ndarray:
        if (kept := self._kept.pop((camera, number), None)) is not None:
            return kept
        wanted = np.empty(0, np.uint8)
        block = int(self.blocks[number])
        for other in range(int(self._spans[block]), int(self._spans[block + 1])):
            if other == number:
                wanted = self._decode(camera, other)
            else:
                with suppress(UndecodableFrameError):  # raised again when that frame is read
                    self._kept[camera, other] = self._decode(camera, other)
        while len(self._kept) > self.pool * len(self._shapes):
            self._kept.popitem(last=False)
        return wanted

    def _decode(self, camera: str, number: int) -> np.ndarray:
        episode = int(np.searchsorted(self._ends, number, side="right"))
        step = number - int(self._ends[episode] - self._dataset.lengths[episode])
        return self._dataset.frame(episode, step, camera)

    def _find_blocks(self, cameras: Sequence[str]) -> np.ndarray:
        longest = max(self.pool // LEAST_BLOCKS, 1)
        begins = np.zeros(int(self._ends[-1]), bool)
        for episode, end in enumerate(self._ends.tolist()):
            length = int(self._dataset.lengths[episode])
            keys = [self._dataset.key_steps(episode, camera) for camera in cameras]
            grouped = [steps for steps in keys if steps is not None]
            # the camera with the fewest key frames decides
            steps = min(grouped, key=len) if grouped else np.arange(length)
            if (len(steps) + 1) * SHORT_GROUP >= length:  # the first group may have begun before
                steps = np.arange(length)
            edges = [0, *steps.tolist(), length]
            for first, last in pairwise(edges):
                begins[end - length + first : end - length + last : longest] = True
        return np.cumsum(begins) - 1

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_kept": OrderedDict()}


class Frames:
    """The frames of all cameras, numbered through all episodes.

    Args:
        dataset: the demonstrations.
        cache: None decodes encoded frames when they are read; "auto" keeps them decoded
            beside the demonstrations (see `FrameStore`), a folder keeps them there.
        undecodable: "stop" or "skip" a frame that cannot be decoded; skipping needs the cache.
        cache_format: "raw" or "jpeg", see `FrameStore`.

    Raises:
        UserError: a frame that cannot be decoded, or no space for a cache.
    """

    def __init__(
        self,
        dataset: DemonstrationDataset,
        cache: str | Path | None,
        undecodable: str,
        cache_format: str = "raw",
    ) -> None:
        episodes, names = range(len(dataset.episodes)), dataset.schema.camera_names
        encoded = [
            camera
            for camera in dataset.schema.cameras
            if cache is None
            and any(dataset.frame_offsets(episode, camera.name) is None for episode in episodes)
        ]
        if encoded and undecodable == "skip":
            raise UserError(
                "data.undecodable=skip needs a cache, which finds out what cannot be decoded; "
                "set data.cache=auto or data.cache=FOLDER"
            )
        decoded = {camera.name for camera in encoded}
        kept = [name for name in names if name not in decoded]
        folder = None if cache == "auto" else cache
        store = FrameStore(dataset, folder, undecodable, kept, cache_format)
        self._sources: dict[str, FrameStore | DecodedFrames] = dict.fromkeys(kept, store)
        self.usable = store.usable
        """bool (frames,), false where some camera's image cannot be decoded."""
        self.blocks: np.ndarray | None = None
        """int64 (frames,), see `DecodedFrames`; None where frames may be read in any order."""
        self.pool = 0
        """Number of steps whose decoded frames are kept; 0 where the order is free."""
        if encoded:
            source = DecodedFrames(dataset, encoded)
            self._sources |= dict.fromkeys(decoded, source)
            if source.blocks[-1] + 1 < len(self.usable):
                self.blocks, self.pool = source.blocks, source.pool

    def read(self, camera: str, frames: np.ndarray) -> np.ndarray:
        """uint8 (b, h, w, 3) of some frames of one camera."""
        return self._sources[camera].read(camera, frames)


class MixedFrames:
    """The frames of several datasets, numbered one dataset after the other."""

    def __init__(self, parts: Sequence[Frames]) -> None:
        self._parts = list(parts)
        self.usable = np.concatenate([part.usable for part in parts])
        self._starts = np.cumsum([0, *(len(part.usable) for part in parts)])
        self.pool = max(part.pool for part in parts)
        self.blocks: np.ndarray | None = None
        if self.pool:
            self.pool = min(part.pool for part in parts if part.pool)
            blocks, before = [], 0
            for part in parts:
                own = np.arange(len(part.usable)) if part.blocks is None else part.blocks
                blocks.append(own + before)
                before += int(own[-1]) + 1
            self.blocks = np.concatenate(blocks)

    def read(self, camera: str, frames: np.ndarray) -> np.ndarray:
        """uint8 (b, h, w, 3) of some frames of one camera."""
        part_of = np.searchsorted(self._starts, frames, side="right") - 1
        images: np.ndarray | None = None
        for part in np.unique(part_of).tolist():
            mine = part_of == part
            found = self._parts[part].read(camera, frames[mine] - self._starts[part])
            if images is None:
                images = np.empty((len(frames), *found.shape[1:]), np.uint8)
            images[mine] = found
        assert images is not None
        return images


def open_frames(
    dataset: Demonstrations, cache: str | Path | None, undecodable: str, cache_format: str = "raw"
) -> Frames | MixedFrames:
    """Open the frames of demonstrations; each of several datasets has its own cache."""
    if isinstance(dataset, MixedDataset):
        parts = [Frames(part, cache, undecodable, cache_format) for part in dataset.parts]
        return MixedFrames(parts)
    return Frames(dataset, cache, undecodable, cache_format)
