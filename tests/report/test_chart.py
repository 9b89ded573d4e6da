"""Line charts as text."""

import re

import numpy as np
import pytest

from act_policy.report.chart import line_chart


def path_points(svg: str) -> list[list[str]]:
    """The (x, y) pairs of every drawn line."""
    lines = re.findall(r'stroke-linejoin="round" style="[^"]*"[^>]* d="([^"]*)"', svg)
    return [re.findall(r"[ML]([\d.]+) ([\d.]+)", line) for line in lines]


def test_a_line_runs_through_its_points():
    made = line_chart({"loss": ([0, 1, 2], [0.0, 1.0, 0.5])}, size=(464, 256))
    (line,) = path_points(made)
    xs = [float(x) for x, _ in line]
    ys = [float(y) for _, y in line]
    assert xs == [52, 252, 452]  # LEFT and RIGHT are 52 and 12
    # y from -0.05 to 1.05 lies on pixels 222 (BOTTOM 34) to 22 (TOP)
    np.testing.assert_allclose(ys, [222 - 200 * v / 1.1 for v in (0.05, 1.05, 0.55)], atol=0.06)


def test_a_broad_line_lies_below_the_others():
    curves = {"thin": ([0, 1], [0, 1]), "wide": ([0, 1], [0, 1])}
    made = line_chart(curves, broad="wide")
    lines = re.findall(r'stroke-width="([\d.]+)" stroke-opacity="[\d.]+"[^>]*stroke:(\S+)"', made)
    assert lines == [("6", "var(--c1)"), ("1.6", "var(--c0)")]


def test_gaps_stay_gaps_and_a_log_axis_has_no_zero():
    gap = line_chart({"a": ([0, 1, 2, 3], [1, 2, np.nan, 3])})
    assert gap.count("M") - gap.count('class="grid"') == 2
    (line,) = path_points(line_chart({"a": ([0, 1, 2], [0, 10, 1000])}, log_y=True))
    assert len(line) == 2


@pytest.mark.parametrize("ys", [[], [np.nan], [0.0], [5.0, 5.0], [-1e-9, 1e9]])
def test_any_curve_can_be_drawn(ys):
    for log_y in (False, True):
        made = line_chart({"a": (range(len(ys)), ys), "b": ([], [])}, log_y=log_y)
        assert "nan" not in made
        assert "inf" not in made


def labels(svg: str, anchor: str) -> list[str]:
    return re.findall(rf'class="faint" text-anchor="{anchor}">([^<]+)<', svg)


def test_labels_tell_ticks_apart():
    assert labels(line_chart({"": ([0, 1], [0.9997, 1.0004])}), "end") == [
        "0.9998",
        "1.0000",
        "1.0002",
        "1.0004",
    ]
    flat = line_chart({"": ([0, 1], [1.0, 1.00001])}, least_span=0.02)
    assert labels(flat, "end")[:2] == ["0.995", "1.000"]
    assert labels(line_chart({"": ([0, 40_000], [0, 1])}), "middle")[:3] == ["0k", "10k", "20k"]
    assert labels(line_chart({"": ([0, 1, 2], [0, 1, 0])}), "middle")[:3] == ["0", "1", "2"]
    narrow = line_chart({"": ([0, 1], [1.2, 1.9])}, log_y=True)
    assert labels(narrow, "end") == ["1.2", "1.4", "1.6", "1.8"]
    wide = line_chart({"": ([0, 1], [0.05, 200])}, log_y=True)
    assert labels(wide, "end") == ["0.1", "1", "10", "100"]


def test_the_same_chart_is_the_same_text_without_ids():
    curves = {f"joint {i}": (np.arange(5), np.arange(5) * i) for i in range(20)}
    assert line_chart(curves) == line_chart(curves)
    assert " id=" not in line_chart(curves)
