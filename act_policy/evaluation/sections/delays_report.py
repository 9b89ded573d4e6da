"""Tables and a picture of how ways of executing chunks fare when answers are late."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from act_policy.errors import writing
from act_policy.system.atomic import atomic_file

Summary = Mapping[str, Any]
"""One policy, executed in one way at one delay, as delays.json has it."""

LEGEND_WIDTH = 150
"""Letters that fit side by side below the picture."""


def tabulate_cells(cells: Sequence[Summary]) -> str:
    """Write each figure as a Markdown table: a row for each policy and method, a column a delay."""
    delays = sorted({cell["delay"] for cell in cells})
    rows = _rows(cells)
    tables = []
    for title, figure in _FIGURES.items():
        head = f"| {title}; delay in steps | {' | '.join(map(str, delays))} |"
        lines = [head, "| --- |" + " --- |" * len(delays)]
        for name, row in rows.items():
            shown = [figure(row[delay]) if delay in row else "" for delay in delays]
            lines.append(f"| {name} | {' | '.join(shown)} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def draw_cells(cells: Sequence[Summary], path: Path) -> None:
    """Draw success with its interval, jumps and reaction time over the delay, as a PNG."""
    rows = _rows(cells)
    columns = max(1, min(len(rows), LEGEND_WIDTH // (max(map(len, rows)) + 10)))
    height = 2.8 + 0.23 * math.ceil(len(rows) / columns)
    figure = Figure(figsize=(11, height), dpi=110, layout="constrained")
    success, jumps, reaction = figure.subplots(1, 3)
    for i, (name, row) in enumerate(rows.items()):
        delays, own = list(row), list(row.values())
        look = {"color": f"C{i % 10}", "linestyle": "-" if i < 10 else "--", "marker": "o"}
        moved = np.array(delays) + 0.08 * (i - (len(rows) - 1) / 2)  # intervals side by side
        rates = np.array([cell["success_rate"] for cell in own])
        ends = np.array([cell["interval"] for cell in own]).T
        success.errorbar(moved, rates, np.abs(ends - rates), label=name, capsize=2, **look)
        for axes, key in ((jumps, "largest_jump"), (reaction, "reaction")):
            _plot(axes, delays, [cell["motion"][key] for cell in own], look)
    success.set_title("successes, 95% intervals")
    success.yaxis.set_major_formatter(PercentFormatter(1.0))
    success.set_ylim(0, 1.02)
    jumps.set_title("largest jump, in large demonstrated steps")
    jumps.axhline(1.0, color="grey", linewidth=0.8)
    jumps.set_ylim(bottom=0)
    reaction.set_title("mean reaction, in steps")
    reaction.set_ylim(bottom=0)
    for axes in (success, jumps, reaction):
        axes.set_xlabel("delay in steps")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False)
    with writing(path), atomic_file(path) as file:
        figure.savefig(file, format="png")


def _plot(axes: Axes, x: Sequence[int], y: Sequence[float | None], look: dict[str, Any]) -> None:
    """Draw a line with gaps where nothing was measured."""
    axes.plot(x, [np.nan if value is None else value for value in y], **look)


def _rows(cells: Sequence[Summary]) -> dict[str, dict[int, Summary]]:
    """Sort by policy and method: name -> delay -> cell, the delays in order."""
    rows: dict[str, dict[int, Summary]] = {}
    for cell in sorted(cells, key=lambda one: int(one["delay"])):
        rows.setdefault(f"{Path(cell['policy']).name}, {cell['method']}", {})[cell["delay"]] = cell
    order = list(dict.fromkeys(f"{Path(c['policy']).name}, {c['method']}" for c in cells))
    return {name: rows[name] for name in order}


def _success(cell: Summary) -> str:
    episodes, (low, high) = cell["episodes"], cell["interval"]
    won = sum(one["success"] for one in episodes)
    return f"{won} of {len(episodes)} ({low:.0%} to {high:.0%})"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


_FIGURES: dict[str, Callable[[Summary], str]] = {
    "successes (95% interval)": _success,
    "largest jump between chunks": lambda cell: _number(cell["motion"]["largest_jump"]),
    "median jump between chunks": lambda cell: _number(cell["motion"]["median_jump"]),
    "jerk": lambda cell: _number(cell["motion"]["jerk"]),
    "mean reaction, steps": lambda cell: _number(cell["motion"]["reaction"], 1),
}
