"""Several instructions become tasks: each sample has its own, and each may be shown as often."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from act_policy.data.aloha.episode import write_episode
from act_policy.data.dataset import observation_at
from act_policy.data.lerobot.features import write_tasks
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_arrays, make_schema
from tests.data.lerobot_for_tests import change_table
from tests.data.oddities_for_tests import rgb, write_lerobot

TOLD = ("open it", "close it", "open it")
LENGTHS = (12, 4, 5)


def write(folder: Path, told: tuple[str, ...] = TOLD) -> Path:
    schema = make_schema()
    for episode, (steps, text) in enumerate(zip(LENGTHS, told, strict=True)):
        path = folder / f"episode_{episode:06d}.hdf5"
        write_episode(path, schema, **make_arrays(schema, steps, episode), instruction=text)
    return folder


def module(folder: Path, **options: object) -> DemonstrationDataModule:
    config = {"path": folder, "batch_size": 4, "held_out_fraction": 0.0, **options}
    return DemonstrationDataModule.from_config(config, 3, 0)


def test_each_sample_has_the_index_of_its_instruction(tmp_path: Path) -> None:
    data = module(write(tmp_path))
    assert data.schema.tasks == ("open it", "close it")
    samples = data.train_samples
    batch = samples.__getitems__(list(range(len(samples))))
    assert torch.equal(batch.observation.task == 1, batch.episode == 1)
    assert observation_at(data.dataset, 1, 0).task == "close it"


def test_one_instruction_is_listed_and_nothing_is_chosen(tmp_path: Path) -> None:
    for data in (
        module(write(tmp_path / "one", ("open it", "", "open it"))),
        module(write(tmp_path / "two"), select={"instruction": "open it"}),
    ):
        assert data.schema.tasks == ("open it",)
        assert data.train_samples[0].observation.task is None
    assert module(tmp_path / "two", select={"tasks": False}).schema.tasks == ()


def test_a_folder_for_each_task_and_weights_to_balance_them(tmp_path: Path) -> None:
    one = write(tmp_path / "one", ("open it",) * 3)
    two = write(tmp_path / "two", ("close it", "close it", "open it"))
    data = module(one, mix=[{"path": two, "weight": 2}], balance_tasks=True)
    assert data.schema.tasks == ("open it", "close it")
    loader = data.train_dataloader()
    shown: Counter[int] = Counter()
    parts: Counter[bool] = Counter()
    for epoch in range(6):
        loader.order.set_epoch(epoch)
        for batch in loader:
            assert torch.equal(
                batch.observation.task == 1, torch.isin(batch.episode, torch.tensor([3, 4]))
            )
            shown.update(batch.observation.task.tolist())
            parts.update((batch.episode[batch.observation.task == 0] == 5).tolist())
    assert shown[0] == pytest.approx(shown[1], abs=6 * 1.5)  # numbers of three groups are rounded
    # 21 steps shown once and 21 twice, as without the balance
    assert sum(shown.values()) == pytest.approx(6 * 63, abs=6 * 2)
    assert parts[True] / parts[False] == pytest.approx(2 * LENGTHS[2] / sum(LENGTHS), rel=0.1)


def test_balance_needs_several_tasks(tmp_path: Path) -> None:
    data = module(write(tmp_path, ("open it",) * 3), balance_tasks=True)
    with pytest.raises(UserError, match=r"balance_tasks.*nothing to balance"):
        _ = data.dataset


def test_an_episode_without_an_instruction_among_several_tasks_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, ("open it", "", "close it"))
    with pytest.raises(
        UserError, match=r"episode_000001.hdf5: step 0 has none of the 2 instructions"
    ):
        _ = module(folder).dataset
    assert module(folder, select={"exclude": [1]}).schema.chooses_task


def test_a_chunk_ends_with_its_task(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "a", "v3.0", {"observation.images.top": rgb})
    lengths = open_demonstrations(folder).lengths
    halves = [np.arange(steps) >= steps // 2 for steps in lengths]
    path = next(folder.glob("data/*/*"))
    change_table(path, lambda c: c.update(task_index=np.concatenate(halves).astype(int).tolist()))
    write_tasks(folder / "meta/tasks.parquet", list(TOLD[:2]))
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    change_table(path, lambda c: c.update(tasks=[list(TOLD[:2])] * len(lengths)))
    samples = module(folder).train_samples
    batch = samples.__getitems__(list(range(len(samples))))
    rows = samples.valid_rows
    assert torch.equal((~batch.is_pad).sum(1), torch.from_numpy(rows))
    for episode, step, task, valid in zip(
        *(batch.episode.tolist(), batch.step.tolist(), batch.observation.task.tolist()),
        rows,
        strict=True,
    ):
        half = halves[episode]
        assert task == int(half[step])
        end = len(half) if task else len(half) // 2
        assert valid == min(3, end - step)


def test_files_hold_instructions_and_not_a_policys_list(tmp_path: Path) -> None:
    schema = make_schema()
    path = tmp_path / "episode_000000.hdf5"
    listed = replace(schema, tasks=("open it", "close it"))
    write_episode(path, listed, **make_arrays(schema, 4, 0), instruction="open it")
    with h5py.File(path) as file:
        assert "tasks" not in file.attrs["schema"]
