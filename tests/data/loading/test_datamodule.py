"""Batches compared with naive slicing; the order of samples; the split."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from act_policy.data.aloha.episode import write_episode
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.loading.order import EpochOrder
from act_policy.errors import UserError
from tests.data.episodes_for_tests import (
    jpeg_rows,
    make_arrays,
    make_schema,
    smooth_frames,
    write_foreign_episode,
)
from tests.examples import FEW


def origins(loader):
    """Return (episode, step) of every sample in the loader's order."""
    return [
        place
        for batch in loader
        for place in zip(batch.episode.tolist(), batch.step.tolist(), strict=True)
    ]


def check_against_slices(batch, arrays, chunk_length):
    """Check every sample of a batch against slices of the episode's arrays."""
    for i, (episode, step) in enumerate(
        zip(batch.episode.tolist(), batch.step.tolist(), strict=True)
    ):
        truth = arrays[episode]
        for camera, images in batch.observation.images.items():
            np.testing.assert_array_equal(images[i], truth["images"][camera][step])
        np.testing.assert_array_equal(batch.observation.state[i], truth["state"][step])
        there = truth["action"][step : step + chunk_length]
        np.testing.assert_array_equal(batch.actions[i][: len(there)], there)
        for row in batch.actions[i][len(there) :]:
            np.testing.assert_array_equal(row, truth["action"][-1])
        expected = [False] * len(there) + [True] * (chunk_length - len(there))
        assert batch.is_pad[i].tolist() == expected


@FEW
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    chunk_length=st.integers(1, 12),
    batch_size=st.integers(1, 7),
)
def test_batches_equal_naive_slices(tmp_path_factory, lengths, chunk_length, batch_size):
    folder: Path = tmp_path_factory.mktemp("episodes")
    schema = make_schema({"top": (6, 8), "wrist": (5, 7)})
    arrays = [make_arrays(schema, steps, i) for i, steps in enumerate(lengths)]
    for i, episode in enumerate(arrays):
        write_episode(folder / f"episode_{i}.hdf5", schema, **episode)
    data = DemonstrationDataModule(folder, chunk_length, batch_size, held_out_fraction=0.3)

    for loader in (data.train_dataloader(), data.val_dataloader()):
        for batch in loader:
            assert batch.actions.dtype == batch.observation.state.dtype == torch.float32
            assert batch.observation.images["top"].dtype == torch.uint8
            assert batch.is_pad.dtype == torch.bool
            check_against_slices(batch, arrays, chunk_length)
    frames = origins(data.train_dataloader()) + origins(data.val_dataloader())
    assert sorted(frames) == [(e, t) for e, steps in enumerate(lengths) for t in range(steps)]


def test_episodes_of_unequal_length(make_folder):
    lengths = [37, 90, 140]
    data = DemonstrationDataModule(make_folder(lengths), 100, 3, held_out_fraction=0.0)
    seen = []
    for batch in data.train_dataloader():
        assert batch.actions.shape[1:] == (100, 3)
        assert batch.is_pad.shape[1] == 100
        for episode, step, is_pad in zip(*batch[3:], batch.is_pad, strict=True):
            past_end = step + torch.arange(100) >= lengths[episode]
            assert torch.equal(is_pad, past_end)
            seen.append((int(episode), int(step)))
    assert sorted(seen) == [(e, t) for e, n in enumerate(lengths) for t in range(n)]
    every = np.concatenate([data.dataset.action(e) for e in range(3)]).astype(np.float64)
    np.testing.assert_allclose(data.statistics.action.mean, every.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.statistics.action.std, every.std(axis=0), rtol=1e-12)


