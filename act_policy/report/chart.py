"""Line charts as SVG that takes its colours from the page, light or dark."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 22, 34
"""Pixels around the plot for its labels."""

COLOURS = 8
"""The page's style has so many, --c0 and following; further lines are dashed."""

Values = Sequence[int | float] | np.ndarray
Curve = tuple[Values, Values]
"""x and y of one line; a y that is not finite leaves a gap."""


def line_chart(
    curves: Mapping[str, Curve],
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    size: tuple[int, int] = (375, 250),
    log_y: bool = False,
    least_span: float = 0.0,
    broad: str | None = None,
) -> Markup:
    """Draw named lines over one another.

    Args:
        curves: name -> (x, y); the names make the legend, which a single line does without.
        x_label: what x is, with its unit.
        y_label: what y is, with its unit.
        title: above the plot.
        size: width and height in pixels, the legend not counted.
        log_y: logarithmic y axis; values that are not positive leave gaps.
        least_span: what the y axis spans at least, so that noise does not fill the plot.
        broad: name of a line to draw below the others, broad and pale, so that none hides it.
    """
    lines = {name: _points(x, y, log_y) for name, (x, y) in curves.items()}
    every = np.concatenate([*lines.values(), np.empty((0, 2))])
    every = every[np.isfinite(every).all(axis=1)]
    x_low, y_low, x_high, y_high = _range(every, least_span)
    width, height = size
    right, bottom = width - RIGHT, height - BOTTOM

    def at_x(x: float) -> float:
        return LEFT + (x - x_low) / (x_high - x_low) * (right - LEFT)

    def at_y(y: float) -> float:
        return bottom - (y - y_low) / (y_high - y_low) * (bottom - TOP)

    parts = [
        Markup('<rect class="panel" x="{}" y="{}" width="{}" height="{}"/>').format(
            LEFT, TOP, right - LEFT, bottom - TOP
        ),
        _text(LEFT, 13, title, "title"),
        _text((LEFT + right) / 2, height - 4, x_label, "faint", "middle"),
        Markup('<g transform="translate(10 {:.1f}) rotate(-90)">{}</g>').format(
            (TOP + bottom) / 2, _text(0, 0, y_label, "faint", "middle")
        ),
    ]
    # no tick lies between two steps or episodes
    least = 1.0 if (every[:, 0] % 1 == 0).all() else 0.0
    for x, label in _labelled(_ticks(x_low, x_high, 6, least)):
        parts.append(_grid(at_x(x), TOP, at_x(x), bottom))
        parts.append(_text(at_x(x), bottom + 13, label, "faint", "middle"))
    ticks = _decades(y_low, y_high) if log_y else _labelled(_ticks(y_low, y_high, 5))
    for y, label in ticks:
        parts.append(_grid(LEFT, at_y(y), right, at_y(y)))
        parts.append(_text(LEFT - 5, at_y(y) + 4, label, "faint", "end"))
    below_first = sorted(enumerate(lines.items()), key=lambda line: line[1][0] != broad)
    for index, (name, points) in below_first:
        parts.append(_line(points, at_x, at_y, index, name == broad))
    if len(curves) > 1:
        legend, height = _legend(list(curves), width, height)
        parts.extend(legend)
    return Markup(
        '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">\n'
        "{3}</svg>"
    ).format(width, height, title or y_label, Markup("\n").join(parts))


def _points(x: Values, y: Values, log_y: bool) -> np.ndarray:
    """(points, 2), y as its decimal logarithm where the axis is logarithmic."""
    ys = np.asarray(y, np.float64)
    if log_y:
        ys = np.log10(np.where(ys > 0, ys, np.nan))
    return np.stack([np.asarray(x, np.float64), ys], axis=1)


