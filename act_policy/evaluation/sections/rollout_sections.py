"""Success rates, films and failures of rollouts, as values for the report's template."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from act_policy.evaluation.results import SUCCESS_COLUMNS, list_warnings, success_row
from act_policy.evaluation.rollouts.moments import Seen
from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.evaluation.rollouts.video import side_by_side
from act_policy.report.pieces import Image, Table, Video, encode_strip, encode_video, tabulate
from act_policy.report.plot import plot_intervals


class Success(NamedTuple):
    """Success rates of the policy and its baselines."""

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


def show_success(report: Mapping[str, Any]) -> Success:
    """Lay out success rates of evaluation.json with their intervals, the policy's first."""
    summaries = {"policy": report, **report["baselines"]}
    rows = [success_row(name, summary) for name, summary in summaries.items()]
    table = tabulate(["", *SUCCESS_COLUMNS], rows)
    in_words = {name.replace("_", " "): summary for name, summary in summaries.items()}
    return Success(show_intervals(in_words), table, list_warnings(report))


def show_intervals(summaries: Mapping[str, Mapping[str, Any]]) -> Markup:
    """Draw the success rates with their intervals."""
    return plot_intervals(
        {
            name: (low, summary["success_rate"], high)
            for name, summary in summaries.items()
            for low, high in [summary["interval"]]
        }
    )


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
                [(one, encode_moments(seen)) for one, seen in strips if one.stage == stage],
            )
        )
    return groups


def encode_moments(seen: Seen) -> list[Image]:
    """Encode moments of an episode for a film strip, all cameras side by side."""
    frames = [side_by_side(one.images, list(one.images)) for one in seen.moments.values()]
    return encode_strip(frames, [f"step {step}" for step in seen.moments])
