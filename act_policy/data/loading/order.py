"""The order of samples: a function of seed and epoch only, also after an interruption."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from lightning import Trainer
from torch.utils.data import DataLoader, DistributedSampler

from act_policy.data.loading.batches import Batch
from act_policy.errors import UserError


class Mix(NamedTuple):
    """Groups of samples that share an epoch: several datasets, moments that matter more.

    groups: int64 (samples,), the number of each sample's group.
    weights: how often an epoch shows each sample of a group; 1 is once.
    """

    groups: np.ndarray
    weights: tuple[float, ...]

    @property
    def drawn(self) -> tuple[int, ...]:
        """Number of samples of each group per epoch."""
        counts = np.bincount(self.groups, minlength=len(self.weights)).tolist()
        return tuple(
            max(1, round(count * weight)) if count else 0
            for count, weight in zip(counts, self.weights, strict=True)
        )

    def balanced(self, tasks: np.ndarray) -> "Mix":
        """Change the weights so that an epoch of the same size shows each task equally often.

        tasks: int64 (samples,), the index of each sample's task.
        """
        shown = np.bincount(tasks, np.array(self.weights)[self.groups])
        factors = np.divide(shown.sum() / (shown > 0).sum(), shown, where=shown > 0, out=0 * shown)
        weights = np.outer(factors, self.weights).reshape(-1)
        return Mix(tasks * len(self.weights) + self.groups, tuple(weights.tolist()))


class Locality(NamedTuple):
    """How samples must stay together so that each group of pictures is decoded once.

    blocks: int64 (samples,), ascending: samples with the same number are decoded together.
    pool: number of samples whose decoded frames a process keeps.
    workers: processes that fetch batches in turns, at least 1.
    batch_size: samples per batch.
    """

    blocks: np.ndarray
    pool: int
    workers: int
    batch_size: int


class EpochOrder(DistributedSampler[int]):
    """Every sample once per epoch, in an order that depends only on seed and epoch.

    Several processes take turns (rank r takes r, r + n, ...), or one part each if samples must
    stay together. So that all processes get the same number, the order is filled up with its own
    beginning; ~i in place of i says that sample i only fills a batch and is not to be learned.

    Args:
        count: number of samples.
        seed: of the order.
        processes: number of processes that share an epoch.
        rank: of this process.
        mix: groups with weights, which show samples more or less often than once.
        locality: samples that must stay together.
        multiple: the number of samples per process is a multiple of this.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        processes: int = 1,
        rank: int = 0,
        mix: Mix | None = None,
        locality: Locality | None = None,
        multiple: int = 1,
    ) -> None:
        self.count = sum(mix.drawn) if mix else count
        """Number of samples per epoch."""
        super().__init__(range(self.count), processes, rank, shuffle=True, seed=seed)  # type: ignore[arg-type]
        self.num_samples = math.ceil(self.num_samples / multiple) * multiple
        self.total_size = self.num_samples * processes
        self._sample_count = count
        self._mix, self._locality = mix, locality
        self.place: Callable[[], tuple[int, int]] | None = None
        """Returns where an iteration starts: its epoch, and how many of this process's samples of
        it were seen already. If None, an iteration is the whole epoch set by `set_epoch`."""

    def __iter__(self) -> Iterator[int]:
        epoch, seen = self.place() if self.place else (self.epoch, 0)
        return iter(self.shares(epoch)[self.rank, seen:].tolist())

    def shares(self, epoch: int) -> np.ndarray:
        """Draw an epoch for all processes: int64 (processes, samples per process)."""
        blocks = self._locality.blocks if self._locality else None
        order = draw_epoch(self._sample_count, self.seed, epoch, self._mix, blocks)
        order = np.append(order, ~np.resize(order, self.total_size - len(order)))
        if self._locality is None:
            return order.reshape(-1, self.num_replicas).T
        shares = [
            arrange(share, self._locality, np.random.default_rng((self.seed, epoch, rank)))
            for rank, share in enumerate(np.split(order, self.num_replicas))
        ]
        return np.stack(shares)


