"""The order of samples: complete, fair by weight, and local where frames are coded together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from act_policy.data.loading.order import EpochOrder, Locality, Mix, arrange, draw_epoch
from tests.examples import FEW

block_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=30)


def blocks_of(sizes):
    """Return ascending numbers with gaps, as if episodes were left out."""
    return np.repeat(3 * np.arange(len(sizes)), sizes)


@FEW
@given(block_sizes, st.integers(0, 3), st.integers(1, 20), st.integers(1, 4), st.integers(1, 5))
def test_every_sample_comes_once_with_any_blocks(sizes, epoch, pool, workers, batch_size):
    blocks = blocks_of(sizes)
    count = len(blocks)
    order = draw_epoch(count, 7, epoch, blocks=blocks)
    assert sorted(order) == list(range(count))
    ids = blocks[order]
    assert (np.diff(ids) != 0).sum() + 1 == len(sizes)  # each block in one piece
    locality = Locality(blocks, pool, workers, batch_size)
    arranged = arrange(order, locality, np.random.default_rng(0))
    assert sorted(arranged) == list(range(count))


@FEW
@given(st.lists(st.integers(1, 30), min_size=1, max_size=3), st.data())
def test_samples_come_as_often_as_their_weights(counts, data):
    weights = tuple(data.draw(st.sampled_from([0.3, 0.5, 1.0, 2.0, 2.5])) for _ in counts)
    mix = Mix(np.repeat(np.arange(len(counts)), counts), weights)
    seen = np.zeros(sum(counts), int)
    epochs = 4
    for epoch in range(epochs):
        order = draw_epoch(sum(counts), 3, epoch, mix)
        assert len(order) == sum(mix.drawn)
        seen += np.bincount(order, minlength=sum(counts))
    for part, drawn in zip(np.split(seen, np.cumsum(counts)[:-1]), mix.drawn, strict=True):
        assert part.sum() == epochs * drawn
        assert part.max() - part.min() <= 1


def test_the_order_depends_only_on_seed_and_epoch():
    mix = Mix(np.repeat([0, 1], [20, 10]), (1.0, 2.0))
    orders = {
        (seed, epoch): tuple(draw_epoch(30, seed, epoch, mix))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(set(orders.values())) == 4
    assert tuple(draw_epoch(30, 1, 1, mix)) == orders[1, 1]


def decodings(order, blocks, pool, workers, batch_size):
    """Count the decoded blocks if each process keeps decoded frames until they are used."""
    kept = [{} for _ in range(workers)]
    count = 0
    for start in range(0, len(order), batch_size):
        mine = kept[start // batch_size % workers]
        for sample in order[start : start + batch_size]:
            if sample in mine:
                del mine[sample]
                continue
            count += 1
            mine |= dict.fromkeys(np.flatnonzero(blocks == blocks[sample]))
            del mine[sample]
            assert len(mine) <= pool + 2 * 8
    return count


def test_each_block_is_decoded_about_once_and_samples_are_mixed():
    blocks = np.repeat(np.arange(250), 8)
    pool, batch_size = 256, 32
    for workers in (1, 3):
        order = arrange(
            draw_epoch(len(blocks), 0, 0, blocks=blocks),
            Locality(blocks, pool, workers, batch_size),
            np.random.default_rng(0),
        )
        assert decodings(order, blocks, pool, workers, batch_size) < 250 * 1.15
        batches = blocks[order].reshape(-1, batch_size) if len(order) % batch_size == 0 else (
            np.split(blocks[order], range(batch_size, len(order), batch_size))
        )  # fmt: skip
        different = np.mean([len(set(batch)) for batch in batches[:-1]])
        assert different > 16  # of 32 samples


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4))
def test_several_processes_share_a_local_epoch(count, processes, workers):
    locality = Locality(np.arange(count) // 4, 8, workers, 3)
    shares = [
        list(EpochOrder(count, 0, processes, rank, locality=locality)) for rank in range(processes)
    ]
    assert len({len(share) for share in shares}) == 1
    together = [sample for share in shares for sample in share]
    assert sorted(sample for sample in together if sample >= 0) == list(range(count))
    assert len(together) - count < processes
