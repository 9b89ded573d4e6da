"""The learning curves of a run, from its metrics.csv."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from act_policy.report.chart import Chart
from act_policy.report.plot import plot_lines
from act_policy.types import Schema

ERROR_PREFIX = "held_out_error/"
"""Before an action's name: its mean absolute error on held-out episodes, in its own unit."""

Row = Mapping[str, float]


class LearningCurves(NamedTuple):
    """How far training is, in a sentence, and its charts."""

    says: str
    charts: list[Chart]


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Read one mapping per logged step, which leaves out values that the step does not have."""
    with path.open(newline="") as file:
        return [{k: float(v) for k, v in line.items() if v} for line in csv.DictReader(file)]


def draw_learning_curves(rows: Sequence[Row], schema: Schema) -> LearningCurves:
    """Draw losses, errors of each joint in physical units, learning rate and speed over the steps.

    Args:
        rows: of metrics.csv.
        schema: of the policy, for the units.
    """
    if not rows:
        return LearningCurves("Nothing has been logged yet.", [])
    charts = []
    for columns, unit, title, log_y in _list_charts(schema):
        curves = {name: _curve(rows, column) for name, column in columns.items()}
        curves = {name: curve for name, curve in curves.items() if len(curve[0])}
        if curves:
            charts.append(plot_lines(curves, "step", unit, title, log_y=log_y))
    last = rows[-1]
    says = f"Step {last['step']:.0f} after {last.get('minutes', 0.0):.1f} minutes of training."
    return LearningCurves(says, charts)


def _list_charts(schema: Schema) -> Iterator[tuple[dict[str, str], str, str, bool]]:
    """Yield each chart's lines (name -> column), unit and title, and whether y is logarithmic."""
    losses = {
        "training batches": "train_l1",
        "held-out episodes": "held_out_l1",
        "held out, posterior's latent": "held_out_l1_posterior",
    }
    yield losses, "L1 / standard deviation", "Losses", True
    ends = {"lower end of its interval": "success_low", "upper end": "success_high"}
    success = {"success rate": "success_rate", **ends}
    yield success, "share of episodes", "Success in simulation", False
    for unit in dict.fromkeys(schema.action_units):  # only these errors can be compared
        errors = {name: ERROR_PREFIX + name for name, own in schema.actions if own == unit}
        yield errors, unit or "no unit", "Error of each action on held-out episodes", True
    yield {"": "train_kl"}, "nats", "KL of the latent", True
    yield {"": "learning_rate"}, "", "Learning rate", False
    yield {"": "gradient_norm"}, "", "Gradient norm", True
    yield {"": "samples_per_second"}, "", "Samples per second", False


def _curve(rows: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    points = [(row["step"], row[name]) for row in rows if name in row]
    steps, values = np.array(points).reshape(-1, 2).T
    return steps, values
