"""Demonstrations as batches for training: raw images and physical units, in a fixed order."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning import LightningDataModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from act_policy.data.cache import FrameStore
from act_policy.data.chunks import chunk_rows, split_episodes
from act_policy.data.dataset import DemonstrationDataset, open_dataset
from act_policy.data.statistics import check_finite, compute_statistics
from act_policy.errors import UserError
from act_policy.image_levels import range_of_levels
from act_policy.types import ImageLevels, Observation, Schema, Statistics

LEVEL_FRAMES = 64
"""Of each camera, from which brightness and contrast are measured."""


class Batch(NamedTuple):
    """Some samples: what was seen at one step each, and the actions from that step on.

    observation: images uint8 (b, h, w, 3) and state float32 (b, s), raw.
    actions: float32 (b, k, a) in physical units; rows past the episode's end repeat the last one.
    is_pad: bool (b, k), true exactly for those rows.
    episode, step: int64 (b,), where each sample comes from.
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
    """

    def __init__(
        self,
        dataset: DemonstrationDataset,
        frames: FrameStore,
        episodes: Sequence[int] | np.ndarray,
        chunk_length: int,
    ) -> None:
        self._frames = frames
        self._cameras = dataset.schema.camera_names
        self._chunk_length = chunk_length
        self._states = np.concatenate([dataset.state(e) for e in range(dataset.episode_count)])
        self._actions = np.concatenate([dataset.action(e) for e in range(dataset.episode_count)])
        ends = np.cumsum(dataset.lengths)
        self._first, self._last = ends - dataset.lengths, ends - 1  # frames of each episode
        numbers = [np.arange(self._first[e], ends[e]) for e in episodes]
        every = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        self._numbers = every[frames.usable[every]]
        self.skipped = len(every) - len(self._numbers)
        """How many frames were left out because they cannot be decoded."""

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> Batch:
        return self.__getitems__([index])

    def __getitems__(self, indices: list[int]) -> Batch:
        """A whole batch at once: the DataLoader calls this instead of collating samples."""
        frames = self._numbers[np.asarray(indices)]
        episodes = np.searchsorted(self._last, frames)
        rows, is_pad = chunk_rows(frames, self._last[episodes], self._chunk_length)
        images = {
            camera: torch.from_numpy(self._frames.read(camera, frames)) for camera in self._cameras
        }
        return Batch(
            observation=Observation(images, torch.from_numpy(self._states[frames])),
            actions=torch.from_numpy(self._actions[rows]),
            is_pad=torch.from_numpy(is_pad),
            episode=torch.from_numpy(episodes),
            step=torch.from_numpy(frames - self._first[episodes]),
        )


class EpochOrder(DistributedSampler[int]):
    """Every sample once an epoch, in an order that only seed and epoch decide.

    Several processes take turns (rank r takes r, r + n, ...); as in its base class the order is
    filled up from its own beginning so that all get the same number.
    """

    def __init__(self, count: int, seed: int, processes: int = 1, rank: int = 0) -> None:
        super().__init__(range(count), processes, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self.count = count
        self.place: Callable[[], tuple[int, int]] | None = None
        """Asks where an iteration starts: its epoch, and how many of this process's samples of
        that epoch were seen already. Without it an iteration is the whole epoch of `set_epoch`."""

    def __iter__(self) -> Iterator[int]:
        epoch, seen = self.place() if self.place else (self.epoch, 0)
        order = np.random.default_rng((self.seed, epoch)).permutation(self.count)
        mine = np.resize(order, self.total_size)[self.rank :: self.num_replicas]
        return iter(mine[seen:].tolist())


class ResumableLoader(DataLoader[Batch]):
    """A DataLoader that continues where the trainer stands, also in the middle of an epoch.

    The place follows from the number of batches that the trainer has trained on, which its
    checkpoints hold. So batches that workers fetched ahead, or one that was interrupted, come
    again. The length stays that of the whole epoch.
    """

    order: EpochOrder

    def follow(self, trainer: Trainer) -> None:
        """Start every iteration from now on where this trainer stands."""

        def place() -> tuple[int, int]:
            limit = trainer.limit_train_batches  # a number of batches, or a share of the epoch
            an_epoch = min(len(self), limit) if isinstance(limit, int) else int(len(self) * limit)
            done = trainer.fit_loop.epoch_loop.batch_progress.total.processed  # type: ignore[attr-defined]
            epoch, batches = divmod(done, max(an_epoch, 1))
            return epoch, batches * (self.batch_size or 1)

        self.order.place = place

    def state_dict(self) -> dict[str, int]:
        """What must be equal to continue exactly; Lightning saves it in its checkpoints."""
        return {
            "samples": self.order.count,
            "batch_size": self.batch_size or 1,
            "seed": self.order.seed,
            "processes": self.order.num_replicas,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Refuse to continue a run whose batches were others."""
        for name, here in self.state_dict().items():
            if state[name] != here:
                raise UserError(
                    f"cannot resume: the interrupted run had {name} {state[name]}, this one has "
                    f"{here}; the order of samples would not continue"
                )


