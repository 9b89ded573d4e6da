"""Batches of training samples: observations, each with the chunk of actions from its step on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.frames.on_demand import Frames, MixedFrames
from act_policy.data.frames.store import FrameStore
from act_policy.data.tasks import number_tasks
from act_policy.system.processes import end_with_parent
from act_policy.system.stop_signals import ignore_stop_signals
from act_policy.types import Observation


class Batch(NamedTuple):
    """A batch of samples: the observation of one step each, and the actions from that step on.

    observation: images uint8 (b, h, w, 3) and state float32 (b, s), raw; of several tasks, the
        index of each sample's, int64 (b,).
    actions: float32 (b, k, a) in physical units; rows past the end of the episode, or of its task,
        repeat the last one.
    is_pad: bool (b, k), true exactly for those rows, and for all of a sample that only fills.
    episode, step: int64 (b,), the origin of each sample.
    """

    observation: Observation[Tensor]
    actions: Tensor
    is_pad: Tensor
    episode: Tensor
    step: Tensor


class Samples(Dataset[Batch]):
    """Every usable frame of some episodes, each with its chunk of actions.

    Args:
        dataset: the demonstrations.
        frames: their images.
        episodes: indices of the episodes to take.
        chunk_length: k.
        tasks: in words, where there are several; their order gives the indices.
    """

    def __init__(
        self,
        dataset: DemonstrationDataset,
        frames: FrameStore | Frames | MixedFrames,
        episodes: Sequence[int] | np.ndarray,
        chunk_length: int,
        tasks: Sequence[str] = (),
    ) -> None:
        self._frames = frames
        self._cameras = dataset.schema.camera_names
        self._chunk_length = chunk_length
        self._states = np.concatenate([dataset.state(e) for e in range(len(dataset.episodes))])
        self._actions = np.concatenate([dataset.action(e) for e in range(len(dataset.episodes))])
        self._tasks = number_tasks(dataset, tasks)
        ends = np.cumsum(dataset.lengths)
        self._first, self._last = ends - dataset.lengths, ends - 1  # frames of each episode
        self._chunk_ends = self._last if self._tasks is None else _task_ends(self._tasks, ends)
        numbers = [np.arange(self._first[e], ends[e]) for e in episodes]
        every = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        self._numbers = every[frames.usable[every]]
        """int64, the samples' steps counted through all episodes."""
        self.skipped = len(every) - len(self._numbers)
        """Number of frames left out because they cannot be decoded."""

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self, of_steps: np.ndarray) -> np.ndarray:
        """Select the samples' values from an array with one value per step of all episodes."""
        own: np.ndarray = of_steps[self._numbers]
        return own

    @property
    def tasks(self) -> np.ndarray | None:
        """int64 (samples,), the index of each sample's task; None where there is one alone."""
        return None if self._tasks is None else self.values(self._tasks)

    @property
    def valid_rows(self) -> np.ndarray:
        """int64 (samples,), rows of each sample's chunk that are not padding."""
        ends = _first_not_before(self._chunk_ends, self._numbers)
        rows: np.ndarray = np.minimum(ends - self._numbers + 1, self._chunk_length)
        return rows

    def __getitem__(self, index: int) -> Batch:
        return self.__getitems__([index])

    def __getitems__(self, indices: list[int]) -> Batch:
        """Return a whole batch at once; the DataLoader calls this instead of collating samples.

        ~i in place of i is sample i with every row padded: it fills a batch, nothing is learned.
        """
        given = np.asarray(indices)
        frames = self._numbers[np.where(given < 0, ~given, given)]
        episodes = np.searchsorted(self._last, frames)
        chunk_ends = _first_not_before(self._chunk_ends, frames)
        rows, is_pad = chunk_rows(frames, chunk_ends, self._chunk_length)
        is_pad |= given[:, None] < 0
        images = {
            camera: torch.from_numpy(self._frames.read(camera, frames)) for camera in self._cameras
        }
        observation = Observation(images, torch.from_numpy(self._states[frames]))
        if self._tasks is not None:
            observation = observation._replace(task=torch.from_numpy(self._tasks[frames]))
        return Batch(
            observation=observation,
            actions=torch.from_numpy(self._actions[rows]),
            is_pad=torch.from_numpy(is_pad),
            episode=torch.from_numpy(episodes),
            step=torch.from_numpy(frames - self._first[episodes]),
        )


def chunk_rows(
    first: np.ndarray, last: np.ndarray, chunk_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the actions of many chunks, and which of them are padding.

    Args:
        first: int (b,), the row of each sample's own step.
        last: int (b,), the last row of each sample's episode.
        chunk_length: k, at least 1.

    Returns:
        int (b, k) rows, clamped to `last`, and bool (b, k), true exactly past it.
    """
    rows = first[:, None] + np.arange(chunk_length)
    return np.minimum(rows, last[:, None]), rows > last[:, None]


def _task_ends(tasks: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return int64, ascending, every step after which another task or another episode begins."""
    last: np.ndarray = np.union1d(np.flatnonzero(np.diff(tasks)), ends - 1)
    return last


def _first_not_before(ends: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return for each step the first of the ascending ends that is not before it."""
    found: np.ndarray = ends[np.searchsorted(ends, steps)]
    return found


def as_it_is(batch: Batch) -> Batch:
    """Return the batch unchanged: Samples fetches whole batches, so nothing is collated."""
    return batch


def prepare_worker(number: int) -> None:
    """Let the training process alone decide when this worker ends.

    It is here, where Lightning is not imported: that would take 170 MB in each worker.
    """
    ignore_stop_signals()
    end_with_parent()
