"""The page of the reports: their sections, learning curves and what they were made with."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.report.learning_curves import draw_learning_curves, read_metrics
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import Table, tabulate

REPORT_FILE = "report.html"
STRIP_HEIGHT = 136
"""Height in pixels of the images of a film strip."""


def write_report(
    out: Path,
    template: str,
    title: str,
    policy: ChunkPolicy,
    report: Mapping[str, Any],
    metrics: Path | None,
    **sections: Any,
) -> None:
    """Write report.html to `out`.

    Args:
        out: folder of the evaluation.
        template: rollout or replay, in report/templates/; sections are what it names.
        title: of the page.
        policy: that was evaluated.
        report: what evaluation.json holds.
        metrics: metrics.csv of the policy's run, for its learning curves; it may not exist.
        sections: see template.
    """
    curves = None
    if metrics is not None and metrics.is_file():
        curves = draw_learning_curves(read_metrics(metrics), policy.schema)
    made_with = tabulate_report_origin(report)
    write_page(
        out / REPORT_FILE,
        render_page(template, title, curves=curves, made_with=made_with, **sections),
    )


def tabulate_report_origin(report: Mapping[str, Any]) -> Table:
    """Make a table of the checkpoint, the settings and the versions behind a report."""
    origin = {**report["checkpoint"], **report.get("settings", {}), **report["versions"]}
    if reason := report.get("execution", {}).get("reason"):
        origin["execution"] = f"the policy's own: {reason}"
    return tabulate_origin(origin)


def tabulate_origin(values: Mapping[str, Any]) -> Table:
    """Make a table of what a result was made with; `command` among it is a list of words."""
    rows = [
        [name.replace("_", " "), value if isinstance(value, str) else json.dumps(value)]
        for name, value in {**values, "command": shlex.join(values["command"])}.items()
    ]
    return tabulate(["", ""], rows)
