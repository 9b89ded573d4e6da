"""The learning curves of a run, from its metrics.csv."""

import csv
from collections.abc import Mapping, Sequence
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
    last = rows[-1]
    losses = {
        "training batches": _curve(rows, "train_l1"),
        "held-out episodes": _curve(rows, "held_out_l1"),
        "held out, posterior's latent": _curve(rows, "held_out_l1_posterior"),
    }
    losses = {name: curve for name, curve in losses.items() if len(curve[0])}
    charts = [
        plot_lines(losses, "step", "L1 / standard deviation", "Losses", log_y=True),
        *_draw_errors(rows, schema),
    ]
    for name, unit, title, log_y in (
        ("train_kl", "nats", "KL of the latent", True),
        ("learning_rate", "", "Learning rate", False),
        ("gradient_norm", "", "Gradient norm", True),
        ("samples_per_second", "", "Samples per second", False),
    ):
        curve = _curve(rows, name)
        if len(curve[0]):
            charts.append(plot_lines({"": curve}, "step", unit, title, log_y=log_y))
    says = f"Step {last['step']:.0f} after {last.get('minutes', 0.0):.1f} minutes of training."
    return LearningCurves(says, charts)


def _draw_errors(rows: Sequence[Row], schema: Schema) -> list[Chart]:
    """Draw one chart for all actions of the same unit, as only these can be compared."""
    charts = []
    for unit in dict.fromkeys(schema.action_units):
        names = [n for n, u in schema.actions if u == unit]
        curves = {name: _curve(rows, ERROR_PREFIX + name) for name in names}
        if any(len(steps) for steps, _ in curves.values()):
            title = "Error of each action on held-out episodes"
            charts.append(plot_lines(curves, "step", unit or "no unit", title, log_y=True))
    return charts


def _curve(rows: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    points = [(row["step"], row[name]) for row in rows if name in row]
    steps, values = np.array(points).reshape(-1, 2).T
    return steps, values
