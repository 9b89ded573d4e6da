"""Curves and intervals by matplotlib, as inline SVG that takes colours and fonts from the page."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from act_policy.report.chart import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Chart, Curve, Values

_VARIABLES = (*(f"c{i}" for i in range(COLOURS)), "text", "faint", "line", "panel")
_PLACEHOLDERS = {name: f"#0000{index:02}" for index, name in enumerate(_VARIABLES, start=10)}
"""Colours for matplotlib, which knows no variables; `_inline` puts the page's in their place."""

FAINT: dict[str, Any] = {"color": _PLACEHOLDERS["faint"], "ha": "center"}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "act_policy",
    "text.parse_math": False,
    "font.size": 11,
    "text.color": _PLACEHOLDERS["text"],
    "figure.facecolor": "none",
    "axes.facecolor": _PLACEHOLDERS["panel"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.xmargin": 0,
    "axes.ymargin": 0.05,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-99, 99),  # no power of ten above the axis
    "grid.color": _PLACEHOLDERS["line"],
    "grid.linewidth": 1,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    **{f"{axis}.labelcolor": _PLACEHOLDERS["faint"] for axis in ("xtick", "ytick")},
    "xtick.major.pad": 1,
    "ytick.major.pad": 5,
    **dict.fromkeys(("xtick.bottom", "ytick.left", "ytick.minor.left"), False),
}


