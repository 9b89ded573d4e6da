"""Where the time of a run went."""

from pathlib import Path

from act_policy.training.engine.time_spent import (
    CHECKPOINTS,
    DATA,
    HELD_OUT,
    OTHER,
    STEPS,
    TimeSpent,
)
from tests.training.training_for_tests import run_training


def test_a_phase_inside_another_counts_once() -> None:
    now = 0.0
    spent = TimeSpent(lambda: now)
    validation = "[LightningModule]PolicyTraining.on_validation_"
    for seconds, call, name in (
        (0, spent.start, "run_training_epoch"),
        (1, spent.start, "[_TrainingEpochLoop].train_dataloader_next"),
        (2, spent.stop, "[_TrainingEpochLoop].train_dataloader_next"),
        (0, spent.start, "run_training_batch"),
        (3, spent.start, "[Callback]anything.on_before_backward"),
        (1, spent.stop, "[Callback]anything.on_before_backward"),
        (0, spent.stop, "run_training_batch"),
        (0, spent.start, f"{validation}start"),
        (0, spent.stop, f"{validation}start"),
        (5, spent.start, "save_checkpoint"),
        (8, spent.stop, "save_checkpoint"),
        (0, spent.start, f"{validation}end"),
        (0, spent.stop, f"{validation}end"),
        (1, spent.stop, "run_training_epoch"),
        (100, spent.stop, "teardown"),
    ):
        now += seconds
        call(name)
    assert spent.seconds == {STEPS: 4, DATA: 2, HELD_OUT: 5, CHECKPOINTS: 8, OTHER: 2}
    said = spent.describe_shares(workers=0)
    assert said.startswith("time: 38% checkpoints, 24% held-out losses, 19% forward and backward")
    assert "data.workers=" not in said
    assert "validate_every" in said


def test_every_phase_of_a_run_is_measured(demonstrations: Path, tmp_path: Path) -> None:
    spent = run_training(demonstrations, tmp_path).trainer.profiler
    assert isinstance(spent, TimeSpent)
    assert all(seconds > 0 for seconds in spent.seconds.values())
