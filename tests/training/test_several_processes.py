"""Several processes, or several batches per step, train like one process with one large batch."""

import csv
import os
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from act_policy.data.loading.order import EpochOrder, ResumableLoader
from act_policy.errors import UserError
from act_policy.training.engine.launch import Launch, find_launch, is_first_process
from tests.training.several_processes import (
    run_in_processes,
    srun_environment,
    torchrun_environment,
)
from tests.training.training_for_tests import make_data

# Group norm and no dropout, whose numbers depend on how a batch is divided; 17 samples in batches
# of 4, so that the last step of each of the four epochs has one sample and three that only fill.
MODEL = {"dropout": 0.0, "backbone_norm": "group"}
OPTIONS = {"max_steps": 20, "validate_every": 10, "model": MODEL, "without_noise": True}
COMPARED = ("train_l1", "train_kl", "gradient_norm", "held_out_l1", "held_out_l1_posterior")


def columns(folder: Path) -> dict[str, np.ndarray]:
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [str(step) for step in range(1, 21)]
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COMPARED}


@pytest.fixture(scope="module")
def one(demonstrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "run"
    (seen,) = run_in_processes(1, folder, demonstrations=demonstrations, batch_size=4, **OPTIONS)
    assert [len(batch) for batch in seen["samples"]] == [4, 4, 4, 4, 1] * 4
    return folder


@pytest.mark.parametrize(
    ("processes", "accumulate", "batch_size"),
    [
        (2, 1, 2),
        pytest.param(1, 2, 2, marks=pytest.mark.slow),
        pytest.param(2, 2, 1, marks=pytest.mark.slow),
    ],
)
def test_the_losses_are_those_of_one_process_with_the_large_batch(
    one: Path,
    demonstrations: Path,
    tmp_path: Path,
    processes: int,
    accumulate: int,
    batch_size: int,
) -> None:
    seen = run_in_processes(
        processes,
        tmp_path / "run",
        demonstrations=demonstrations,
        batch_size=batch_size,
        accumulate=accumulate,
        **OPTIONS,
    )
    expected, found = columns(one), columns(tmp_path / "run")
    for name in COMPARED:
        # float32 adds up in another order; six digits are written
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)
    # every sample once an epoch, over all processes; each of the two held-out losses likewise
    per_epoch = 5 * accumulate
    for epoch in range(4):
        part = slice(epoch * per_epoch, (epoch + 1) * per_epoch)
        learned = Counter(chain(*(chain(*mine["samples"][part]) for mine in seen)))
        assert len(learned) == 17
        assert set(learned.values()) == {1}
    held_out = Counter(chain(*(mine["held_out"] for mine in seen)))
    assert set(held_out.values()) == {2}
    # no two batches share their random numbers
    seeds = list(chain(*(mine["seeds"] for mine in seen)))
    assert len(set(seeds)) == len(seeds) == 20 * processes * accumulate


def test_every_process_knows_what_a_whole_step_learns_from(demonstrations: Path) -> None:
    data = make_data(demonstrations)
    samples = data.train_samples
    shares = [EpochOrder(17, 5, 2, rank, multiple=6) for rank in range(2)]
    assert [len(share) for share in shares] == [12, 12]
    shares[0].set_epoch(3)
    shares[1].set_epoch(3)
    numbers = np.array([list(share) for share in shares])
    loader = ResumableLoader(samples, sampler=shares[1], batch_size=3)
    loader.order, loader.valid_rows, loader.batches_per_step = shares[1], samples.valid_rows, 2
    for step in range(2):
        own = numbers[:, 6 * step : 6 * step + 6].reshape(-1).tolist()
        batch = samples.__getitems__(own)
        rows = int((~batch.is_pad).sum())
        # the fourth epoch has four batches, like the three before it
        counts = [loader.count_step(3 * 4 + 2 * step + part) for part in range(2)]
        assert counts == [(rows, sum(number >= 0 for number in own))] * 2


def test_a_sample_that_fills_a_batch_is_padding_only(demonstrations: Path) -> None:
    samples = make_data(demonstrations).train_samples
    batch = samples.__getitems__([3, ~3])
    assert batch.step[0] == batch.step[1]
    assert batch.is_pad.all(dim=-1).tolist() == [False, True]


@pytest.mark.parametrize(
    ("variables", "launch"),
    [
        ({}, None),
        (torchrun_environment(1, 2, 5), Launch("torchrun", 1, 2, 1)),
        (
            {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "3"},
            Launch("srun", 3, 2, 2),
        ),
        (srun_environment(1, 2, 5), Launch("srun", 1, 2, 1)),
        ({"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, None),
        ({"SLURM_NTASKS": "2", "SLURM_JOB_NAME": "interactive"}, None),
    ],
)
def test_who_started_the_processes(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], launch: Launch | None
) -> None:
    for name in [name for name in os.environ if name.startswith(("SLURM_", "LOCAL_RANK"))]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_launch() == launch
    assert is_first_process() == (launch is None)
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    if "SLURM_NTASKS_PER_NODE" not in variables and "RANK" not in variables:
        with pytest.raises(UserError, match="--ntasks-per-node="):
            find_launch()
