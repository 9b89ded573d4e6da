"""One evaluation without a simulator: a policy open loop on demonstrations, with its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.data.dataset import DemonstrationDataset
from act_policy.errors import UserError, check_whole_number
from act_policy.evaluation.open_loop.baselines import Pool
from act_policy.evaluation.open_loop.run_data import Scored
from act_policy.evaluation.open_loop.score import score_open_loop
from act_policy.evaluation.results import check_writable, write_json
from act_policy.evaluation.sections.html_report import write_replay_report
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
    dataset, chosen, shown, says = find(policy)
    episodes = check_episodes(dataset, chosen)
    check_writable(out)
    pool = choose_pool(dataset, episodes) if shown is None else shown
    result = score_open_loop(policy, dataset, episodes, pool, chunks, says)
    report = {
        "mode": "replay",
        **result.to_dict(),
        "checkpoint": judged,
        "versions": versions(),
    }
    write_json(out / "evaluation.json", report)
    write_replay_report(out, report, policy, result, metrics)
    dataset.close()
    return report


def check_episodes(dataset: DemonstrationDataset, chosen: list[int] | None) -> list[int]:
    """Return the chosen episodes, or all; UserError for one that is not there."""
    every = range(len(dataset.episodes))
    if chosen is None:
        return list(every)
    if not chosen or any(episode not in every for episode in chosen):
        raise UserError(
            f"data.episodes={chosen}: expected indices of episodes in {dataset.folder}, "
            f"0 to {len(dataset.episodes) - 1}"
        )
    return sorted(set(chosen))


def choose_pool(dataset: DemonstrationDataset, episodes: list[int]) -> Pool | None:
    """Choose the episodes that are not scored; where all are, every one but the scored one itself.

    None where the dataset has one episode only.
    """
    if len(dataset.episodes) == 1:
        return None
    rest = sorted(set(range(len(dataset.episodes))) - set(episodes))
    if rest:
        return Pool(dataset, rest, f"the {len(rest)} other episodes of {dataset.folder}")
    return Pool(dataset, episodes, "the other episodes scored here")