def plot_lines(
    curves: Mapping[str, Curve],
    x_label: str = "",
    y_label: str = "",
    title: str = "",
    size: tuple[int, int] = (375, 250),
    log_y: bool = False,
    least_span: float = 0.0,
    broad: str | None = None,
) -> Chart:
    """Draw named lines over one another.

    Args:
        curves: name -> (x, y); the names make the legend, which a single line does without.
        x_label: quantity along x, with its unit.
        y_label: quantity along y, with its unit.
        title: above the plot.
        size: width and height in pixels, the legend not counted.
        log_y: logarithmic y axis; values that are not positive leave gaps.
        least_span: smallest range of the y axis, so that noise does not fill the plot.
        broad: name of a line to draw below the others, broad and pale, so that none hides it.
    """
    with _figure(size, (LEFT, RIGHT, TOP, BOTTOM)) as (figure, axes):
        width, height = size
        texts: tuple[tuple[float, float, str, dict[str, Any]], ...] = (
            (LEFT, height - 13, title, {"gid": "title"}),
            ((LEFT + width - RIGHT) / 2, 4, x_label, FAINT),
            (10, (BOTTOM + height - TOP) / 2, y_label, {"rotation": 90, **FAINT}),
        )
        for x, y, text, style in texts:
            if text:
                figure.text(x / width, y / height, text, rotation_mode="anchor", **style)
        lines = [_prepare(*curve, log_y) for curve in curves.values()]
        for index, (name, line) in enumerate(zip(curves, lines, strict=True)):
            style = {"linewidth": 6, "alpha": 0.4, "zorder": 1.5} if name == broad else {}
            if len(curves[name][0]) == 1:
                style = {"linewidth": 6}  # a dot that can be seen
            style["color"] = _PLACEHOLDERS[f"c{index % COLOURS}"]
            if index >= COLOURS:
                style["linestyle"] = (0, (6 - index // COLOURS, 3))
            axes.plot(*line, **style)
        xs, ys = (np.concatenate([*(line[i] for line in lines), np.empty(0)]) for i in (0, 1))
        _scale_x(axes, xs[np.isfinite(ys)])
        _scale_y(axes, ys[np.isfinite(ys)], log_y, least_span)
        return Chart(_inline(figure, title or y_label), width, tuple(curves))


def plot_intervals(
    intervals: Mapping[str, tuple[float, float, float]], lowest: float = 0.0
) -> Markup:
    """Draw rates (low, rate, high) up to 100%: a dot at each, a line over its interval.

    lowest: start of the axis, 0 for rates, of which the first is coloured, and -1 for differences
        of rates, of which those that are certainly below or above 0 are coloured.
    """
    left, width, line = 190, 620, 26
    height = 28 + line * len(intervals)
    with _figure((width, height), (left, 20, 4, 20)) as (figure, axes):
        axes.grid(visible=False, axis="y")
        axes.set_facecolor("none")
        for index, (low, rate, high) in enumerate(intervals.values()):
            if lowest == 0:
                colour = _PLACEHOLDERS["c6" if index else "c0"]
            else:
                colour = _PLACEHOLDERS["c5" if high <= 0 else "c2" if low >= 0 else "c6"]
            axes.plot([low, high], [index, index], color=colour, linewidth=3)
            axes.plot([rate, rate], [index, index], color=colour, linewidth=10)
        if lowest < 0:
            axes.axvline(0, color=_PLACEHOLDERS["faint"], linewidth=1, zorder=0)
        axes.set_xlim(lowest, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        names = list(intervals)
        axes.set_yticks(range(len(names)), names, color=_PLACEHOLDERS["text"])
        axes.set_ylim(len(names) - 0.5, -0.5)
        label = "success rates" if lowest == 0 else "differences"
        return _inline(figure, f"{label} with 95% intervals")


@contextmanager
def _figure(
    size: tuple[int, int], around: tuple[int, int, int, int]
) -> Iterator[tuple[Figure, Axes]]:
    """Make a figure of a size in pixels with axes; around them left, right, top, bottom."""
    width, height = size
    left, right, top, bottom = around
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # the browser's fonts have the glyphs that matplotlib's lack
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)  # a unit of SVG is a pixel
        where = (left, bottom, width - left - right, height - top - bottom)
        yield figure, figure.add_axes(tuple(np.divide(where, (width, height, width, height))))


def _prepare(x_values: Values, y_values: Values, log_y: bool) -> tuple[np.ndarray, np.ndarray]:
    """Leave gaps where y is not finite, and double a point between two gaps, which shows a dot."""
    x, y = np.asarray(x_values, np.float64), np.asarray(y_values, np.float64)
    y = np.where(np.isfinite(y) & ((y > 0) | (not log_y)), y, np.nan)
    edges = np.isfinite(np.pad(y, 1, constant_values=np.nan))
    count = 1 + (edges[1:-1] & ~edges[:-2] & ~edges[2:])
    return np.repeat(x, count), np.repeat(y, count)


def _scale_x(axes: Axes, x: np.ndarray) -> None:
    """Put ticks on round numbers; between whole numbers, as steps are, there are none."""
    whole = bool((x % 1 == 0).all())
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole))
    if len(x) and np.abs(x).max() >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scale_y(axes: Axes, y: np.ndarray, log_y: bool, least_span: float) -> None:
    """Widen a short axis; label a logarithmic one with plain numbers."""
    low, high = axes.get_ylim()
    if high - low < least_span:
        middle = (y.min() + y.max()) / 2 if len(y) else 0.0
        axes.set_ylim(middle - least_span / 2, middle + least_span / 2)
    if log_y and len(y):
        axes.set_yscale("log")  # which widens the axis if there is a single value
        low, high = axes.get_ylim()
        decades = np.log10(high / low)
        if decades < 0.7:
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        else:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
        axes.yaxis.set_major_formatter(_format_short)
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if len(y) and np.abs(y).max() < 1e-3:  # with all its zeros a label would not fit
            axes.yaxis.set_major_formatter(_format_short)


def _format_short(value: float, _: object) -> str:
    return f"{value:.5g}".replace("e-0", "e-")


def _inline(figure: Figure, label: str) -> Markup:
    """Write a figure as SVG without fonts, ids and clipping, in the page's colours."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", metadata=nothing)
    svg = file.getvalue()
    body = re.sub(r"<defs>.*?</defs>", "", svg[svg.index(">", svg.index("<svg")) + 1 :], flags=re.S)
    body = re.sub(r"<[^>]+>", _clean_tag, body)
    width, height = (round(inches * 72) for inches in figure.get_size_inches())
    return Markup(
        '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">{3}'
    ).format(width, height, label, Markup(re.sub(r">\s+<", "><", body).strip()))


def _clean_tag(match: re.Match[str]) -> str:
    tag = match[0].replace('id="title"', 'class="title"')
    tag = re.sub(r' (?:id|clip-path)="[^"]*"', "", tag)
    tag = re.sub(r"font[a-z-]*:[^;\"]*(?:; )?", "", tag)
    tag = re.sub(r"#0000(\d\d)", lambda found: f"var(--{_VARIABLES[int(found[1]) - 10]})", tag)
    tag = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), tag)
    return re.sub(r"\s*([MLz])\s*|\s*\n\s*", r"\1", tag) if tag.startswith("<path") else tag
