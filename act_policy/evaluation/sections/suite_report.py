"""report.html of a suite: each row's success, difference from the control and first image."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image as PillowImage

from act_policy.evaluation.results import SUCCESS_COLUMNS, list_reruns, success_row
from act_policy.evaluation.sections.page import REPORT_FILE, tabulate_report_origin
from act_policy.evaluation.sections.rollout_sections import show_intervals
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import Image, Table, encode_image, tabulate
from act_policy.report.plot import plot_intervals

PICTURE_HEIGHT = 126
"""Largest height of a picture on the page, in pixels."""


class ShownRow(NamedTuple):
    """A row of the page's table.

    cells: `SUCCESS_COLUMNS`, the difference from the control, and what it means.
    """

    picture: Image | None
    name: str
    cells: list[str]


def write_suite_report(out: Path, report: Mapping[str, Any], pictures: Sequence[Path]) -> None:
    """Write report.html.

    Args:
        out: folder of the suite.
        report: what suite.json holds.
        pictures: files with the first image of each row; missing ones are left out.
    """
    summaries = {row["name"]: row for row in report["rows"]}
    differences = {
        name: (low, row["difference"]["difference"], high)
        for name, row in summaries.items()
        if row["difference"] is not None
        for low, high in [row["difference"]["interval"]]
    }
    groups: dict[str, list[ShownRow]] = {}
    for (name, row), picture in zip(summaries.items(), pictures, strict=True):
        shown = ShownRow(_show_picture(picture), name, make_cells(row))
        groups.setdefault(row["group"], []).append(shown)
    page = render_page(
        "suite",
        f"{report['suite']}: {report['environment']}",
        control=report["control"],
        columns=[*SUCCESS_COLUMNS, *((DIFFERENCE, "") if differences else ("", ""))],
        groups=groups,
        means=tabulate_means(report),
        rates=show_intervals(summaries),
        differences=plot_intervals(differences, lowest=-1.0) if differences else None,
        left_out=report["left_out"],
        reruns=list_reruns(summaries),
        made_with=tabulate_report_origin(report),
    )
    write_page(out / REPORT_FILE, page)


DIFFERENCE = "points minus control"


def make_cells(row: Mapping[str, Any]) -> list[str]:
    """Write the cells of a row of suite.json, without its name: `ShownRow.cells`."""
    cells = success_row(row["name"], row)[1:]
    difference = row["difference"]
    if difference is None:
        return [*cells, "", ""]
    low, high = difference["interval"]
    verdict = "worse" if high <= 0 else "better" if low >= 0 else "cannot tell"
    bounds = f"({100 * low:+.0f} to {100 * high:+.0f})"
    return [*cells, f"{100 * difference['difference']:+.0f} {bounds}", verdict]


def tabulate_means(report: Mapping[str, Any]) -> Table:
    """Make a table of the groups and the two overall means."""
    summaries = {
        **report["groups"],
        "mean of all rows": report["mean_of_rows"],
        "mean of the groups": report["mean_of_groups"],
    }
    rows = [
        [name, mean["rows"], f"{mean['success_rate']:.1%}", f"{low:.1%} to {high:.1%}"]
        for name, mean in summaries.items()
        for low, high in [mean["interval"]]
    ]
    return tabulate(["group", "rows", "success rate", "95% interval"], rows)


def _show_picture(path: Path) -> Image | None:
    if not path.is_file():
        return None
    with PillowImage.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    scale = PICTURE_HEIGHT / len(pixels)
    return encode_image(pixels, "what the policy first saw", scale if scale < 1 else int(scale))
