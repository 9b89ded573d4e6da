"""The order of samples in an epoch: a function of seed and epoch only."""

from typing import NamedTuple

import numpy as np


class Mix(NamedTuple):
    """Several datasets that share an epoch.

    counts: number of samples of each dataset, in order.
    weights: how often an epoch shows each sample of a dataset; 1 is once.
    """

    counts: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def drawn(self) -> tuple[int, ...]:
        """Number of samples of each dataset per epoch."""
        return tuple(
            max(1, round(count * weight)) if count else 0
            for count, weight in zip(self.counts, self.weights, strict=True)
        )


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


def draw_epoch(
    count: int, seed: int, epoch: int, mix: Mix | None = None, blocks: np.ndarray | None = None
) -> np.ndarray:
    """Shuffle an epoch: every sample once, or as often as its dataset's weight says.

    A dataset of weight w is repeated w times per epoch, in a new order each time and continuing in
    the next epoch, so that no sample is shown two times more than another.

    Args:
        count: number of samples.
        seed: of the order.
        epoch: number of the epoch.
        mix: datasets and weights; None is one dataset.
        blocks: int64 (samples,), ascending: blocks are shuffled, and stay whole; None shuffles
            the samples.

    Returns:
        int64, numbers of samples.
    """
    if mix is None and blocks is None:
        return np.random.default_rng((seed, epoch)).permutation(count)
    mix = mix or Mix((count,), (1.0,))
    block_of = np.arange(count) if blocks is None else blocks
    parts, first = [], 0
    for part, (size, drawn) in enumerate(zip(mix.counts, mix.drawn, strict=True)):
        own = block_of[first : first + size]
        parts.append(first + _draw(own, drawn, (seed, part), epoch * drawn))
        first += size
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
