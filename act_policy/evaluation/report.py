"""What an evaluation found: plain values for JSON, and a table for people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from act_policy.atomic import atomic_file
from act_policy.evaluation.rollouts import EpisodeResult
from act_policy.evaluation.statistics import wilson_interval


def summarise(results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Success rate, its 95% Wilson interval [low, high], and every episode."""
    successes = sum(result.success for result in results)
    return {
        "success_rate": successes / len(results),
        "interval": list(wilson_interval(successes, len(results))),
        "episodes": [
            {"seed": result.seed, "success": result.success, "steps": result.steps}
            for result in results
        ],
    }


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values so that the file is always either the old one or complete."""
    with atomic_file(path) as file:
        file.write((json.dumps(values, indent=2) + "\n").encode())


def table(title: str, summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row for the policy and each baseline."""
    made = Table(title=title, title_justify="left")
    made.add_column("who acts")
    for name in ("successes", "success rate", "95% interval", "steps to success (median)"):
        made.add_column(name, justify="right")
    for name, summary in summaries.items():
        episodes, (low, high) = summary["episodes"], summary["interval"]
        steps = [episode["steps"] for episode in episodes if episode["success"]]
        made.add_row(
            name.replace("_", " "),
            f"{len(steps)} of {len(episodes)}",
            f"{summary['success_rate']:.1%}",
            f"{low:.1%} to {high:.1%}",
            f"{median(steps):.0f}" if steps else "-",
        )
    return made