class ResumableLoader(DataLoader[Batch]):
    """A DataLoader that continues where the trainer stands, even in the middle of an epoch.

    The place follows from the number of batches trained on, which the trainer's checkpoints hold.
    Batches that workers fetched ahead, or one that was interrupted, are therefore loaded again.
    The length stays that of the whole epoch.
    """

    order: EpochOrder
    valid_rows: np.ndarray
    """int64 (samples,), rows of each sample's chunk that are not padding."""
    batches_per_step = 1
    """Batches of each process that make one step of the optimiser."""
    _limit: int | float = 1.0
    _counted: tuple[int, np.ndarray] | None = None

    def follow(self, trainer: Trainer) -> None:
        """Start every later iteration where this trainer stands."""
        self._limit = trainer.limit_train_batches  # a number of batches, or a share of the epoch

        def place() -> tuple[int, int]:
            done = trainer.fit_loop.epoch_loop.batch_progress.total.processed  # type: ignore[attr-defined]
            epoch, batches = self._find_batch(done)
            return epoch, batches * (self.batch_size or 1)

        self.order.place = place

    def _find_batch(self, number: int) -> tuple[int, int]:
        """Return the epoch of a batch counted over all epochs, and its number in that epoch."""
        limit = self._limit
        an_epoch = min(len(self), limit) if isinstance(limit, int) else int(len(self) * limit)
        return divmod(number, max(an_epoch, 1))

    def count_step(self, batch: int) -> tuple[int, int]:
        """Count what a step learns from, over all its batches and all processes.

        A mean over these numbers is the mean over one large batch; the mean of the batches' means
        is not, because chunks at the end of an episode have fewer rows.

        Args:
            batch: the number of any of the step's batches, counted over all epochs.

        Returns:
            Rows that are not padding, and samples.
        """
        epoch, number = self._find_batch(batch)
        if self._counted is None or self._counted[0] != epoch:
            shares = self.order.shares(epoch)
            learned = shares >= 0
            each = np.stack([np.where(learned, self.valid_rows[shares], 0), learned])
            per_step = (self.batch_size or 1) * self.batches_per_step
            starts = np.arange(0, shares.shape[1], per_step)
            self._counted = epoch, np.add.reduceat(each.sum(axis=1), starts, axis=1)
        rows, samples = self._counted[1][:, number // self.batches_per_step].tolist()
        return rows, samples

    def state_dict(self) -> dict[str, int]:
        """Return the sizes that must be equal to resume; Lightning saves them in checkpoints."""
        return {
            "samples": self.order.count,
            "batch_size": self.batch_size or 1,
            "batches_per_step": self.batches_per_step,
            "seed": self.order.seed,
            "processes": self.order.num_replicas,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Raise UserError if the interrupted run had different batches."""
        state = {"batches_per_step": 1, **state}  # older runs had one
        for name, here in self.state_dict().items():
            if state[name] != here:
                raise UserError(
                    f"cannot resume: the interrupted run had {name} {state[name]}, this one has "
                    f"{here}; the order of samples would not continue"
                )


def draw_epoch(
    count: int, seed: int, epoch: int, mix: Mix | None = None, blocks: np.ndarray | None = None
) -> np.ndarray:
    """Shuffle an epoch: every sample once, or as often as its group's weight says.

    A group of weight w is repeated w times per epoch, in a new order each time and continuing in
    the next epoch, so that no sample of it is shown two times more than another.

    Args:
        count: number of samples.
        seed: of the order.
        epoch: number of the epoch.
        mix: groups and weights; None shows every sample once.
        blocks: int64 (samples,), ascending: blocks are shuffled, and stay whole; None shuffles
            the samples.

    Returns:
        int64, numbers of samples.
    """
    if mix is None and blocks is None:
        return np.random.default_rng((seed, epoch)).permutation(count)
    mix = mix or Mix(np.zeros(count, np.int64), (1.0,))
    block_of = np.arange(count) if blocks is None else blocks
    parts = []
    for group, drawn in enumerate(mix.drawn):
        own = np.flatnonzero(mix.groups == group)
        parts.append(own[_draw(block_of[own], drawn, (seed, group), epoch * drawn)])
    together = np.concatenate(parts)
    runs = np.cumsum(np.diff(block_of[together], prepend=-1) != 0) - 1
    order: np.ndarray = together[_shuffle(runs, np.random.default_rng((seed, epoch)))]
    return order


def arrange(samples: np.ndarray, locality: Locality, generator: np.random.Generator) -> np.ndarray:
    """Mix the blocks of a process's share of an epoch as far as decoded frames fit into memory.

    Each worker has its own part of the blocks, since batch i is fetched by worker i modulo their
    number. Within it, as many samples as fit into memory are shuffled at a time.

    Args:
        samples: int64, numbers of samples, those of a block together.
        locality: the blocks and the number of samples that fit.
        generator: of the random numbers.
    """
    streams = []
    for stream in np.array_split(samples, locality.workers):
        pools = np.arange(len(stream)) // locality.pool
        # sorted by pool, in random order within each
        streams.append(stream[np.lexsort((generator.random(len(stream)), pools))])
    # whole batches in turns; the remaining samples make the last ones
    size = locality.batch_size
    whole = min(map(len, streams)) // size * size
    turns = np.stack([stream[:whole].reshape(-1, size) for stream in streams], axis=1)
    return np.concatenate([turns.reshape(-1), *(stream[whole:] for stream in streams)])


def _draw(blocks: np.ndarray, count: int, seed: tuple[int, int], begin: int) -> np.ndarray:
    """Return `count` samples from position `begin` of an endless sequence of shuffled passes."""
    if count == 0:
        return np.empty(0, np.int64)
    size = len(blocks)
    passes = range(begin // size, (begin + count - 1) // size + 1)
    every = [_shuffle(blocks, np.random.default_rng((*seed, number))) for number in passes]
    start = begin - passes[0] * size
    return np.concatenate(every)[start : start + count]


def _shuffle(blocks: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the positions of the samples, with whole blocks in random order."""
    number = np.cumsum(np.diff(blocks, prepend=blocks[:1]) != 0)
    rank = generator.permutation(int(number[-1]) + 1)
    return np.argsort(rank[number], kind="stable")
