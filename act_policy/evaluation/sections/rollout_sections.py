"""Success rates, films and failures of rollouts, as values for the report's template."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from act_policy.evaluation.moments import Seen
from act_policy.evaluation.report import SUCCESS_COLUMNS, success_row
from act_policy.evaluation.rollouts import EpisodeResult
from act_policy.evaluation.video import side_by_side
from act_policy.report.pieces import Image, Table, Video, encode_strip, encode_video, tabulate

Summaries = Mapping[str, Mapping[str, Any]]
"""Policy or baseline -> its `summarise`."""


class Success(NamedTuple):
    """Success rates of the policy and its baselines."""

    has_baselines: bool
    chart: Markup
    table: Table
    warnings: Sequence[str]


class FailureGroup(NamedTuple):
    """Failures that reached the same stage of reward.

    reached: which stage, in words, before their number; empty where the task has no stages.
    seeds: of all of them.
    strips: (episode, its images) of those that are shown.
    """

    reached: str
    seeds: list[int]
    strips: list[tuple[EpisodeResult, list[Image]]]


def show_success(summaries: Summaries, warnings: Sequence[str]) -> Success:
    """Lay out success rates with their intervals, the policy's first."""
    rows = [success_row(name, summary) for name, summary in summaries.items()]
    table = tabulate(["", *SUCCESS_COLUMNS], rows)
    return Success(len(summaries) > 1, _interval_chart(summaries), table, warnings)


def show_films(folder: Path, filmed: Sequence[EpisodeResult], cameras: int) -> list[Video]:
    """Encode the filmed episodes, in each of which `cameras` images stand side by side."""
    return [
        encode_video(
            folder / f"seed_{one.seed}_{one.outcome}.mp4",
            320 * cameras,
            f"{one}: {one.outcome} after {one.steps} steps",
        )
        for one in filmed
    ]


def group_failures(
    results: Sequence[EpisodeResult],
    strips: Sequence[tuple[EpisodeResult, Seen]],
    stages: Sequence[str],
) -> list[FailureGroup]:
    """Group failures by the stage of reward that they reached, with film strips.

    Args:
        results: of the policy, all.
        strips: failures that were replayed, and their moments.
        stages: in words; may be empty.
    """
    failures = [result for result in results if not result.success]
    groups = []
    for stage in sorted({one.stage for one in failures}, key=lambda stage: stage or 0):
        meaning = f", {stages[stage]}" if stage is not None and stages else ""
        groups.append(
            FailureGroup(
                "" if stage is None else f"reached stage {stage}{meaning}: ",
                [one.seed for one in failures if one.stage == stage],
                [(one, _encode_moments(seen)) for one, seen in strips if one.stage == stage],
            )
        )
    return groups


def _encode_moments(seen: Seen) -> list[Image]:
    frames = [side_by_side(one.images, list(one.images)) for one in seen.moments.values()]
    return encode_strip(frames, [f"step {step}" for step in seen.moments])


def _interval_chart(summaries: Summaries) -> Markup:
    """Draw a dot at each rate and a line over its interval, on a scale from 0 to 100%."""
    left, width, line = 190, 620, 26
    bottom = 8 + line * len(summaries)

    def at(rate: float) -> float:
        return left + rate * (width - left - 20)

    parts = []
    for percent in range(0, 101, 20):
        x = at(percent / 100)
        parts.append(
            Markup(
                '<path class="grid" d="M{0:.1f} 4V{1}"/><text class="faint" x="{0:.1f}" y="{2}" '
                'text-anchor="middle">{3}%</text>'
            ).format(x, bottom, bottom + 14, percent)
        )
    for index, (name, summary) in enumerate(summaries.items()):
        y, (low, high) = 8 + line * (index + 0.5), summary["interval"]
        colour = "var(--c0)" if index == 0 else "var(--c6)"
        parts.append(
            Markup(
                '<text x="{0}" y="{1}" text-anchor="end">{2}</text>'
                '<path d="M{3:.1f} {4}H{5:.1f}" stroke-width="3" style="stroke:{6}"/>'
                '<circle cx="{7:.1f}" cy="{4}" r="5" style="fill:{6}"/>'
            ).format(
                left - 10,
                y + 4,
                name.replace("_", " "),
                at(low),
                y,
                at(high),
                colour,
                at(summary["success_rate"]),
            )
        )
    return Markup(
        '<svg viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" '
        'aria-label="success rates with 95% intervals">{2}</svg>'
    ).format(width, bottom + 20, Markup("").join(parts))
