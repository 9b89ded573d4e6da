"""Load demonstrations as batches for training: raw images, physical units, a fixed order."""

import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
from lightning import LightningDataModule
from torch.utils.data import DataLoader, Subset

from act_policy.data.frames.on_demand import Frames, MixedFrames, open_frames
from act_policy.data.frames.store import cache_folder
from act_policy.data.loading.batches import Batch, Samples, as_it_is, prepare_worker
from act_policy.data.loading.emphasis import Emphasis, weigh_moments
from act_policy.data.loading.order import EpochOrder, Locality, Mix, ResumableLoader
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.data.selection.demonstrations import (
    Demonstrations,
    choose_episodes,
    open_demonstrations,
)
from act_policy.data.selection.mixed import MixedDataset
from act_policy.data.selection.selection import check_episode_list
from act_policy.data.statistics import check_finite, compute_statistics
from act_policy.data.tasks import number_tasks
from act_policy.errors import UserError, check_choice
from act_policy.images.levels import range_of_levels
from act_policy.statistics import ImageLevels, Statistics
from act_policy.types import Schema

LEVEL_FRAMES = 64
"""Number of frames per camera from which brightness and contrast are measured."""


class DemonstrationDataModule(LightningDataModule):
    """Demonstrations in one folder or several, split by episode into training and held-out ones.

    Episodes are given by index on disk or by name, regardless of what else is selected.

    Args:
        path: the folder of demonstrations.
        chunk_length: k, actions to predict from each step.
        batch_size: samples per batch and process.
        held_out_fraction: share of the episodes held out of training, drawn by seed.
        workers: processes that fetch batches; 0 fetches in the training process.
        seed: fixes the split and the order of samples.
        train_episodes: to train on, instead of the drawn split; then only the held_out_episodes
            given are held out.
        held_out_episodes: held out; without train_episodes all others are trained on.
        std_floor: smallest divisor of the normaliser, in physical units.
        undecodable: "stop" or "skip" a frame that cannot be decoded.
        cache: "auto" keeps decoded frames beside the demonstrations, a folder keeps them there,
            None decodes while training.
        cache_format: of the decoded frames: "raw", or "jpeg" for a third of the bytes.
        select: what of the demonstrations is used, see `Selection`.
        mix: further folders with weights, see `open_demonstrations`.
        emphasis: moments that are shown more often, see `Emphasis`.
        balance_tasks: whether an epoch shows each task equally often, however many steps it has.
        reader: settings for reading the files.
    """

    def __init__(
        self,
        path: str | Path,
        chunk_length: int,
        batch_size: int,
        held_out_fraction: float = 0.1,
        workers: int = 0,
        seed: int = 0,
        train_episodes: Sequence[int | str] | None = None,
        held_out_episodes: Sequence[int | str] | None = None,
        std_floor: float = 1e-2,
        undecodable: str = "stop",
        cache: str | Path | None = "auto",
        cache_format: str = "raw",
        select: Mapping[str, Any] | None = None,
        mix: Sequence[Mapping[str, Any]] | None = None,
        emphasis: Mapping[str, Any] | None = None,
        balance_tasks: bool = False,
        reader: ReaderConfig = DEFAULT_READER,
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
        check_episode_list("train_episodes", train_episodes)
        check_episode_list("held_out_episodes", held_out_episodes)
        check_choice("undecodable", undecodable, ("stop", "skip"))
        check_choice("cache_format", cache_format, ("raw", "jpeg"))
        self.chunk_length = chunk_length
        self.batch_size = batch_size
        self._path = path
        self._held_out_fraction = held_out_fraction
        self._workers = workers
        self._seed = seed
        self._given = train_episodes, held_out_episodes
        self._std_floor = std_floor
        self._undecodable = undecodable
        self._cache, self._cache_format = cache, cache_format
        self._options = select, mix, reader
        self._emphasis = Emphasis.from_config(emphasis)
        self._balance_tasks = balance_tasks
        self.known_tasks: tuple[str, ...] = ()
        """Tasks of the policy that training starts from; they come first."""

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], chunk_length: int, seed: int
    ) -> "DemonstrationDataModule":
        """Make it from a run's data settings, which include those of the reader."""
        others = {"_target_", *ReaderConfig.names()}  # older runs name the class as well
        own = {name: value for name, value in config.items() if name not in others}
        reader = ReaderConfig.from_config(config)
        return cls(chunk_length=chunk_length, seed=seed, reader=reader, **own)

    @cached_property
    def dataset(self) -> Demonstrations:
        """The demonstrations as selected; at the first use every episode is checked."""
        dataset = open_demonstrations(self._path, *self._options)
        check_finite(dataset)
        number_tasks(dataset, dataset.schema.tasks)  # refuses a step without one
        if self._balance_tasks and not dataset.schema.chooses_task:
            raise UserError(
                f"data.balance_tasks: {self._path} has {len(dataset.schema.tasks)} different "
                "instructions; there is nothing to balance"
            )
        return dataset

    @property
    def schema(self) -> Schema:
        """The schema of all episodes, with every task that a policy trained on them knows."""
        schema = self.dataset.schema
        return replace(schema, tasks=tuple(dict.fromkeys([*self.known_tasks, *schema.tasks])))

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics over exactly the training episodes; each step counts once at any weight."""
        folder = None
        if self._cache is not None:
            folder = cache_folder(self.dataset, None if self._cache == "auto" else self._cache)
        return compute_statistics(
            self.dataset,
            self.train_episodes,
            self._std_floor,
            self.dataset.relative_actions,
            self.chunk_length,
            folder,
        )

    @cached_property
    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        count = len(self.dataset.episodes)
        given, given_held_out = self._given
        if given is None and given_held_out is None:
            # stretches of one episode on disk stay together
            on_disk = np.array([episode.index for episode in self.dataset.episodes])
            _, which = np.unique(on_disk, return_inverse=True)
            parts = split_episodes(int(which.max()) + 1, self._held_out_fraction, self._seed)
            train_part, held_out_part = (np.flatnonzero(np.isin(which, part)) for part in parts)
            return train_part, held_out_part
        held_out = choose_episodes("held_out_episodes", given_held_out or [], self.dataset)
        if given is None:
            train = sorted(set(range(count)) - set(held_out))
        else:
            train = choose_episodes("train_episodes", given, self.dataset)
        if both := sorted(set(train) & set(held_out)):
            twice = [self.dataset.episodes[episode].index for episode in both]
            raise UserError(f"episodes {twice} are in train_episodes and in held_out_episodes")
        if not train:
            raise UserError("no episode is left to train on")
        return np.array(train, np.int64), np.array(held_out, np.int64)

    @property
    def train_episodes(self) -> np.ndarray:
        """int64, ascending indices in `dataset` of the episodes that are trained on."""
        return self._split[0]

    @property
    def held_out_episodes(self) -> np.ndarray:
        """int64, ascending indices in `dataset` of the episodes held out of training."""
        return self._split[1]

    @property
    def demonstration_seeds(self) -> tuple[int, ...]:
        """Seeds of all demonstrations, ascending; an evaluation must use others."""
        return tuple(sorted({e.seed for e in self.dataset.episodes if e.seed is not None}))

    @cached_property
    def _frames(self) -> Frames | MixedFrames:
        return open_frames(self.dataset, self._cache, self._undecodable, self._cache_format)

    def _samples(self, episodes: np.ndarray) -> Samples:
        tasks = self.schema.tasks
        return Samples(self.dataset, self._frames, episodes, self.chunk_length, tasks)

    @cached_property
    def train_samples(self) -> Samples:
        """Every usable frame of the training episodes."""
        samples = self._samples(self.train_episodes)
        if len(samples) == 0:
            raise UserError(f"{self._path}: no frame of the training episodes can be decoded")
        return samples

    @cached_property
    def held_out_samples(self) -> Samples:
        """Every usable frame of the held-out episodes."""
        return self._samples(self.held_out_episodes)

    @cached_property
    def _mix(self) -> Mix | None:
        groups, weights = np.zeros(int(self.dataset.lengths.sum()), np.int64), [1.0]
        if isinstance(self.dataset, MixedDataset):
            steps = [int(part.lengths.sum()) for part in self.dataset.parts]
            groups, weights = np.repeat(np.arange(len(steps)), steps), self.dataset.weights
        train = self.train_episodes.tolist()
        for weight, moments in weigh_moments(self.dataset, self._emphasis, train):
            groups = groups + len(weights) * moments
            weights = [*weights, *(each * weight for each in weights)]
        mix = Mix(self.train_samples.values(groups), tuple(weights))
        if self._balance_tasks and (tasks := self.train_samples.tasks) is not None:
            return mix.balanced(tasks)
        return mix if len(weights) > 1 else None

    @property
    def samples_per_epoch(self) -> int:
        """Number of training samples per epoch, over all processes."""
        return sum(self._mix.drawn) if self._mix else len(self.train_samples)

    @cached_property
    def image_levels(self) -> dict[str, ImageLevels]:
        """Levels of each camera over training frames spread evenly over all episodes."""
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
        """Load every training frame once per epoch, or by its weight, shuffled."""
        trainer, samples = self.trainer, self.train_samples
        batches = trainer.accumulate_grad_batches if trainer else 1
        locality = None
        if self._frames.blocks is not None:
            blocks = samples.values(self._frames.blocks)
            workers = max(self._workers, 1)
            locality = Locality(blocks, self._frames.pool, workers, self.batch_size)
        order = EpochOrder(
            len(samples),
            self._seed,
            processes=trainer.world_size if trainer else 1,
            rank=trainer.global_rank if trainer else 0,
            mix=self._mix,
            locality=locality,
            # the last step of an epoch has as many batches as the others
            multiple=1 if batches == 1 else batches * self.batch_size,
        )
        loader = ResumableLoader(samples, sampler=order, **self._loading())
        loader.order, loader.valid_rows = order, samples.valid_rows
        loader.batches_per_step = batches
        if trainer:
            loader.follow(trainer)
        return loader

    def val_dataloader(self) -> DataLoader[Batch] | list[DataLoader[Batch]]:
        """Load every held-out frame once, divided among the processes; [] if there are none."""
        count = len(self.held_out_samples)
        if count == 0:
            return []
        trainer = self.trainer
        mine = range(count)
        # with fewer frames than processes each takes all, since one without any would hang
        if trainer and trainer.world_size <= count:
            mine = range(trainer.global_rank, count, trainer.world_size)
        return DataLoader(Subset(self.held_out_samples, mine), **self._loading())

    def _loading(self) -> dict[str, Any]:
        trainer = self.trainer
        on_gpu = trainer is not None and trainer.strategy.root_device.type == "cuda"
        return {
            "batch_size": self.batch_size,
            "num_workers": self._workers,
            "persistent_workers": self._workers > 0,
            "pin_memory": on_gpu,
            "collate_fn": as_it_is,
            "multiprocessing_context": _clean_processes() if self._workers else None,
            # torch's own watchdog only sees the fork server, which itself waits for the worker
            "worker_init_fn": prepare_worker if self._workers else None,
        }


def split_episodes(
    count: int, held_out_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the episodes to hold out of training.

    A fraction above 0 holds out at least one of two or more episodes; at least one episode is
    always left to train on. The same count, fraction and seed give the same split.

    Returns:
        int64 (train,) and int64 (held out,), each ascending; together every episode once.
    """
    if not 0 <= held_out_fraction < 1:
        raise UserError(f"held_out_fraction must be at least 0 and below 1: {held_out_fraction}")
    wanted = round(count * held_out_fraction)
    if held_out_fraction > 0:
        wanted = max(wanted, 1)
    wanted = min(wanted, count - 1)
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[wanted:]), np.sort(order[:wanted])


def _clean_processes() -> BaseContext:
    """Return a context that copies workers from a process with only their imports.

    Copies of this process would inherit locks held by its decoders' threads, and hang.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([Samples.__module__])
    return context
