"""compile=true, where it works and where it does not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.model.act import ACT
from act_policy.report.learning_curves import read_metrics
from tests.paths import ROOT
from tests.training.training_for_tests import assert_same_weights, run_training


def test_a_network_that_cannot_be_compiled_is_trained_as_it_is(
    demonstrations: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = run_training(demonstrations, tmp_path / "plain", max_steps=3)

    def fail(*given: Any, **named: Any) -> None:
        raise RuntimeError("\nno C++ compiler\nand much more")

    def compile_to_fail(self: ACT) -> None:
        self._compiled_call_impl = fail

    monkeypatch.setattr(ACT, "compile", compile_to_fail)
    run = run_training(demonstrations, tmp_path / "run", max_steps=3, compiles=True)
    assert "is trained as it is: no C++ compiler\n" in capsys.readouterr().out
    assert_same_weights(plain.weights(), run.weights())


@pytest.mark.slow
def test_a_compiled_run_trains_alike_and_goes_on_without_being_compiled(
    demonstrations: Path, tmp_path: Path
) -> None:
    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "train.py"), *arguments],
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    tiny = ["experiment=tiny", f"data.path={demonstrations}", "model.dropout=0.0"]
    tiny += ["model.latent_size=0", "model.latent_layers=0", "loss.kl_weight=null"]
    for name in ("false", "true"):
        said = call(*tiny, f"out={tmp_path / name}", f"compile={name}")
        assert ("the network is compiled" in said) == (name == "true"), said
    losses = [
        [row["train_l1"] for row in read_metrics(tmp_path / name / "metrics.csv")]
        for name in ("false", "true")
    ]
    # Adam divides tiny gradients, which are rounding, by their own size
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    call(f"resume={tmp_path / 'true'}", "compile=false", "max_steps=12")
    saved = torch.load(tmp_path / "true" / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 12
