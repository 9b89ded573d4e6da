"""report.html of a comparison: the verdicts, what they rest on, and where the policies differ."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from act_policy.evaluation.results import SUCCESS_COLUMNS, list_reruns, success_row
from act_policy.evaluation.rollouts.moments import Look, see_moments
from act_policy.evaluation.rollouts.run import Environment, EpisodeResult
from act_policy.evaluation.sections.page import REPORT_FILE, STRIP_HEIGHT, tabulate_origin
from act_policy.evaluation.sections.rollout_sections import encode_moments, show_intervals
from act_policy.execution import Execution
from act_policy.judging.schedule import Schedule
from act_policy.report.chart import Chart
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import Image, Table, spread, tabulate
from act_policy.report.plot import plot_lines
from act_policy.report.verdicts import draw_courses, say_verdict
from act_policy.types import Schema


class PolicyStrip(NamedTuple):
    """One policy's episode from a seed: its outcome in words, and moments of it."""

    says: str
    images: list[Image]


class SeedStrips(NamedTuple):
    """The episodes of all policies from one seed."""

    seed: int
    policies: list[PolicyStrip]


def write_comparison_report(
    out: Path,
    report: Mapping[str, Any],
    results: Sequence[Sequence[EpisodeResult]],
    schedule: Schedule,
    schema: Schema,
    build: Callable[..., Environment],
    workers: int,
    films: int,
) -> None:
    """Write report.html.

    Args:
        out: folder of the comparison.
        report: what comparison.json holds.
        results: episodes of each policy on which the verdicts rest, in the order of their seeds.
        schedule: of the comparison, finished.
        schema: for the cameras of the film strips.
        build: (schema, sizes) -> environment, to render moments again.
        workers: number of processes.
        films: number of seeds with different outcomes to show.
    """
    policies = {one["name"]: one for one in report["policies"]}
    settings = report["settings"]
    page = render_page(
        "comparison",
        f"{name_what_was_done(report)}: {' against '.join(policies)}",
        verdicts=[say_verdict(one, settings["margin"]) for one in report["verdicts"]],
        chosen=say_chosen(report),
        several=len(policies) > 2,
        error=f"{100 * (1 - settings['confidence']):.3g}%",
        intervals=show_intervals(policies),
        table=tabulate_policies(report),
        reruns=list_reruns(policies),
        courses=draw_courses(list(policies), schedule, report["verdicts"], settings["margin"]),
        times=draw_times(policies, settings["max_steps"]),
        smoothness=tabulate_smoothness(report),
        strips=_show_seeds(list(policies), results, schema, build, workers, films),
        origin=tabulate_origin({**settings, **_checkpoints(policies), **report["versions"]}),
    )
    write_page(out / REPORT_FILE, page)


def name_what_was_done(report: Mapping[str, Any]) -> str:
    """Name the environment, and the task of which the policies were told."""
    task = report["settings"]["instruction"]
    return f"{report['environment']}" + f", {task!r}" * (task is not None)


def say_chosen(report: Mapping[str, Any]) -> str | None:
    """Say which candidate of a race was chosen, and why; None where there was no race."""
    if "chosen" not in report:
        return None
    chosen = Execution.from_dict(report["chosen"])
    kept = "is the default now" if report["kept_in"] else "was the best"
    return f"{chosen} {kept}: {chosen.reason}."


def tabulate_policies(report: Mapping[str, Any]) -> Table:
    """Make a row for each policy; those that share a letter were not found to differ."""
    rows = [
        [one["name"], one["letters"], *success_row(one["name"], one)[1:]]
        for one in report["policies"]
    ]
    return tabulate(["policy", "letters", *SUCCESS_COLUMNS], rows)


def draw_times(policies: Mapping[str, Mapping[str, Any]], max_steps: int | None) -> Chart:
    """Draw the share of episodes that have succeeded by each step."""
    curves = {}
    for name, policy in policies.items():
        steps = sorted(one["steps"] for one in policy["episodes"] if one["success"])
        last = max_steps or max(one["steps"] for one in policy["episodes"])
        x = np.repeat([0, *steps, last], 2)[1:-1]
        share = 100 * np.arange(len(steps) + 1) / len(policy["episodes"])
        curves[name] = (x, np.repeat(share, 2))
    return plot_lines(curves, "step", "% of episodes", "Succeeded by then", size=(620, 320))


def tabulate_smoothness(report: Mapping[str, Any]) -> Table | None:
    """Tabulate jerk and jumps; None without demonstrations to compare with."""
    if report["demonstrations"] is None:
        return None
    measured = {"demonstrations": report["demonstrations"]}
    measured |= {policy["name"]: policy["smoothness"] for policy in report["policies"]}
    rows = []
    for name, smoothness in measured.items():
        jumps = smoothness["jumps"]
        rows.append([name, f"{smoothness['jerk']:.2f}", "-" if jumps is None else f"{jumps:.1%}"])
    return tabulate(["", "jerk", "large jumps between chunks"], rows)


def choose_differing(
    results: Sequence[Sequence[EpisodeResult]], count: int
) -> list[tuple[EpisodeResult, ...]]:
    """Choose initial states from which all policies played, with different outcomes.

    They are taken in turn from each combination of outcomes, the earliest first.
    """
    groups: dict[tuple[bool, ...], list[tuple[EpisodeResult, ...]]] = {}
    for episodes in zip(*results, strict=False):
        outcomes = tuple(one.success for one in episodes)
        if len(set(outcomes)) > 1:
            groups.setdefault(outcomes, []).append(episodes)
    ranked = [(i, group[i]) for group in groups.values() for i in range(len(group))]
    chosen = sorted(ranked, key=lambda one: one[0])[:count]
    return sorted((episodes for _, episodes in chosen), key=lambda episodes: episodes[0].seed)


def _show_seeds(
    names: Sequence[str],
    results: Sequence[Sequence[EpisodeResult]],
    schema: Schema,
    build: Callable[..., Environment],
    workers: int,
    films: int,
) -> list[SeedStrips]:
    chosen = choose_differing(results, films)
    looks = [
        Look(one, spread(one.steps + 1, 6), STRIP_HEIGHT) for episodes in chosen for one in episodes
    ]
    seen = iter(see_moments(build, schema, looks, workers) if looks else [])
    return [
        SeedStrips(
            episodes[0].seed,
            [
                PolicyStrip(
                    f"{name}: {one.outcome} after {one.steps} steps", encode_moments(next(seen))
                )
                for name, one in zip(names, episodes, strict=True)
            ],
        )
        for episodes in chosen
    ]


def _checkpoints(policies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: f"{policy['checkpoint']['path']}, {policy['checkpoint']['file']}, "
        f"sha256 {policy['checkpoint']['sha256']}"
        for name, policy in policies.items()
    }
