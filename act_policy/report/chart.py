"""Small line charts by a template: quick, and without matplotlib, which a robot lacks."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from act_policy.report.page import load_template

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 22, 34
"""Pixels around the plot for its labels."""

COLOURS = 8
"""Number of colours in the page's style, --c0 and following; further lines are dashed."""

Values = Sequence[int | float] | np.ndarray
Curve = tuple[Values, Values]
"""x and y of one line; a y that is not finite leaves a gap."""


class Chart(NamedTuple):
    """A drawing, its width in pixels, and the names of its lines for the legend."""

    svg: Markup
    width: int
    names: tuple[str, ...]


def draw_lines(
    curves: Mapping[str, Curve],
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    size: tuple[int, int] = (375, 250),
) -> Chart:
    """Draw named lines over one another; see `plot.plot_lines` for the arguments."""
    points = [np.array(xy, np.float64).T for xy in curves.values()]
    every = np.concatenate([*points, np.empty((0, 2))])
    every = every[np.isfinite(every).all(axis=1)]
    low, high = _range(every)
    corner = np.array([LEFT, size[1] - BOTTOM])
    scale = (np.array([size[0] - RIGHT, TOP]) - corner) / (high - low)
    whole = bool((every[:, 0] % 1 == 0).all())  # as steps and episodes are
    ticks = [_ticks(low[0], high[0], 6, whole), _ticks(low[1], high[1], 5)]
    places = [
        [(f"{corner[axis] + (tick - low[axis]) * scale[axis]:.1f}", label) for tick, label in of]
        for axis, of in enumerate(ticks)
    ]
    svg = load_template("chart").render(
        left=LEFT,
        right=size[0] - RIGHT,
        top=TOP,
        bottom=size[1] - BOTTOM,
        width=size[0],
        height=size[1],
        title=title,
        x_label=x_label,
        y_label=y_label,
        x_ticks=places[0],
        y_ticks=places[1],
        lines=[_path(corner + (line - low) * scale) for line in points],
        colours=COLOURS,
    )
    return Chart(Markup(svg), size[0], tuple(curves))


def _range(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest (x, y), with a margin for y; never equal."""
    if len(points) == 0:
        return np.zeros(2), np.ones(2)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.array([0.0, 0.05]) * (high - low)
    flat = np.where(high > low, 0.0, np.maximum(0.5, 0.05 * np.abs(high)))
    return low - margin - flat, high + margin + flat


def _ticks(low: float, high: float, count: int, whole: bool = False) -> list[tuple[float, str]]:
    """About `count` round numbers between low and high, labelled so that neighbours differ."""
    rough = max((high - low) / count, 1.0 if whole else 0.0)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(s for s in (1, 2, 5, 10) if s * magnitude >= rough * 0.999)
    ticks = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    largest = max(map(abs, ticks), default=0.0)
    if largest >= 10_000:
        return [(tick, f"{tick / 1000:g}k") for tick in ticks]
    if 0 < largest < 1e-3:
        return [(tick, f"{tick:.3g}") for tick in ticks]
    decimals = max(0, -math.floor(math.log10(step)))
    return [(tick, f"{tick:.{decimals}f}") for tick in ticks]


def _path(points: np.ndarray) -> str:
    """One path, broken where a point is not finite; a point between two gaps is a dot."""
    commands, pen = [], "M"
    for x, y in points.tolist():
        if math.isfinite(x) and math.isfinite(y):
            # with round caps a movement by nothing shows a point
            commands.append(f"{pen}{x:.1f} {y:.1f}{'h0' if pen == 'M' else ''}")
            pen = "L"
        else:
            pen = "M"
    return "".join(commands)