class DemonstrationDataModule(LightningDataModule):
    """Demonstrations in a folder, split by episode into training and held-out ones.

    Args:
        path: the folder of demonstrations.
        chunk_length: k, actions to predict from each step.
        batch_size: samples a batch and process.
        held_out_fraction: share of the episodes kept out of training, drawn by seed.
        workers: processes that fetch batches; 0 fetches in the training process.
        seed: fixes the split and the order of samples.
        train_episodes: indices to train on, instead of the drawn split; then only the
            held_out_episodes given are held out.
        held_out_episodes: indices held out; without train_episodes all others are trained on.
        std_floor: smallest divisor of the normaliser, in physical units.
        undecodable: "stop" or "skip" a frame that cannot be decoded.
        cache: folder for decoded frames; by default beside the demonstrations.
        reader_options: `schema`, `cameras`, `jpeg_order`, see `open_dataset`.
    """

    def __init__(
        self,
        path: str | Path,
        chunk_length: int,
        batch_size: int,
        held_out_fraction: float = 0.1,
        workers: int = 0,
        seed: int = 0,
        train_episodes: Sequence[int] | None = None,
        held_out_episodes: Sequence[int] | None = None,
        std_floor: float = 1e-2,
        undecodable: str = "stop",
        cache: str | Path | None = None,
        **reader_options: Any,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("chunk_length", chunk_length, 1),
            ("batch_size", batch_size, 1),
            ("workers", workers, 0),
            ("seed", seed, 0),
        ):
            if value < least:
                raise UserError(f"{name} must be at least {least}, found {value}")
        for name, given in (
            ("train_episodes", train_episodes),
            ("held_out_episodes", held_out_episodes),
        ):
            if given is not None and (
                not isinstance(given, Sequence | np.ndarray)
                or not all(isinstance(episode, int | np.integer) for episode in given)
            ):
                raise UserError(f"{name}: expected a list of indices like [0, 1], found {given!r}")
        self.chunk_length = chunk_length
        self.batch_size = batch_size
        self._path = path
        self._held_out_fraction = held_out_fraction
        self._workers = workers
        self._seed = seed
        self._given = train_episodes, held_out_episodes
        self._std_floor = std_floor
        self._undecodable = undecodable
        self._cache = cache
        self._reader_options = reader_options

    @cached_property
    def dataset(self) -> DemonstrationDataset:
        """The demonstrations; at the first use every episode is checked."""
        dataset = open_dataset(self._path, **self._reader_options)
        check_finite(dataset)
        return dataset

    @property
    def schema(self) -> Schema:
        """What all episodes share."""
        return self.dataset.schema

    @cached_property
    def statistics(self) -> Statistics:
        """Over exactly the training episodes."""
        return compute_statistics(self.dataset, self.train_episodes, self._std_floor)

    @cached_property
    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        count = self.dataset.episode_count
        train, held_out = self._given
        if train is None and held_out is None:
            return split_episodes(count, self._held_out_fraction, self._seed)
        held_out = [] if held_out is None else sorted(held_out)
        if train is None:
            train = [episode for episode in range(count) if episode not in set(held_out)]
        if outside := sorted({e for e in (*train, *held_out) if not 0 <= e < count}):
            raise UserError(f"{self._path}: episodes {outside} are not among 0 to {count - 1}")
        if both := sorted(set(train) & set(held_out)):
            raise UserError(f"episodes {both} are in train_episodes and in held_out_episodes")
        if not train:
            raise UserError("no episode is left to train on")
        return np.unique(np.array(train, np.int64)), np.unique(np.array(held_out, np.int64))

    @property
    def train_episodes(self) -> np.ndarray:
        """int64, ascending indices of the episodes that are trained on."""
        return self._split[0]

    @property
    def held_out_episodes(self) -> np.ndarray:
        """int64, ascending indices of the episodes kept out of training."""
        return self._split[1]

    @property
    def demonstration_seeds(self) -> tuple[int, ...]:
        """Seeds of all demonstrations, ascending; an evaluation must use others."""
        return tuple(sorted({seed for seed in self.dataset.seeds if seed is not None}))

    @cached_property
    def _frames(self) -> FrameStore:
        return FrameStore(self.dataset, self._cache, self._undecodable)

    @cached_property
    def train_samples(self) -> Samples:
        """Every usable frame of the training episodes."""
        samples = Samples(self.dataset, self._frames, self.train_episodes, self.chunk_length)
        if len(samples) == 0:
            raise UserError(f"{self._path}: no frame of the training episodes can be decoded")
        return samples

    @cached_property
    def held_out_samples(self) -> Samples:
        """Every usable frame of the held-out episodes."""
        return Samples(self.dataset, self._frames, self.held_out_episodes, self.chunk_length)

    @cached_property
    def image_levels(self) -> dict[str, ImageLevels]:
        """Of each camera, over training frames evenly spread over all episodes."""
        samples = self.train_samples
        chosen = np.linspace(0, len(samples) - 1, min(LEVEL_FRAMES, len(samples)))
        seen = [samples[int(index)].observation.images for index in chosen]
        return {
            camera: range_of_levels([images[camera][0].numpy() for images in seen])
            for camera in self.schema.camera_names
        }

    def prepare_data(self) -> None:
        """Decode encoded frames once, in one process only."""
        _ = self._frames

    def setup(self, stage: str) -> None:
        """Read and check everything before the first step."""
        _ = self.train_samples, self.held_out_samples

    def train_dataloader(self) -> ResumableLoader:
        """Every training frame once an epoch, shuffled."""
        trainer = self.trainer
        order = EpochOrder(
            len(self.train_samples),
            self._seed,
            processes=trainer.world_size if trainer else 1,
            rank=trainer.global_rank if trainer else 0,
        )
        loader = ResumableLoader(self.train_samples, sampler=order, **self._loading())
        loader.order = order
        if trainer:
            loader.follow(trainer)
        return loader

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        """Every held-out frame once, in order; nothing where no episode is held out."""
        if len(self.held_out_samples) == 0:
            return []
        return DataLoader(self.held_out_samples, **self._loading())

    def _loading(self) -> dict[str, Any]:
        trainer = self.trainer
        on_gpu = trainer is not None and trainer.strategy.root_device.type == "cuda"
        return {
            "batch_size": self.batch_size,
            "num_workers": self._workers,
            "persistent_workers": self._workers > 0,
            "pin_memory": on_gpu,
            "collate_fn": _as_it_is,
        }


def _as_it_is(batch: Batch) -> Batch:
    """Samples fetches whole batches; there is nothing to collate."""
    return batch
