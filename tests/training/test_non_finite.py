"""Steps that are not finite and may be left out."""

import csv
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from act_policy.data.loading.batches import Batch
from act_policy.errors import UserError
from tests.training.training_for_tests import assert_same_weights, run_training


class Break(lightning.Callback):
    """Makes an action of these steps NaN."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps
        self.named: list[str] = []
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Batch, batch_idx: int) -> None:
        self.weights.append({n: v.clone() for n, v in module.state_dict().items()})
        if trainer.global_step + 1 in self.steps:
            episode, step = int(batch.episode[0]), int(batch.step[0])
            self.named.append(f"episode {episode} (episode_{episode:06}.hdf5) step {step}")
            batch.actions[0, 0, 1] = float("nan")


def test_a_step_that_is_left_out_changes_nothing(
    demonstrations: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Break(3, 7)
    run = run_training(
        demonstrations, tmp_path, callbacks=[broken], skip_non_finite=2, validate_every=4
    )
    assert run.trainer.global_step == 10
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    for number, (line, named) in enumerate(zip(lines, broken.named, strict=True)):
        assert f"training step {(3, 7)[number]}: L1 is nan" in line
        assert f"not finite in {named}" in line
        assert f"{number + 1} of at most 2 steps left out" in line
    for step in (3, 7):  # running statistics of norms and averages included
        assert_same_weights(broken.weights[step - 1], broken.weights[step])
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if not row["train_l1"]] == ["3", "7"]
    saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["training"]["skipped"] == 2
    with pytest.raises(UserError, match=r"step 12: .*skip_non_finite=2 steps have been left out"):
        run_training(
            demonstrations,
            tmp_path,
            max_steps=20,
            checkpoint=tmp_path / "checkpoints" / "last.ckpt",
            callbacks=[Break(12)],
            skip_non_finite=2,
        )
