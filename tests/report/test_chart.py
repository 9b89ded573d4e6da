"""Small charts of the template, and charts of matplotlib, as SVG text."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from act_policy.report.chart import Chart, draw_lines
from act_policy.report.plot import plot_intervals, plot_lines

DRAWN = [draw_lines, plot_lines]


def path_points(svg: str) -> list[np.ndarray]:
    """The (x, y) pairs of every drawn line, in the order of their colours in the text."""
    tags = [tag for tag in re.findall(r"<path[^>]*>", svg) if "stroke: var(--c" in tag]
    paths = [re.search(r' d="([^"]*)"', tag)[1] for tag in tags]  # type: ignore[index]
    pairs = [re.findall(r"[ML]([\d.]+) ([\d.]+)", path) for path in paths]
    return [np.array(pair, np.float64).reshape(-1, 2) for pair in pairs]


def labels(chart: Chart, anchor: str) -> list[str]:
    """Labels of ticks: at the y axis they end, under the x axis their middle is at the tick."""
    found = re.findall(r"<text([^>]*)>([^<]+)<", chart.svg)
    return [text for tag, text in found if anchor in tag]


@pytest.mark.parametrize("draw", DRAWN)
def test_a_line_runs_through_its_points(draw: Callable[..., Chart]) -> None:
    made = draw({"loss": ([0, 1, 2], [0.0, 1.0, 0.5])}, size=(464, 256))
    (line,) = path_points(made.svg)
    xs, ys = line.T
    assert xs.tolist() == [52, 252, 452]  # LEFT and RIGHT are 52 and 12
    # y from -0.05 to 1.05 lies on pixels 222 (BOTTOM 34) to 22 (TOP)
    np.testing.assert_allclose(ys, [222 - 200 * v / 1.1 for v in (0.05, 1.05, 0.55)], atol=0.06)


def test_a_broad_line_lies_below_the_others() -> None:
    curves = {"thin": ([0, 1], [0, 1]), "wide": ([0, 1], [0, 1])}
    made = plot_lines(curves, broad="wide").svg
    lines = re.findall(r"stroke: var\(--(c\d)\);[^\"]* stroke-width: ([\d.]+)", made)
    assert lines == [("c1", "6"), ("c0", "1.6")]


@pytest.mark.parametrize("draw", DRAWN)
def test_gaps_stay_gaps_and_a_lone_point_is_a_dot(draw: Callable[..., Chart]) -> None:
    made = draw({"a": ([0, 1, 2, 3], [1, 2, np.nan, 3])}, size=(364, 250)).svg
    drawn = next(tag for tag in re.findall(r"<path[^>]*>", made) if "stroke: var(--c" in tag)
    assert drawn.count("M") == 2
    assert re.search(r"M352(?:\.0)? [\d.]+(h0|L352 )", drawn)


def test_a_logarithmic_axis_has_no_zero() -> None:
    (line,) = path_points(plot_lines({"a": ([0, 1, 2], [0, 10, 1000])}, log_y=True).svg)
    assert len(line) == 2


@pytest.mark.parametrize("ys", [[], [np.nan], [0.0], [5.0, 5.0], [-1e-9, 1e9]])
def test_any_curve_can_be_drawn(ys: list[float]) -> None:
    curves = {"a": (range(len(ys)), ys), "b": ([], [])}
    for made in (draw_lines(curves), *(plot_lines(curves, log_y=log_y) for log_y in (False, True))):
        assert "nan" not in made.svg
        assert "inf" not in made.svg


def test_labels_tell_ticks_apart() -> None:
    fine = draw_lines({"": ([0, 1], [0.9997, 1.0004])})
    assert labels(fine, '"end"') == ["0.9998", "1.0000", "1.0002", "1.0004"]
    for draw in DRAWN:
        far = labels(draw({"": ([0, 40_000], [0, 1])}), "middle")
        assert [text.rstrip("k") for text in far[:3]] == ["0", "10", "20"]
        assert labels(draw({"": ([0, 1, 2], [0, 1, 0])}), "middle")[:3] == ["0", "1", "2"]
    flat = plot_lines({"": ([0, 1], [1.0, 1.00001])}, least_span=0.02)
    assert labels(flat, "end")[:2] == ["0.995", "1.000"]
    narrow = plot_lines({"": ([0, 1], [1.2, 1.9])}, log_y=True)
    assert labels(narrow, "end") == ["1.2", "1.4", "1.6", "1.8"]
    wide = plot_lines({"": ([0, 1], [0.05, 200])}, log_y=True)
    assert labels(wide, "end") == ["0.1", "1", "10", "100"]
    for single, ticks in (
        (0.5, ["0.1", "0.2", "0.5", "1"]),
        (2000, ["1000", "2000", "5000", "10000"]),
    ):
        point = plot_lines({"": ([100], [single])}, log_y=True)
        assert labels(point, "end") == ticks
        assert re.search(r"stroke: var\(--c0\);[^\"]* stroke-width: 6", point.svg)


def test_labels_of_small_values_fit_beside_the_plot() -> None:
    made = plot_lines({"learning rate": ([0, 100_000], [1e-5, 1e-5])})
    assert labels(made, "end") == ["9.5e-6", "1e-5", "1.05e-5"]


def test_the_same_chart_is_the_same_text_in_the_colours_of_the_page() -> None:
    curves = {f"$joint_{i}$ \u4e16": (np.arange(5), np.arange(5) * i) for i in range(20)}
    for draw in DRAWN:
        made = draw(curves, "step", "$rad$ \u4e16", "<title>")
        assert made == draw(curves, "step", "$rad$ \u4e16", "<title>")
        assert made.names == tuple(curves)
        assert "$rad$ \u4e16" in made.svg
        assert "<title>" not in made.svg
        assert len(path_points(made.svg)) == 20
        assert not re.search(r"#[0-9a-f]{6}| id=|font-family|url\(", made.svg)


def test_an_interval_lies_on_a_scale_to_100_percent() -> None:
    made = plot_intervals({"policy": (0.5, 0.75, 1.0), "black image": (0.0, 0.0, 0.5)})
    lines = [line[:, 0].tolist() for line in path_points(made)]
    assert lines == [[395, 600], [497.5, 497.5], [190, 395], [190, 190]]  # 410 pixels from 190
    assert re.findall(r">(policy|black image|100%)<", made) == ["100%", "policy", "black image"]
