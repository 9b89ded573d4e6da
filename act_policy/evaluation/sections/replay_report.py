"""report.html of an evaluation without a simulator: open-loop errors and what they are of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.data.dataset import observation_at
from act_policy.evaluation.open_loop.score import OpenLoop
from act_policy.evaluation.sections.attention_section import MOMENTS, commit_actions, show_attention
from act_policy.evaluation.sections.chunk_sections import show_demonstrated_chunks, show_errors
from act_policy.evaluation.sections.page import STRIP_HEIGHT, write_report
from act_policy.report.pieces import encode_strip, spread


def write_replay_report(
    out: Path,
    report: Mapping[str, Any],
    policy: ChunkPolicy,
    result: OpenLoop,
    metrics: Path | None,
) -> None:
    """Write report.html and attention.png to `out`; the first scored episode is shown.

    report is what evaluation.json holds, metrics as in `write_report`.
    """
    dataset, episode = result.dataset, result.episodes[0]
    steps = spread(int(dataset.lengths[episode]), 6)
    observed = {f"step {step}": observation_at(dataset, episode, step) for step in steps}
    actions = dataset.action(episode)
    moments = {
        f"step {step}": commit_actions(observed[f"step {step}"], actions[step:], policy)
        for step in steps[:MOMENTS]
    }
    strips = [
        encode_strip(
            [observation.images[camera.name] for observation in observed.values()],
            observed,
            STRIP_HEIGHT / camera.height,
        )
        for camera in policy.schema.cameras
    ]
    write_report(
        out,
        "replay",
        f"Open loop on {dataset.folder.name}",
        policy,
        report,
        metrics,
        open_loop=show_errors(result),
        episode=dataset.episodes[episode].name,
        strips=strips,
        chunks=[show_demonstrated_chunks(result)],
        attention=show_attention(out, moments, policy),
    )
