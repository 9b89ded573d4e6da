"""One evaluation without a simulator: a policy open loop on demonstrations, with its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import check_whole_number
from act_policy.evaluation.open_loop.run_data import Scored
from act_policy.evaluation.open_loop.score import score_open_loop
from act_policy.evaluation.results import check_writable, write_json
from act_policy.evaluation.sections.replay_report import write_replay_report
from act_policy.system.versions import versions


def replay(
    checkpoint: Path,
    out: Path,
    find: Callable[[ChunkPolicy], Scored],
    chunks: int | None = None,
    metrics: Path | None = None,
    load: Callable[[Path], ChunkPolicy] = open_policy,
) -> dict[str, Any]:
    """Score a policy open loop; write evaluation.json and report.html to `out`.

    Args:
        checkpoint: run folder, checkpoint file, bundle, ONNX file, or one of other software.
        out: folder, made if it does not exist.
        find: policy -> what it is scored on; the cameras to read depend on the policy.
        chunks: see `score_open_loop`.
        metrics: metrics.csv of the run.
        load: reads the checkpoint.

    Returns:
        What evaluation.json holds.

    Raises:
        UserError: policy and demonstrations do not fit each other.
    """
    if chunks is not None:
        check_whole_number("data.chunks", chunks, 1)
    judged = identity(checkpoint)
    policy = load(checkpoint)
    dataset, episodes, pool, says = find(policy)
    check_writable(out)
    result = score_open_loop(policy, dataset, episodes, pool, chunks, says)
    described = {"checkpoint": judged, "versions": versions()}
    report = {"mode": "replay", **result.to_dict(), **described}
    write_json(out / "evaluation.json", report)
    write_replay_report(out, report, policy, result, metrics)
    dataset.close()
    return report
