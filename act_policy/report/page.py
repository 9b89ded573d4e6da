"""Self-contained HTML pages: one file with its style, images, charts and videos, and no script.

A page is made of parts. Every part is `Markup`; a plain string among the parts is text and is
escaped. Nothing on a page is loaded from anywhere else, and its content policy forbids it.
"""

import base64
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from act_policy.report.chart import line_chart
from act_policy.system.atomic import atomic_file

__all__ = [
    "details",
    "figure",
    "film_strip",
    "image",
    "line_chart",
    "page",
    "paragraph",
    "row",
    "section",
    "table",
    "video",
    "write_page",
]

Part = str | Markup
"""Markup is taken as it is, any other string as text."""

POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
"""What the browser may load: nothing but what is in the file."""

STYLE = Markup("""
:root { color-scheme: light dark; --text: #1d2329; --faint: #66707a; --line: #d5dade;
  --back: #ffffff; --panel: #f5f7f8;
  --c0: #0969b8; --c1: #c2510c; --c2: #128055; --c3: #9a3f96; --c4: #8a6a00; --c5: #b3261e;
  --c6: #4a5560; --c7: #00808c; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --faint: #98a2ac; --line: #3a424a;
  --back: #14181c; --panel: #1d2328;
  --c0: #5aaef5; --c1: #f08a4b; --c2: #4cc493; --c3: #d689d2; --c4: #d9b23c; --c5: #f2796f;
  --c6: #a9b4be; --c7: #4cc4cf; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 76rem; padding: 1rem 1.5rem 4rem; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: .6rem 0 } h2 { font-size: 1.15rem; margin: 0 0 .5rem }
section { border-top: 1px solid var(--line); padding: 1rem 0; margin-top: 1rem }
p { margin: .4rem 0; max-width: 60rem }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums;
  display: block; max-width: 100%; overflow-x: auto }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
th { color: var(--faint); font-weight: 600 }
th.number, td.number { text-align: right; white-space: nowrap }
figure { margin: .3rem 0; display: inline-block; vertical-align: top; max-width: 100% }
figcaption { color: var(--faint); font-size: .85rem }
img, video, svg { max-width: 100%; height: auto; display: block; border-radius: 3px }
.row { display: flex; flex-wrap: wrap; gap: .8rem; margin: .5rem 0; align-items: flex-start }
.strip { display: flex; gap: 3px; overflow-x: auto; margin: .4rem 0 }
.strip figure { flex: none; margin: 0 }
details { margin: .5rem 0 } summary { cursor: pointer; color: var(--c0) }
svg text { fill: var(--text); font: 11px system-ui, sans-serif } svg .faint { fill: var(--faint) }
svg .title { font-weight: 600; font-size: 12px }
svg { overflow: visible } svg .grid { stroke: var(--line); stroke-width: 1; fill: none }
svg .panel { fill: var(--panel) }
@media print { body { max-width: none; padding: 0; font-size: 11px }
  figure, tr, .strip { break-inside: avoid } .strip { flex-wrap: wrap; overflow: visible }
  h2 { break-after: avoid } }
""")

_PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">{refresh}
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
""")

_NUMBER = re.compile(r"[-+]?(\d[\d.,]*(e[-+]?\d+)?|nan|inf)( ?[%°\w/²]{1,6})?|-|")


def page(title: str, *sections: Part, refresh_seconds: int | None = None) -> str:
    """Return a whole page; with refresh_seconds the browser reads it again so often."""
    refresh = Markup('\n<meta http-equiv="refresh" content="{}">').format(refresh_seconds)
    return _PAGE.format(
        policy=POLICY,
        refresh="" if refresh_seconds is None else refresh,
        title=title,
        style=STYLE,
        body=_join(sections, "\n"),
    )


def section(heading: str, *parts: Part) -> Markup:
    """A heading and what stands under it."""
    return Markup("<section>\n<h2>{}</h2>\n{}\n</section>").format(heading, _join(parts, "\n"))


def paragraph(*parts: Part) -> Markup:
    """Running text."""
    return Markup("<p>{}</p>").format(_join(parts))


def details(summary: Part, *parts: Part, unfolded: bool = False) -> Markup:
    """Parts that a click on the summary shows and hides; at first hidden unless `unfolded`."""
    return Markup("<details{}><summary>{}</summary>\n{}\n</details>").format(
        Markup(" open") if unfolded else "", summary, _join(parts, "\n")
    )


def row(*parts: Part) -> Markup:
    """Parts side by side, as many as the window is wide for."""
    return Markup('<div class="row">{}</div>').format(_join(parts))


def figure(part: Part, caption: Part) -> Markup:
    """An image, chart or video with a line under it."""
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(part, caption)


def table(head: Sequence[Part], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table; columns that hold nothing but numbers are set to the right.

    rows: of parts or numbers; a float is written with four significant digits.
    """
    cells = [[_cell(value) for value in values] for values in rows]
    columns = range(len(head))
    for values in cells:
        if len(values) != len(head):
            raise ValueError(f"a row of {len(values)} cells under {len(head)} headings: {values}")
    numeric = [bool(cells) and all(_NUMBER.fullmatch(r[i]) for r in cells) for i in columns]

    def line(tag: str, values: Sequence[Part]) -> Markup:
        kinds = (Markup(' class="number"') if numeric[i] else "" for i in columns)
        made = (
            Markup("<{0}{1}>{2}</{0}>").format(tag, kind, value)
            for kind, value in zip(kinds, values, strict=True)
        )
        return Markup("<tr>{}</tr>\n").format(_join(made))

    body = _join(line("td", values) for values in cells)
    return Markup("<table>\n<thead>{}</thead>\n<tbody>{}</tbody>\n</table>").format(
        line("th", head), body
    )


def image(pixels: np.ndarray, alt: str, scale: int | float = 1) -> Markup:
    """An image (h, w, 3) or (h, w) uint8, shown `scale` times as large."""
    from PIL import Image

    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise ValueError(f"an image of {pixels.dtype} {pixels.shape}; expected uint8 (h, w, 3)")
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, format="webp", quality=90)
    height, width = (round(size * scale) for size in pixels.shape[:2])
    return Markup('<img src="{}" alt="{}" width="{}" height="{}">').format(
        _data_uri("image/webp", file.getvalue()), alt, width, height
    )


def film_strip(
    frames: Iterable[np.ndarray], labels: Iterable[str], scale: int | float = 1
) -> Markup:
    """Frames uint8 (h, w, 3) side by side, each with its label under it."""
    pairs = zip(frames, labels, strict=True)
    figures = (figure(image(frame, label, scale), label) for frame, label in pairs)
    return Markup('<div class="strip">{}</div>').format(_join(figures))


def video(path: Path, width: int | None = None) -> Markup:
    """An mp4 file that plays on the page, `width` pixels wide or as it is."""
    size = Markup(' width="{}"').format(width) if width else ""
    uri = _data_uri("video/mp4", path.read_bytes())
    return Markup('<video controls loop muted playsinline{} src="{}"></video>').format(size, uri)


def write_page(path: Path, html: str) -> None:
    """Write a page so that whoever opens it finds the old one or the new one, whole.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_file(path) as file:
        file.write(html.encode())


def _join(parts: Iterable[Part], between: str = "") -> Markup:
    return Markup(between).join(parts)


def _cell(value: Any) -> Markup:
    if isinstance(value, float | np.floating):
        return Markup(f"{value:.4g}")
    return escape(value)


def _data_uri(kind: str, content: bytes) -> Markup:
    return Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")
