import base64
import io
import re
from fractions import Fraction

import av
import numpy as np
import pytest
from markupsafe import Markup
from PIL import Image

from act_policy.report.page import (
    details,
    figure,
    film_strip,
    image,
    line_chart,
    page,
    paragraph,
    row,
    section,
    table,
    video,
    write_page,
)
from tests.browser import headings, image_widths, opened, video_seconds


def path_points(svg: str) -> list[list[str]]:
    """The (x, y) pairs of every drawn line."""
    lines = re.findall(r'stroke-linejoin="round" style="[^"]*"[^>]* d="([^"]*)"', svg)
    return [re.findall(r"[ML]([\d.]+) ([\d.]+)", line) for line in lines]


def test_text_is_escaped_and_parts_are_not():
    made = page("a < b", section("<h>", paragraph("1 & 2 ", Markup("<b>3</b>")), "<script>"))
    assert "<title>a &lt; b</title>" in made
    assert "<h2>&lt;h&gt;</h2>" in made
    assert "<p>1 &amp; 2 <b>3</b></p>" in made
    assert "&lt;script&gt;" in made
    assert "<script" not in made


def test_braces_in_text_stay():
    assert "{0} {x}" in page("{0} {x}", paragraph("{0} {x}"))


def test_a_page_is_read_again_only_on_request():
    assert 'http-equiv="refresh"' not in page("t")
    assert '<meta http-equiv="refresh" content="30">' in page("t", refresh_seconds=30)


def test_columns_of_numbers_are_set_right():
    made = table(["name", "n", "rate", "mixed"], [["a", 1, "4.5%", 1], ["<b>", 2.34567, "-", "x"]])
    assert made.count('<th class="number">') == 2
    assert "<td>&lt;b&gt;</td>" in made
    assert '<td class="number">2.346</td>' in made
    assert '<td class="number">-</td>' in made


def test_a_short_row_is_refused():
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        table(["a", "b"], [["x"]])


def test_an_image_keeps_its_pixels_and_is_shown_scaled():
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:, 3:] = 200
    made = image(pixels, 'a "top" view', scale=2)
    assert 'alt="a &#34;top&#34; view" width="12" height="8"' in made
    content = re.search(r"base64,([^\"]*)", made)[1]
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))
    assert shown.shape == pixels.shape
    assert np.abs(shown.astype(int) - pixels)[:, [0, 1, 4, 5]].max() < 30


def test_floats_are_no_image():
    with pytest.raises(ValueError, match="float64"):
        image(np.zeros((4, 4, 3)), "x")


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


def test_a_page_holds_everything_in_a_browser(tmp_path):
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (5, 48, 64, 3), np.uint8)
    with av.open(str(tmp_path / "film.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(5), width=64, height=48)
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    curves = {f"joint {i}": (np.arange(20), np.sin(np.arange(20) / 3 + i)) for i in range(10)}
    chart = line_chart(curves, "step", "rad", "Joints")
    write_page(
        tmp_path / "page.html",
        page(
            "A page",
            section("Numbers", paragraph("Text."), table(["a", "b"], [["x", 1.5]])),
            section("Images", film_strip(frames, [f"step {i}" for i in range(5)], scale=2)),
            section("Rest", row(chart, figure(video(tmp_path / "film.mp4"), "a film"))),
            section("Folded", details("more", image(frames[0], "noise"))),
        ),
    )
    with opened(tmp_path / "page.html") as shown:
        assert shown.title() == "A page"
        assert headings(shown) == ["Numbers", "Images", "Rest", "Folded"]
        assert image_widths(shown) == [64] * 6
        assert video_seconds(shown) == [pytest.approx(1.0, abs=0.05)]
        assert shown.locator("svg").bounding_box()["height"] > 250
        # nothing sticks out of the window
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
