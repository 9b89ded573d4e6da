"""Open-loop error: what is predicted from demonstrated observations against what was done.

No simulator and no robot is needed. A small error does not prove that a policy works, since its
own mistakes never reach it here; one that is no smaller than a baseline's proves that it does not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.data.dataset import DemonstrationDataset, observation_at
from act_policy.data.loading.batches import chunk_rows
from act_policy.data.statistics import check_finite, compute_statistics
from act_policy.data.tasks import task_ends
from act_policy.errors import UserError
from act_policy.evaluation.open_loop.baselines import Held, HoldStill, NearestDemonstration, Pool
from act_policy.report.pieces import format_count
from act_policy.types import Schema, stack_observations

POLICY, HOLD_STILL, NEAREST = "policy", "hold_still", "nearest_demonstration"
BATCH = 16


class Chunk(NamedTuple):
    """One scored prediction: predicted (k, a) at a step of an episode."""

    episode: int
    step: int
    predicted: np.ndarray


@dataclass(frozen=True)
class OpenLoop:
    """Mean absolute errors in physical units, of the policy and of two baselines.

    schema: of the policy.
    dataset: the demonstrations.
    episodes: indices of those that were scored.
    says: which they are, in words.
    errors: who predicted -> float64 (k, a); NaN at a horizon that no episode is long enough for.
    counts: int64 (k,), how many of the policy's predictions each horizon's error is the mean of.
    scale: float64 (a,), the standard deviation of the actions of the pool, or of the episodes.
    held: action name -> what holding still repeats of it.
    pool: says which demonstrations the nearest is sought among; None where it is not.
    chunks: every chunk that the policy predicted.
    """

    schema: Schema
    dataset: DemonstrationDataset
    episodes: list[int]
    says: str
    errors: dict[str, np.ndarray]
    counts: np.ndarray
    scale: np.ndarray
    held: dict[str, Held]
    pool: str | None
    chunks: list[Chunk]

    def of_joints(self, name: str) -> np.ndarray:
        """float64 (a,), the mean over all predicted steps."""
        seen = self.counts > 0
        mean: np.ndarray = np.average(self.errors[name][seen], axis=0, weights=self.counts[seen])
        return mean

    def normalised(self, name: str) -> float:
        """One number: the mean over the joints of error / standard deviation."""
        return float((self.of_joints(name) / self.scale).mean())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for evaluation.json."""
        names = self.schema.action_names
        return {
            "data": {
                "path": str(self.dataset.folder),
                "which": self.says,
                "episodes": [self.dataset.episodes[episode].name for episode in self.episodes],
                "chunks": len(self.chunks),
            },
            "units": dict(self.schema.actions),
            "hold_still_repeats": self.held,
            "nearest_demonstration_from": self.pool,
            "errors": {
                who: {
                    "normalised": self.normalised(who),
                    "joints": dict(zip(names, self.of_joints(who).tolist(), strict=True)),
                    "horizon": {
                        name: [None if np.isnan(e) else e for e in column.tolist()]
                        for name, column in zip(names, errors.T, strict=True)
                    },
                }
                for who, errors in self.errors.items()
            },
        }


def score_open_loop(
    policy: ChunkPolicy,
    dataset: DemonstrationDataset,
    episodes: Sequence[int],
    pool: Pool | None,
    chunks: int | None = None,
    says: str | None = None,
) -> OpenLoop:
    """Predict a chunk from each observation of some episodes and compare with what was done.

    Args:
        policy: its predict_chunk takes a batch, as those of ACTPolicy and OnnxPolicy do.
        dataset: the demonstrations, with the policy's cameras.
        episodes: indices of the episodes to score.
        pool: the demonstrations among which the nearest is sought; None leaves this baseline out.
        chunks: about how many to predict, evenly spread; None predicts at every step.
        says: which episodes they are, in words; None counts them.

    Raises:
        UserError: policy and demonstrations differ, a value is not finite, or a frame cannot be
            decoded.
    """
    check_same(policy.schema, dataset)
    check_finite(dataset, episodes)
    steps = int(sum(dataset.lengths[episode] for episode in episodes))
    stride = 1 if chunks is None else max(1, -(-steps // chunks))
    judged_by = Pool(dataset, episodes, "") if pool is None else pool
    statistics = compute_statistics(judged_by.dataset, judged_by.episodes)
    hold = HoldStill(policy.schema, statistics.action_kinds)
    length = policy.chunk_length
    # images alone say nothing of the nearest state
    comparable = pool is not None and policy.schema.state_size > 0
    nearest = NearestDemonstration(pool, length) if pool is not None and comparable else None
    judged = (POLICY, HOLD_STILL) if nearest is None else (POLICY, HOLD_STILL, NEAREST)
    sums = {who: np.zeros((length, policy.schema.action_size)) for who in judged}
    counts = {who: np.zeros((length, 1), np.int64) for who in judged}
    made: list[Chunk] = []
    with tqdm(total=-(-steps // stride), desc="open loop", unit="chunk", disable=None) as bar:
        for episode, taken in _batches(dataset, episodes, stride):
            actions, states = dataset.action(episode), dataset.state(episode)
            observed = [observation_at(dataset, episode, step) for step in taken.tolist()]
            ends = np.full(len(actions), len(actions) - 1)
            if policy.schema.chooses_task:
                ends = task_ends(dataset, episode)
            rows, is_pad = chunk_rows(taken, ends[taken], length)
            predicted = {
                POLICY: policy.predict_chunk(stack_observations(observed)),
                HOLD_STILL: hold.predict(states, actions, taken, length),
            }
            if nearest is not None:
                predicted[NEAREST] = nearest.predict(dataset, episode, states[taken])
            for who, chunk in predicted.items():
                valid = ~is_pad[..., None] & np.isfinite(chunk).all(axis=-1, keepdims=True)
                error = np.abs(np.where(valid, chunk, 0.0) - np.where(valid, actions[rows], 0.0))
                sums[who] += error.sum(axis=0, dtype=np.float64)
                counts[who] += valid.sum(axis=0)
            made += map(Chunk, [episode] * len(taken), taken.tolist(), predicted[POLICY])
            bar.update(len(taken))
    with np.errstate(invalid="ignore"):  # 0 / 0 where no episode is long enough
        errors = {who: sums[who] / counts[who] for who in sums}
    return OpenLoop(
        schema=policy.schema,
        dataset=dataset,
        episodes=[int(episode) for episode in episodes],
        says=says or format_count(len(episodes), "episode"),
        errors=errors,
        counts=counts[POLICY][:, 0],
        scale=statistics.scale(statistics.action),
        held=hold.repeats,
        pool=None if pool is None or nearest is None else pool.says,
        chunks=made,
    )


def check_same(schema: Schema, dataset: DemonstrationDataset) -> None:
    """Raise UserError unless demonstrations are what a policy with this schema was trained on."""
    if differences := schema.differences(dataset.schema):
        raise UserError(
            f"the policy (here) and the demonstrations in {dataset.folder} (there) differ: "
            f"{'; '.join(differences)}"
        )


def _batches(
    dataset: DemonstrationDataset, episodes: Sequence[int], stride: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (episode, steps) in order; every stride-th step counted through all episodes."""
    first = 0
    for episode in episodes:
        taken = np.arange(-first % stride, int(dataset.lengths[episode]), stride)
        first += int(dataset.lengths[episode])
        for start in range(0, len(taken), BATCH):
            yield int(episode), taken[start : start + BATCH]
