"""Results of an evaluation: plain values for JSON, and tables for a terminal."""

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from act_policy.errors import UserError, writing
from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.intervals import wilson_interval
from act_policy.report.pieces import format_count
from act_policy.system.atomic import atomic_file


def summarise(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Success rate, its 95% Wilson interval [low, high], and every episode."""
    successes = sum(result.success for result in results)
    return {
        "success_rate": successes / len(results),
        "interval": list(wilson_interval(successes, len(results))),
        "episodes": [
            {"seed": result.seed, "success": result.success, "steps": result.steps}
            | ({} if result.stage is None else {"stage": result.stage})
            | ({} if result.rerun is None else {"rerun": result.rerun})
            for result in results
        ],
    }


def check_writable(folder: Path) -> None:
    """Make the folder; raise UserError if no file can be written in it."""
    with writing(f"out={folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values so that the file is always either the old one or complete, else UserError."""
    with writing(path), atomic_file(path) as file:
        file.write((json.dumps(values, indent=2) + "\n").encode())


def continue_same(path: Path, setup: Mapping[str, Any], what: str) -> None:
    """Write the setup of a new comparison or suite, or check that the one at `path` is the same.

    Raises:
        UserError: the episodes there belong to a `what` with another setup.
    """
    if not path.is_file():
        write_json(path, setup)
        return
    before = json.loads(path.read_text())
    plain = json.loads(json.dumps(setup))
    if differ := [name for name in plain if before.get(name) != plain[name]]:
        raise UserError(
            f"out={path.parent} holds a {what} with other {', '.join(differ)}; its result counts "
            "only if these were fixed before. Choose another out=, or remove that one"
        )


def list_reruns(summaries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Describe each episode that was run again because its first process failed, died or hung."""
    return [
        f"{name}, seed {episode['seed']}: this episode was run a second time, "
        f"because the first process {episode['rerun']}"
        for name, summary in summaries.items()
        for episode in summary["episodes"]
        if "rerun" in episode
    ]


def list_warnings(report: Mapping[str, Any]) -> list[str]:
    """Name each baseline that the policy is not clearly better than, and repeated episodes."""
    meaning = {
        "black_image": "it may not use its cameras",
        "replayed_demonstration": "the task may not vary enough to need a policy",
    }
    low = report["interval"][0]
    overlapping = [
        f"warning: the policy is not clearly better than the {name.replace('_', ' ')} (the "
        f"intervals overlap): {meaning[name]}, or more episodes= would tell them apart"
        for name, baseline in report["baselines"].items()
        if baseline["interval"][1] >= low
    ]
    baselines = {name.replace("_", " "): one for name, one in report["baselines"].items()}
    return [*overlapping, *list_reruns({"policy": report, **baselines})]


SUCCESS_COLUMNS = ("successes", "success rate", "95% interval", "steps to success (median)")


def success_row(name: str, summary: Mapping[str, Any]) -> list[str]:
    """Cells of the policy or a baseline: its name, then `SUCCESS_COLUMNS`."""
    episodes, (low, high) = summary["episodes"], summary["interval"]
    steps = [episode["steps"] for episode in episodes if episode["success"]]
    return [
        name.replace("_", " "),
        f"{len(steps)} of {len(episodes)}",
        f"{summary['success_rate']:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{median(steps):.0f}" if steps else "-",
    ]


def build_success_table(title: str, summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """Build a table with a row for the policy and each baseline."""
    made = Table(title=title, title_justify="left")
    made.add_column("policy")
    for column in SUCCESS_COLUMNS:
        made.add_column(column, justify="right")
    for name, summary in summaries.items():
        made.add_row(*success_row(name, summary))
    return made


def format_errors(errors: Iterable[float]) -> list[str]:
    """Format errors of one joint to the fourth digit of the largest, with at most 6 decimals."""
    values = list(errors)
    largest = max(values)
    digits = 3 - math.floor(math.log10(largest)) if largest > 0 else 0
    return [f"{value:.{min(max(digits, 0), 6)}f}" for value in values]


def build_error_table(report: Mapping[str, Any]) -> Table:
    """Build a table of mean absolute errors, one row per action in its own unit."""
    errors, data = report["errors"], report["data"]
    counts = format_count(data["chunks"], "chunk"), format_count(len(data["episodes"]), "episode")
    made = Table(title=f"mean absolute error, {' of '.join(counts)}", title_justify="left")
    made.add_column("action")
    made.add_column("unit")
    for who in errors:
        made.add_column(who.replace("_", " "), justify="right")
    for name, unit in report["units"].items():
        made.add_row(name, unit, *format_errors(f["joints"][name] for f in errors.values()))
    made.add_row(
        "mean", "std", *(f"{found['normalised']:.3f}" for found in errors.values()), style="bold"
    )
    return made
