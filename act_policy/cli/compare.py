"""Compare policies in simulation, from the same initial states, until it is decided.

    act-policy compare policies=[runs/a,runs/b] out=reports/a-or-b
    act-policy compare 'policies=[{checkpoint: A, execute_steps: 4}, A]' out=FOLDER

Writes report.html (open it in a browser), comparison.json and the episodes to out=FOLDER. The same
command continues a comparison that was interrupted, and with more episodes= one that ended
undecided. Exit code 0: every pair is decided, one way or the other; 3: cannot tell yet.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from act_policy.cli.entry import make_settings, plain, run_config
from act_policy.errors import UserError, check_fields

UNDECIDED = 3


def main(config: Any) -> None:
    """Check the settings, compare, print the verdicts."""
    from act_policy.evaluation.compare import RESULT_FILE, ComparisonConfig, compare
    from act_policy.evaluation.results import list_reruns
    from act_policy.report.verdicts import say_verdict
    from act_policy.sim.rendering import choose_gl_backend

    settings = make_settings(ComparisonConfig, config)
    given = plain(config)
    contestants = read_contestants(given["policies"], given["source"])
    choose_gl_backend()  # once, here: the worker processes inherit it
    out = Path(config.out)
    report = compare(
        contestants,
        out,
        settings,
        find_all_demonstrations(contestants, config.demonstrations, config.instruction),
        workers=None if config.workers == "auto" else config.workers,
        films=config.films,
    )
    print_policies(report, "policy")
    for verdict in report["verdicts"]:
        print(say_verdict(verdict, settings.margin))
    for rerun in list_reruns({one["name"]: one for one in report["policies"]}):
        print(rerun)
    print(f"written: {out / RESULT_FILE} and report.html beside it")
    if not report["decided"]:
        sys.exit(UNDECIDED)


def print_policies(report: Mapping[str, Any], compared: str) -> None:
    """Print a report's policies, or whatever else was compared, with letters and success rates."""
    from rich.console import Console
    from rich.table import Table

    from act_policy.evaluation.sections.comparison_report import (
        name_what_was_done,
        tabulate_policies,
    )

    columns = (compared, "letters", "successes", "success rate")  # the page shows more
    table = Table(*columns, title=name_what_was_done(report), title_justify="left")
    for row in tabulate_policies(report).rows:
        table.add_row(*row[: len(columns)])
    Console().print(table)


def read_contestants(policies: Any, source: Mapping[str, Any]) -> list[Any]:
    """Read policies=, a list of checkpoints or mappings; UserError where one is neither.

    What `source` says of other software's checkpoints holds where a policy's own does not.
    """
    from act_policy.checkpoints.source import Source
    from act_policy.evaluation.rollouts.contest import Contestant

    if not isinstance(policies, list):
        raise UserError(f"policies={policies}: expected a list, [A,B]")
    fields = ("checkpoint", "execute_steps", "ensemble_coefficient", "name", "source")
    contestants, named = [], []
    for index, one in enumerate(policies, start=1):
        values: Any = {"checkpoint": one} if isinstance(one, str) else one
        if not isinstance(values, Mapping) or "checkpoint" not in values:
            raise UserError(
                f"policies: number {index} is {one}; expected a checkpoint, or a "
                "mapping with checkpoint:"
            )
        if unknown := sorted(set(values) - set(fields)):
            raise UserError(
                f"policies: number {index} has {', '.join(unknown)}; known are {', '.join(fields)}"
            )
        for name, kind in (("execute_steps", int), ("ensemble_coefficient", (int, float))):
            value = values.get(name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise UserError(f"policies: number {index} has {name}={value}; expected a number")
        own = values.get("source") or {}
        check_fields(f"policies: source of number {index}", own, Source)
        named.append("name" in values)
        contestants.append(
            Contestant(
                str(values.get("name", "")),
                Path(values["checkpoint"]),
                values.get("execute_steps"),
                values.get("ensemble_coefficient"),
                Source.from_config({**source, **own}),
            )
        )
    return [
        one if given else replace(one, name=name)
        for one, given, name in zip(contestants, named, make_names(contestants), strict=True)
    ]


def make_names(contestants: list[Any]) -> list[str]:
    """Name policies by as much of their checkpoints and execution as tells them apart."""
    folders = ("checkpoints", "pretrained_model")
    short = {}
    for one in contestants:
        path = one.checkpoint
        short[path] = (
            f"{path.parent.parent.name}/{path.name}" if path.parent.name in folders else path.name
        )
    unique = len(set(short.values())) == len(short)
    names = [short[one.checkpoint] if unique else str(one.checkpoint) for one in contestants]
    return [
        f"{name}, {_execution(one)}" if names.count(name) > 1 else name
        for name, one in zip(names, contestants, strict=True)
    ]


def _execution(contestant: Any) -> str:
    if contestant.ensemble_coefficient is not None:
        return f"ensemble_coefficient={contestant.ensemble_coefficient}"
    steps = contestant.execute_steps
    return "default" if steps is None else f"execute_steps={steps}"


def find_all_demonstrations(
    contestants: list[Any], folder: str | None, task: str | None
) -> list[Any]:
    """Read the demonstrations of each run once; those that are no longer there are named."""
    from act_policy.checkpoints.locate import find_run
    from act_policy.evaluation.rollouts.demonstrations import find_demonstrations

    runs = dict.fromkeys(find_run(one.checkpoint) for one in contestants)
    found = [find_demonstrations(run_config(run), folder, task) for run in runs]
    return [one for one in found if one is not None]
