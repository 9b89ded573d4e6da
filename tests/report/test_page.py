import base64
import io
from fractions import Fraction
from pathlib import Path

import av
import jinja2
import numpy as np
import pytest
from PIL import Image

from act_policy.report.chart import Chart
from act_policy.report.page import load_template, render_page, write_page
from act_policy.report.pieces import (
    encode_image,
    encode_strip,
    encode_video,
    tabulate,
)
from act_policy.report.plot import plot_lines
from tests.browser import headings, image_widths, opened, video_seconds

HOSTILE = "a < b & <script>alert(1)</script> {{ 1 }} {0}"


def training_page(title: str = "t", **values: object) -> str:
    curves = {"says": values.pop("says", "nothing"), "charts": values.pop("charts", [])}
    return render_page("training", title, curves=curves, **values)


def table(*rows: list[object]) -> str:
    made = tabulate(["name", "n", "rate", "mixed"], rows)
    return str(load_template("pieces").module.table(made))  # type: ignore[attr-defined]


def test_text_is_escaped_and_charts_are_not() -> None:
    made = training_page(HOSTILE, says=HOSTILE, charts=[plot_lines({HOSTILE: ([0, 1], [0, 1])})])
    escaped = "a &lt; b &amp; &lt;script&gt;alert(1)&lt;/script&gt; {{ 1 }} {0}"
    assert f"<title>{escaped}</title>" in made
    assert f"<p>{escaped}</p>" in made
    assert "<svg" in made
    assert "<script" not in made
    assert "&lt;script&gt;" in table(["<script>", 1, 2, 3])


def test_a_value_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="curves"):
        render_page("training", "t")


def test_a_page_is_read_again_only_on_request() -> None:
    assert 'http-equiv="refresh"' not in training_page()
    assert '<meta http-equiv="refresh" content="30">' in training_page(refresh_seconds=30)


def test_columns_of_numbers_are_aligned_right() -> None:
    made = table(["a", 1, "4.5%", 1], ["<b>", 2.34567, "-", "x"])
    assert made.count('<th class="number">') == 2
    assert "<td>&lt;b&gt;</td>" in made
    assert '<td class="number">2.346</td>' in made
    assert '<td class="number">-</td>' in made


def test_a_short_row_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells under 2 headings"):
        tabulate(["a", "b"], [["x"]])


def test_an_image_keeps_its_pixels_and_is_shown_scaled() -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:, 3:] = 200
    made = encode_image(pixels, "top", scale=2)
    assert (made.width, made.height) == (12, 8)
    content = base64.b64decode(made.uri.removeprefix("data:image/webp;base64,"))
    shown = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    assert shown.shape == pixels.shape
    assert np.abs(shown.astype(int) - pixels)[:, [0, 1, 4, 5]].max() < 30


def test_floats_are_not_an_image() -> None:
    with pytest.raises(ValueError, match="float64"):
        encode_image(np.zeros((4, 4, 3)), "x")


def test_a_page_holds_everything_in_a_browser(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (5, 48, 64, 3), np.uint8)
    with av.open(str(tmp_path / "film.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(5), width=64, height=48)
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    curves = {f"joint {i}": (np.arange(20), np.sin(np.arange(20) / 3 + i)) for i in range(10)}
    chart = plot_lines(curves, "step", "rad", "Joints")
    pieces = load_template("pieces").module
    parts = [
        pieces.table(tabulate(["a", "b"], [["x", 1.5]])),  # type: ignore[attr-defined]
        pieces.film_strip(encode_strip(frames, "01234", scale=2)),  # type: ignore[attr-defined]
        pieces.video(encode_video(tmp_path / "film.mp4", 64, "")),  # type: ignore[attr-defined]
    ]
    charts = [chart, *(Chart(part, 300, ()) for part in parts)]
    write_page(tmp_path / "page.html", training_page("A page", charts=charts))
    with opened(tmp_path / "page.html") as shown:
        assert shown.title() == "A page"
        assert headings(shown) == ["Training"]
        assert image_widths(shown) == [64] * 5
        assert video_seconds(shown) == [pytest.approx(1.0, abs=0.05)]
        assert shown.locator("svg").bounding_box()["height"] == 250
        assert shown.locator(".legend span").all_text_contents() == list(curves)
        # nothing sticks out of the window
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
