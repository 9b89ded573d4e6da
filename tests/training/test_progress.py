"""The bar, the lines and metrics.csv."""

import io
import re
import sys
from pathlib import Path

import pytest

from act_policy.errors import UserError
from act_policy.training.callbacks.progress import Progress
from act_policy.training.run.metrics_file import MetricsFile
from tests.training.training_for_tests import make_data, run_training


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def read(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_rows_of_one_step_are_one_row_and_late_columns_are_added(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    metrics = MetricsFile(path)
    metrics.log_metrics({"train_l1": 0.5}, 1)
    assert read(path) == ["step,train_l1", "1,0.5"]  # written at once, so it can be watched
    metrics.log_metrics({"train_l1": 0.25}, 2)
    metrics.log_metrics({"held_out_l1": 1 / 3}, 2)
    metrics.finalize("success")
    assert read(path) == ["step,train_l1,held_out_l1", "1,0.5,", "2,0.25,0.333333"]


def test_a_resumed_run_keeps_the_rows_up_to_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,train_l1,held_out_l1\n1,0.5,\n2,0.25,0.3\n3,0.1,\n")
    metrics = MetricsFile(path)
    metrics.continue_from(2)
    metrics.log_metrics({"train_l1": 0.2}, 3)
    metrics.save()
    assert read(path) == ["step,train_l1,held_out_l1", "1,0.5,", "2,0.25,0.3", "3,0.2,"]


def test_an_unwritable_folder_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(UserError, match=r"metrics.csv: cannot be written"):
        MetricsFile(tmp_path / "run" / "metrics.csv").log_metrics({"train_l1": 1.0}, 1)


def test_one_bar_over_the_whole_run_on_a_terminal(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run_training(demonstrations, tmp_path)
    shown = terminal.getvalue()
    assert "10/10" in shown
    assert "train=" in shown
    assert "held-out=" in shown
    assert "left=0 s" in shown
    assert "step 10/10" not in shown


def test_lines_are_printed_without_a_terminal(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    run_training(demonstrations, tmp_path, callbacks=[Progress(line_seconds=0.0)])
    lines = stream.getvalue().splitlines()
    assert re.match(r"step 1/10  \d+\.\d min  train ", lines[0])
    assert lines[-1].startswith("step 10/10")
    assert "held-out" in lines[-1]


def test_samples_per_second_counts_every_sample(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path, max_steps=5)
    (metrics,) = (m for m in run.trainer.loggers if isinstance(m, MetricsFile))
    assert [row["epoch"] for row in metrics.rows] == ["0"] * 5
    assert len(make_data(demonstrations).train_samples) == 17
    for row in metrics.rows:
        assert float(row["samples_per_second"]) > 0