def _range(points: np.ndarray, least_span: float) -> tuple[float, float, float, float]:
    """Lowest x and y, highest x and y: a little apart for y, never equal."""
    if len(points) == 0:
        return 0.0, 0.0, 1.0, 1.0
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.array([0.0, 0.05]) * (high - low)
    margin[1] = max(margin[1], (least_span - (high - low)[1]) / 2)
    flat = np.where(high + margin > low, 0.0, np.maximum(0.5, 0.05 * np.abs(high)))
    x_low, y_low = (low - margin - flat).tolist()
    x_high, y_high = (high + margin + flat).tolist()
    return x_low, y_low, x_high, y_high


def _ticks(low: float, high: float, count: int, least: float = 0.0) -> list[float]:
    """At most about `count` round numbers between low and high, at least `least` apart."""
    rough = max((high - low) / count, least)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(s for s in (1, 2, 5, 10) if s * magnitude >= rough * 0.999)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _labelled(ticks: list[float]) -> list[tuple[float, str]]:
    """With as many decimals as tell neighbours apart; thousands as k, tiny ones as 1e-05."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else largest
    if largest >= 10_000:
        return [(tick, f"{tick / 1000:g}k") for tick in ticks]
    if 0 < largest < 1e-3:
        return [(tick, f"{tick:.3g}") for tick in ticks]
    decimals = max(0, -math.floor(math.log10(step))) if step > 0 else 0
    return [(tick, f"{tick:.{decimals}f}") for tick in ticks]


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Exponents of 1, 2 and 5 times powers of ten; over a wide range of 1 alone."""
    factors = (1,) if high - low > 2 else (1, 2, 5)
    exponents = range(math.floor(low), math.ceil(high) + 1)
    ticks = (exponent + math.log10(factor) for exponent in exponents for factor in factors)
    found = [tick for tick in ticks if low <= tick <= high]
    if len(found) > 1:
        return [(tick, f"{10**tick:.3g}") for tick in found]
    return [(math.log10(v), text) for v, text in _labelled(_ticks(10**low, 10**high, 4)) if v > 0]


def _text(x: int | float, y: int | float, text: str, kind: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>').format(
        x, y, kind, anchor, text
    )


def _grid(x1: int | float, y1: int | float, x2: int | float, y2: int | float) -> Markup:
    return Markup('<path class="grid" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(x1, y1, x2, y2)


def _line(
    points: np.ndarray,
    at_x: Callable[[float], float],
    at_y: Callable[[float], float],
    index: int,
    broad: bool,
) -> Markup:
    """One path, broken where a point is not finite; a point between two gaps is a dot."""
    commands, pen = [], "M"
    for x, y in points:
        if not np.isfinite([x, y]).all():
            pen = "M"
            continue
        commands.append(f"{pen}{at_x(x):.1f} {at_y(y):.1f}")
        if pen == "M":
            commands.append("h0")  # with round caps a lone point shows
        pen = "L"
    width, opacity = (6, 0.4) if broad else (1.6, 1)
    return Markup(
        '<path fill="none" stroke-width="{}" stroke-opacity="{}" stroke-linecap="round" '
        'stroke-linejoin="round" style="stroke:{}"{} d="{}"/>'
    ).format(width, opacity, _colour(index), _dash(index), "".join(commands))


def _legend(names: Sequence[str], width: int, height: int) -> tuple[list[Markup], int]:
    """Swatches and names in lines under the plot, and the height with them."""
    parts: list[Markup] = []
    x, y = float(LEFT), height + 12
    for index, name in enumerate(names):
        needed = 26 + 6.2 * len(name)
        if x > LEFT and x + needed > width:
            x, y = float(LEFT), y + 15
        parts.append(
            Markup('<path stroke-width="2.5" style="stroke:{}"{} d="M{:.1f} {}h14"/>').format(
                _colour(index), _dash(index), x, y - 4
            )
        )
        parts.append(_text(x + 18, y, name, ""))
        x += needed
    return parts, y + 5


def _colour(index: int) -> str:
    return f"var(--c{index % COLOURS})"


def _dash(index: int) -> Markup:
    return (
        Markup(' stroke-dasharray="{} 3"').format(6 - index // COLOURS)
        if index >= COLOURS
        else Markup("")
    )
