"""TensorBoard and Weights & Biases beside metrics.csv."""

import importlib.util
from pathlib import Path

import pytest

from act_policy.errors import UserError
from act_policy.training.engine.loggers import build_tensorboard, build_wandb


def test_tensorboard_writes_into_the_run_or_is_named_as_missing(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(UserError, match=r"is not installed: pip install tensorboard"):
            build_tensorboard(str(tmp_path))
        return
    logger = build_tensorboard(str(tmp_path))
    logger.log_metrics({"train_l1": 0.5}, step=1)
    logger.save()
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


@pytest.mark.slow
def test_a_server_out_of_reach_makes_the_run_an_offline_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = build_wandb(str(tmp_path), "act_policy", offline=False)
    logger.log_metrics({"train_l1": 0.5}, step=1)
    logger.finalize("success")
    logger.experiment.finish()
    assert "wandb sync" in capsys.readouterr().err
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    assert list(run.glob("*.wandb"))
