"""The demonstrations of a training run, read and split as the run read and split them.

`config` is everywhere the run's config.yaml as plain values, empty where there is no run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.lerobot.hub import is_at_hand
from act_policy.data.selection.demonstrations import (
    Demonstrations,
    RunReading,
    choose_episodes,
    open_as_run,
)
from act_policy.errors import UserError
from act_policy.evaluation.open_loop.baselines import Pool
from act_policy.evaluation.open_loop.score import OpenLoop, score_open_loop
from act_policy.report.pieces import format_count
from act_policy.types import Schema

SETTING = "data.episodes"


class RunData(NamedTuple):
    """Indices of the episodes that a run was trained on, and of those that it held out."""

    dataset: Demonstrations
    trained: list[int]
    held_out: list[int]

    @property
    def says_held_out(self) -> str:
        """For the report."""
        return f"{format_count(len(self.held_out), 'episode')} held out of training"

    @property
    def pool(self) -> Pool:
        """For the nearest demonstration."""
        says = f"the {format_count(len(self.trained), 'episode')} that the policy was trained on"
        return Pool(self.dataset, self.trained, says)


class Scored(NamedTuple):
    """Which demonstrations a policy is scored on.

    dataset: with the policy's cameras, in its order.
    episodes: indices of those to score.
    pool: demonstrations among which the nearest is sought; None where there is one episode only.
    says: which episodes they are, in words; None counts them.
    """

    dataset: DemonstrationDataset
    episodes: list[int]
    pool: Pool | None
    says: str | None = None


def open_run_data(config: Mapping[str, Any], folder: str | None) -> RunData | None:
    """Open what a run was trained on; None where it is not there.

    Args:
        config: of the run.
        folder: where its demonstrations are now; None is where they were.
    """
    if not config.get("data"):
        return None
    data_config: dict[str, Any] = {"batch_size": 1, **config["data"]}
    data_config["path"] = folder or data_config.get("path")
    if not data_config["path"] or not is_at_hand(data_config["path"]):
        return None
    # it needs torch, as a run does
    from act_policy.data.loading.datamodule import DemonstrationDataModule

    data = DemonstrationDataModule.from_config(data_config, 1, config.get("seed", 0))
    return RunData(data.dataset, data.train_episodes.tolist(), data.held_out_episodes.tolist())


def score_held_out(
    policy: ChunkPolicy, config: Mapping[str, Any], folder: str | None
) -> OpenLoop | None:
    """Score 200 chunks of the episodes that the run held out; None where there are none.

    config and folder are those of `open_run_data`.
    """
    try:
        run = open_run_data(config, folder)
        if run is None or not run.held_out:
            return None
        return score_open_loop(
            policy, run.dataset, run.held_out, run.pool, chunks=200, says=run.says_held_out
        )
    except UserError as error:  # the rollouts are done, and worth their report
        print(f"the report has no open-loop error: {error}")
        return None


def scored_data(
    schema: Schema,
    path: str | None,
    episodes: Sequence[int | str] | None,
    reading: RunReading,
    run: RunData | None,
) -> Scored:
    """Choose the demonstrations that a policy is scored on.

    Args:
        schema: of the policy; its cameras are read.
        path: folder; None is the run's own.
        episodes: which, by index on disk or by name, as in training; None is those that the run
            held out, and all of another folder.
        reading: how another folder is read and what is selected of it but episodes.
        run: what the policy was trained on, where it is known.

    Raises:
        UserError: there are none, or the run held none out.
    """
    if episodes is not None and not episodes:
        raise UserError(f"{SETTING}={episodes}: expected a list of indices or names of episodes")
    if run is not None and (path is None or run.dataset.folder.resolve() == Path(path).resolve()):
        if episodes is None and not run.held_out:
            raise UserError(
                f"the run held out none of its episodes in {run.dataset.folder}; give "
                "data.episodes=[0] to score episodes that it was trained on, or another data.path"
            )
        chosen, says = run.held_out, run.says_held_out
        if episodes is not None:
            chosen = choose_episodes(SETTING, episodes, run.dataset)
            says = format_count(len(chosen), "chosen episode")
            says += f", {len(set(chosen) & set(run.trained))} of which were trained on"
        pool = run.pool if len(run.trained) > 1 else choose_pool(run.dataset, chosen)
        return Scored(run.dataset, chosen, pool, says)
    if path is None:
        raise UserError(
            "the demonstrations that the policy was trained on were not found; give "
            "data.path=FOLDER"
        )
    dataset = open_as_run(path, schema, reading)
    chosen = list(range(len(dataset.episodes)))
    if episodes is not None:
        chosen = choose_episodes(SETTING, episodes, dataset)
    fits = run is not None and not schema.differences(run.dataset.schema)
    pool = run.pool if run is not None and fits else choose_pool(dataset, chosen)
    return Scored(dataset, chosen, pool)


def choose_pool(dataset: DemonstrationDataset, episodes: list[int]) -> Pool | None:
    """Choose the episodes that are not scored; where all are, every one but the scored one itself.

    None where the dataset has one episode only.
    """
    if len(dataset.episodes) == 1:
        return None
    if rest := sorted(set(range(len(dataset.episodes))) - set(episodes)):
        says = f"the {format_count(len(rest), 'other episode')} of {dataset.folder}"
        return Pool(dataset, rest, says)
    return Pool(dataset, episodes, "the other episodes scored here")
