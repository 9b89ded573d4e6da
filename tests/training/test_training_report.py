"""RUN/report.html and the errors in physical units that it shows."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy.data.loading.batches import Batch
from act_policy.report.learning_curves import draw_learning_curves, read_metrics
from act_policy.report.page import render_page
from act_policy.training.callbacks.training_report import TrainingReport
from act_policy.types import Schema
from tests.browser import headings, opened
from tests.training.training_for_tests import make_data, run_training


def test_held_out_errors_are_in_physical_units(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path, callbacks=[TrainingReport()])
    samples = make_data(demonstrations).held_out_samples
    batch: Batch = samples.__getitems__(list(range(len(samples))))
    policy = run.training.best_policy
    with torch.no_grad():
        predicted = policy.eval()(batch.observation)
    errors = (predicted - batch.actions).abs()[~batch.is_pad].mean(dim=0)
    last = read_metrics(tmp_path / "metrics.csv")[-1]
    names = ("dx", "dy", "grip")
    found = [last[f"held_out_error/{name}"] for name in names]
    np.testing.assert_allclose(found, errors.numpy(), rtol=1e-4)
    # a CSV that other programs read has these columns, too
    with (tmp_path / "metrics.csv").open() as file:
        assert "held_out_error/dx" in next(csv.reader(file))


def test_the_page_is_updated_during_training_and_kept(demonstrations: Path, tmp_path: Path) -> None:
    pages: list[str] = []

    class Look(TrainingReport):
        def _write(self, *args: object) -> None:
            super()._write(*args)  # type: ignore[arg-type]
            pages.append((tmp_path / "report.html").read_text())

    run_training(demonstrations, tmp_path, callbacks=[Look(refresh_seconds=0)])
    assert len(pages) == 10 + 2 + 1  # each step, each held-out loss, the end
    assert all('http-equiv="refresh"' in text for text in pages[:-1])
    assert 'http-equiv="refresh"' not in pages[-1]
    with opened(tmp_path / "report.html", dark=True) as shown:
        background = "getComputedStyle(document.body).backgroundColor"
        assert shown.evaluate(background) == "rgb(20, 24, 28)"
        assert headings(shown) == ["Training"]
        titles = shown.locator("svg .title").all_text_contents()
        assert titles[0] == "Losses"
        assert titles.count("Error of each action on held-out episodes") == 2  # m, and no unit
        assert shown.locator("p").first.text_content().startswith("Step 10 after")


def test_without_held_out_episodes_and_with_nothing_logged(
    demonstrations: Path, tmp_path: Path
) -> None:
    run_training(demonstrations, tmp_path, callbacks=[TrainingReport()], held_out_fraction=0.0)
    assert "Losses" in (tmp_path / "report.html").read_text()
    schema: Schema = make_data(demonstrations).schema
    empty = draw_learning_curves([], schema)
    assert empty.charts == []
    assert empty.says in render_page("training", "x", curves=empty)


@pytest.mark.parametrize("missing", ["gradient_norm", "minutes", "held_out_l1"])
def test_a_metrics_file_of_an_older_run_can_be_shown(
    demonstrations: Path, tmp_path: Path, missing: str
) -> None:
    columns = {"step": 1.0, "minutes": 0.5, "train_l1": 0.3, "held_out_l1": 0.4}
    rows = [{name: value for name, value in columns.items() if name != missing}] * 2
    curves = draw_learning_curves(rows, make_data(demonstrations).schema)
    assert "Losses" in curves.charts[0].svg