def test_episodes_that_are_all_shorter_than_a_chunk(make_folder):
    data = DemonstrationDataModule(make_folder([8, 20, 1]), 100, 64, held_out_fraction=0.0)
    (batch,) = data.train_dataloader()
    assert batch.actions.shape == (29, 100, 3)
    assert torch.isfinite(batch.actions).all()
    assert (~batch.is_pad).sum() == sum(n * (n + 1) // 2 for n in (8, 20, 1))
    for row in torch.where(batch.episode == 2)[0]:
        assert batch.is_pad[row].tolist() == [False] + [True] * 99
        assert (batch.actions[row] == batch.actions[row, 0]).all()


def test_only_the_chosen_episodes_are_loaded(make_folder):
    folder = make_folder([3 + i for i in range(12)])
    data = DemonstrationDataModule(
        folder, 4, 5, train_episodes=[11, 1, 5], held_out_episodes=[2, 0]
    )
    train, held_out = origins(data.train_dataloader()), origins(data.val_dataloader())
    assert sorted(train) == [(e, t) for e in (1, 5, 11) for t in range(3 + e)]
    assert sorted(held_out) == [(e, t) for e in (0, 2) for t in range(3 + e)]
    every = np.concatenate([data.dataset.state(e) for e in (1, 5, 11)]).astype(np.float64)
    np.testing.assert_allclose(data.statistics.state.mean, every.mean(axis=0), rtol=1e-9)
    assert data.statistics.step_count == 4 + 8 + 14

    rest = DemonstrationDataModule(folder, 4, 5, held_out_episodes=[2, 0])
    assert rest.train_episodes.tolist() == [1, *range(3, 12)]
    alone = DemonstrationDataModule(folder, 4, 5, train_episodes=[3])
    assert alone.val_dataloader() == []


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_held_out_frames_are_divided_among_the_processes(make_folder, processes):
    data = DemonstrationDataModule(make_folder([4, 7]), 4, 2, held_out_episodes=[1])
    parts = []
    for rank in range(processes):
        data.trainer = SimpleNamespace(
            world_size=processes,
            global_rank=rank,
            strategy=SimpleNamespace(root_device=torch.device("cpu")),
        )
        parts.append(origins(data.val_dataloader()))
    assert sorted(chain(*parts)) == [(1, step) for step in range(7)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_more_processes_than_held_out_frames_each_load_all_of_them(make_folder):
    data = DemonstrationDataModule(make_folder([4, 1]), 4, 2, held_out_episodes=[1])
    data.trainer = SimpleNamespace(
        world_size=2, global_rank=1, strategy=SimpleNamespace(root_device=torch.device("cpu"))
    )
    assert origins(data.val_dataloader()) == [(1, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_episodes": [0, 1], "held_out_episodes": [1]}, r"episodes \[1\] are in"),
        ({"train_episodes": [0, 4]}, r"\[4\] are not among 0 to 3"),
        ({"held_out_episodes": [-1]}, r"\[-1\] are not among 0 to 3"),
        ({"train_episodes": []}, "no episode is left"),
        ({"held_out_episodes": [0, 1, 2, 3]}, "no episode is left"),
        ({"batch_size": 0}, "batch_size must be at least 1, found 0"),
        ({"chunk_length": 0}, "chunk_length must be at least 1, found 0"),
        ({"workers": -1}, "workers must be at least 0, found -1"),
        ({"undecodable": "grey"}, "undecodable=grey: expected stop or skip"),
        ({"std_floor": 0.0}, "std_floor"),
        ({"held_out_fraction": 1.5}, "held_out_fraction"),
    ],
)
def test_impossible_settings_are_refused(make_folder, options, message):
    with pytest.raises(UserError, match=message):
        use_everything(make_folder([2] * 4), options)


def use_everything(folder, options):
    data = DemonstrationDataModule(folder, **{"chunk_length": 2, "batch_size": 2} | options)
    data.setup("fit")
    _ = data.statistics


def test_everything_is_checked_before_the_first_step(make_folder):
    folder = make_folder([5, 6])
    schema = make_schema()
    arrays = make_arrays(schema, 4, 9)
    write_episode(folder / "episode_000002.hdf5", schema, **arrays)
    with h5py.File(folder / "episode_000002.hdf5", "a") as file:
        file["observations/qpos"][3, 1] = np.nan
    # also if the broken episode is held out
    data = DemonstrationDataModule(folder, 2, 2, held_out_episodes=[2])
    with pytest.raises(UserError, match=r"episode_000002.hdf5: state j1 at step 3 is nan"):
        _ = data.schema


def test_undecodable_frames_are_skipped_and_counted(tmp_path):
    rows = jpeg_rows(smooth_frames(6))
    rows[2, 50:] = 0
    write_foreign_episode(tmp_path / "episode_0.hdf5", 6, {"top": rows})
    with pytest.raises(UserError, match="camera top, step 2"):
        DemonstrationDataModule(tmp_path, 3, 4).setup("fit")
    data = DemonstrationDataModule(tmp_path, 3, 4, undecodable="skip")
    assert data.train_samples.skipped == 1
    assert sorted(origins(data.train_dataloader())) == [(0, t) for t in (0, 1, 3, 4, 5)]
    for batch in data.train_dataloader():  # the actions at the skipped step are still targets
        for i, step in enumerate(batch.step.tolist()):
            np.testing.assert_array_equal(batch.actions[i, 0], data.dataset.action(0)[step])
            if step == 1:
                np.testing.assert_array_equal(batch.actions[i, 1], data.dataset.action(0)[2])


def test_seeds_of_all_demonstrations_are_known(make_folder):
    data = DemonstrationDataModule(make_folder([2] * 5), 2, 2)
    assert data.demonstration_seeds == (100, 101, 102, 103, 104)
    assert len(data.held_out_episodes) == 1


def test_the_order_is_a_pure_function_of_seed_and_epoch():
    orders = {}
    for seed in (0, 1):
        order = EpochOrder(50, seed)
        for epoch in (2, 0, 1):
            order.set_epoch(epoch)
            orders[seed, epoch] = tuple(order)
            assert sorted(orders[seed, epoch]) == list(range(50))
    assert len(set(orders.values())) == 6
    again = EpochOrder(50, 1)
    again.set_epoch(2)
    assert tuple(again) == orders[1, 2]


@given(st.integers(1, 40), st.integers(1, 5))
def test_several_processes_share_an_epoch(count, processes):
    shares = [list(EpochOrder(count, 0, processes, rank)) for rank in range(processes)]
    assert len({len(share) for share in shares}) == 1
    together = [sample for share in shares for sample in share]
    assert sorted(sample for sample in together if sample >= 0) == list(range(count))
    assert len(together) - count < processes


def test_batches_do_not_depend_on_workers(make_folder):
    folder = make_folder([9, 8, 7])
    alone = DemonstrationDataModule(folder, 4, 5).train_dataloader()
    helped = DemonstrationDataModule(folder, 4, 5, workers=2).train_dataloader()
    for epoch in range(2):
        alone.order.set_epoch(epoch)
        helped.order.set_epoch(epoch)
        for one, other in zip(alone, helped, strict=True):
            assert torch.equal(one.step, other.step)
            assert torch.equal(one.actions, other.actions)
            assert torch.equal(one.observation.images["top"], other.observation.images["top"])


TRAINER = """
import sys
from act_policy.data.loading.datamodule import DemonstrationDataModule

if __name__ == "__main__":
    loader = DemonstrationDataModule(sys.argv[1], 4, 5, workers=2).train_dataloader()
    while True:
        for batch in loader:
            print("batch", flush=True)
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_trainer(make_folder, tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    with subprocess.Popen(
        [sys.executable, str(script), str(make_folder([9, 8, 7]))],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as trainer:
        try:
            assert trainer.stdout.readline() == "batch\n"
            trainer.kill()
            trainer.communicate(timeout=30)  # a living worker holds the pipe open
        finally:
            with suppress(ProcessLookupError):
                os.killpg(trainer.pid, signal.SIGKILL)
