"""report.html of an evaluation in simulation: everything to look at, in one file."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.evaluation.open_loop.score import OpenLoop
from act_policy.evaluation.rollouts.moments import Look, Seen, see_moments
from act_policy.evaluation.rollouts.run import Environment, EpisodeResult
from act_policy.evaluation.sections.attention_section import MOMENTS, commit_actions, show_attention
from act_policy.evaluation.sections.chunk_sections import (
    EXECUTED,
    MEASURED,
    EpisodeChunks,
    draw_chunks,
    find_closest,
    match_joints,
    show_errors,
)
from act_policy.evaluation.sections.page import STRIP_HEIGHT, write_report
from act_policy.evaluation.sections.rollout_sections import group_failures, show_films, show_success
from act_policy.report.pieces import format_count, spread
from act_policy.sim.aloha.tasks import stages_in_words

FILM_STRIP_FILE = "film_strip.png"
STRIPS = 24
"""Most failures that are shown."""
CHUNKS = 8
"""Most predicted chunks of an episode that are shown."""


@dataclass(frozen=True)
class Background:
    """What a report shows beside the evaluation itself; each is None where it is not available.

    metrics: metrics.csv of the training run.
    score: policy -> its errors on demonstrations that it was not trained on.
    """

    metrics: Path | None = None
    score: Callable[[ChunkPolicy], OpenLoop | None] | None = None


def write_rollout_report(
    out: Path,
    report: Mapping[str, Any],
    policy: ChunkPolicy,
    results: Sequence[EpisodeResult],
    filmed: Sequence[EpisodeResult],
    demonstrations: Sequence[np.ndarray],
    build: Callable[..., Environment],
    workers: int,
    background: Background,
) -> None:
    """Write report.html, and attention.png and film_strip.png of the first filmed episode.

    Args:
        out: folder of the evaluation, which holds videos/.
        report: what evaluation.json holds.
        policy: that was evaluated.
        results: its episodes.
        filmed: those of them in videos/.
        demonstrations: actions (T, a) of those it was trained on; may be empty.
        build: (schema, sizes) -> environment, to render moments again.
        workers: number of processes.
        background: what else the report shows.
    """
    failures = _of_every_stage([result for result in results if not result.success])[:STRIPS]
    successes = [result for result in results if result.success]
    chosen = [*successes[:1], *failures[:1]]
    # about as many chunks as lie end to end, but never many: those that overlap look alike
    asked = [
        _asked(one, min(CHUNKS, max(2, 1 + one.steps // policy.chunk_length))) for one in chosen
    ]
    attended = _asked(chosen[0], MOMENTS)
    views = [Look(one, (*steps, *attended)) for one, steps in zip(chosen, asked, strict=True)]
    strips = [Look(one, spread(one.steps + 1, 6), STRIP_HEIGHT) for one in failures]
    seen = see_moments(build, policy.schema, [*views, *strips], workers)
    seen = [one.tell(report["settings"]["instruction"]) for one in seen]
    moments = {
        f"{chosen[0]}, step {step}": commit_actions(
            seen[0].moments[step], chosen[0].actions[step:], policy
        )
        for step in attended
    }
    open_loop = None if background.score is None else background.score(policy)
    strips_seen = list(zip(failures, seen[len(views) :], strict=True))
    episodes = format_count(len(results), "episode")
    write_report(
        out,
        "rollout",
        f"{report['environment']}: {report['success_rate']:.1%} of {episodes}",
        policy,
        report,
        background.metrics,
        success=show_success(report),
        films=show_films(out / "videos", filmed, len(policy.schema.cameras)),
        failures=group_failures(results, strips_seen, stages_in_words(report["environment"])),
        episodes=episodes,
        chunks=_show_chunks(policy, chosen, asked, seen[: len(views)], demonstrations),
        attention=show_attention(out, moments, policy),
        open_loop=None if open_loop is None else show_errors(open_loop),
    )
    if filmed:
        strip = f"seed_{filmed[0].seed}_{filmed[0].outcome}.png"
        shutil.copyfile(out / "videos" / strip, out / FILM_STRIP_FILE)


def _show_chunks(
    policy: ChunkPolicy,
    episodes: Sequence[EpisodeResult],
    asked: Sequence[Sequence[int]],
    seen: Sequence[Seen],
    demonstrations: Sequence[np.ndarray],
) -> list[EpisodeChunks]:
    """Predict chunks at some steps of some episodes and draw them beside what was executed."""
    shown = []
    for one, steps, (states, moments) in zip(episodes, asked, seen, strict=True):
        chunks = {step: policy.predict_chunk(moments[step]) for step in steps}
        lines = {EXECUTED: one.actions}
        if demonstrations:
            lines["closest demonstration"] = find_closest(one.actions, demonstrations)
        lines[MEASURED] = match_joints(policy.schema, states)
        says = f"{one}, {one.outcome} after {one.steps} steps:"
        shown.append(EpisodeChunks(says, draw_chunks(policy.schema, lines, chunks)))
    return shown


def _of_every_stage(failures: Sequence[EpisodeResult]) -> list[EpisodeResult]:
    """Order failures: the first of each stage, then the second of each, and so on."""
    earlier: Counter[int | None] = Counter()
    ranks = []
    for failure in failures:
        ranks.append(earlier[failure.stage])
        earlier[failure.stage] += 1
    return [failures[i] for i in np.argsort(ranks, kind="stable")]


def _asked(episode: EpisodeResult, count: int) -> list[int]:
    """Choose at most `count` of the steps from whose images the policy's chunks were made."""
    steps = np.unique(episode.captured) if episode.captured is not None else np.zeros(1, int)
    return [int(steps[i]) for i in spread(len(steps), count)]
