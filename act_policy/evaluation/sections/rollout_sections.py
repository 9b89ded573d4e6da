"""What rollouts showed, as sections of a page: success, films, failures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from act_policy.evaluation.moments import Seen
from act_policy.evaluation.report import SUCCESS_COLUMNS, success_row
from act_policy.evaluation.rollouts import EpisodeResult
from act_policy.evaluation.video import side_by_side
from act_policy.report.page import (
    details,
    figure,
    film_strip,
    paragraph,
    row,
    section,
    table,
    video,
)

Summaries = Mapping[str, Mapping[str, Any]]
"""Policy or baseline -> what `summarise` says of it."""


def success_section(summaries: Summaries, warnings: Sequence[str]) -> Markup:
    """Success rates with their intervals, the policy's first."""
    baselines = paragraph(
        "Beside the policy stands what it must clearly beat: the same policy shown black images, "
        "and the actions of a demonstration, whatever is seen."
    )
    return section(
        "Success",
        *([baselines] if len(summaries) > 1 else []),
        _interval_chart(summaries),
        table(
            ["", *SUCCESS_COLUMNS],
            [success_row(name, summary) for name, summary in summaries.items()],
        ),
        *(paragraph(warning) for warning in warnings),
    )


def films_section(folder: Path, filmed: Sequence[EpisodeResult], cameras: int) -> Markup:
    """The filmed episodes, to be played; so many cameras stand side by side in each."""
    if not filmed:
        return section("Rollouts", paragraph("None was filmed (videos=0)."))
    films = [
        figure(
            video(folder / f"seed_{one.seed}_{outcome(one)}.mp4", width=320 * cameras),
            f"{one}: {outcome(one)} after {one.steps} steps",
        )
        for one in filmed
    ]
    return section("Rollouts", row(*films))


def failures_section(
    results: Sequence[EpisodeResult],
    strips: Sequence[tuple[EpisodeResult, Seen]],
    stages: Sequence[str],
) -> Markup:
    """Failures by the stage of reward that they reached, with film strips.

    Args:
        results: of the policy, all.
        strips: the failures that were looked at, and what was seen.
        stages: in words; may be empty.
    """
    failures = [result for result in results if not result.success]
    if not failures:
        return section("Failures", paragraph(f"None in {len(results)} episodes."))
    parts: list[Markup] = []
    for stage in sorted({one.stage for one in failures}, key=lambda stage: stage or 0):
        group = [one for one in failures if one.stage == stage]
        shown = [(one, seen) for one, seen in strips if one.stage == stage]
        reached = "" if stage is None else f"reached stage {stage}: "
        if stage is not None and stages:
            reached = f"reached stage {stage}, {stages[stage]}: "
        seeds = ", ".join(str(one.seed) for one in group)
        summary = f"{reached}{len(group)} of {len(results)} episodes"
        more = [] if len(shown) == len(group) else [f" {len(shown)} of them are shown."]
        strip_parts = [
            figure(
                film_strip(
                    [side_by_side(one.images, list(one.images)) for one in seen.moments.values()],
                    [f"step {step}" for step in seen.moments],
                ),
                str(episode),
            )
            for episode, seen in shown
        ]
        text = paragraph(f"Seeds {seeds}.", *more)
        parts.append(details(summary, text, *strip_parts, unfolded=True))
    return section("Failures", *parts)


def outcome(episode: EpisodeResult) -> str:
    """As it stands in the names of films."""
    return "success" if episode.success else "failure"


def _interval_chart(summaries: Summaries) -> Markup:
    """A dot at each rate, a line over its interval, on a scale from 0 to 100%."""
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
