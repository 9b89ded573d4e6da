"""Episodes of several policies from the same initial states, kept as files as they finish."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from act_policy.checkpoints.open import open_policy
from act_policy.checkpoints.source import Source
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.evaluation.rollouts.kept import read_episode, write_episode
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    run_episode,
    tell_task,
)
from act_policy.judging.schedule import Schedule, Turn
from act_policy.system.processes import Handler, run_jobs
from act_policy.types import Schema


@dataclass(frozen=True)
class Contestant:
    """A policy and how its chunks are executed.

    name: in reports.
    checkpoint: of any kind that `open_policy` reads.
    execute_steps: of each chunk.
    ensemble_coefficient: of temporal ensembling. Without either, the policy's own execution counts.
    source: what a checkpoint of other software does not say.
    """

    name: str
    checkpoint: Path
    execute_steps: int | None = None
    ensemble_coefficient: float | None = None
    source: Source = field(default=Source(), hash=False)

    def executor(self, policy: ChunkPolicy) -> ChunkExecutor:
        """Execute its chunks; UserError if the settings do not fit the policy."""
        return ChunkExecutor(policy, self.execute_steps, self.ensemble_coefficient)


def open_contestant(contestant: Contestant) -> ChunkPolicy:
    """Open its checkpoint."""
    return open_policy(contestant.checkpoint, contestant.source)


@dataclass(frozen=True)
class _Job:
    turn: Turn
    seed: int

    def __str__(self) -> str:
        return f"seed {self.seed} of policy {self.turn.policy + 1}"


def run_contest(
    contestants: list[Contestant],
    schedule: Schedule,
    seed: int,
    folder: Path,
    workers: int,
    load: Callable[[Contestant], ChunkPolicy],
    build: Callable[[Schema], Environment],
    task: str | None = None,
    on_result: Callable[[], None] = lambda: None,
) -> None:
    """Run episodes in parallel until the schedule has none left; each is written as it finishes.

    Args:
        contestants: the schedule's policies.
        schedule: gives turns and takes outcomes.
        seed: of the first initial state.
        folder: where `read_episodes` finds the episodes.
        workers: number of processes.
        load: opens a contestant's policy; picklable.
        build: schema -> environment; picklable.
        task: in words, for the policies that know several.
        on_result: called after each episode.

    Raises:
        UserError: policy and environment do not fit each other, or a file cannot be written.
        WorkerError: a process failed, died or hung twice at the same episode.
    """

    def next_jobs(count: int) -> list[_Job]:
        turns = [turn for _ in range(count) if (turn := schedule.next_turn()) is not None]
        return [_Job(turn, seed + turn.state) for turn in turns]

    def keep(job: _Job, result: EpisodeResult) -> list[_Job]:
        write_episode(episode_path(folder, job.turn, result.seed), result)
        schedule.record(job.turn, result.success)
        on_result()
        return next_jobs(1)

    make_handler = partial(_players, contestants, load, build, task)
    run_jobs(
        make_handler,
        next_jobs(workers),
        workers,
        on_result=keep,
        mark_rerun=EpisodeResult.mark_rerun,
    )


def _players(
    contestants: list[Contestant],
    load: Callable[[Contestant], ChunkPolicy],
    build: Callable[[Schema], Environment],
    task: str | None,
) -> Handler[_Job, EpisodeResult]:
    """Prepare a worker process: each checkpoint is opened once, when it is first needed."""
    policies: dict[Path, ChunkPolicy] = {}
    environment_of = cache(build)

    def handle(job: _Job, alive: Callable[[], None]) -> EpisodeResult:
        contestant = contestants[job.turn.policy]
        if contestant.checkpoint not in policies:
            policies[contestant.checkpoint] = load(contestant)
        policy = policies[contestant.checkpoint]
        act = tell_task(contestant.executor(policy).select_action, task)
        return run_episode(environment_of(policy.schema), act, job.seed, alive)

    return handle


def episode_path(folder: Path, turn: Turn, seed: int) -> Path:
    """Return the file of one episode, as `read_episodes` finds it."""
    return folder / f"policy_{turn.policy + 1}_seed_{seed}.npz"


def read_episodes(folder: Path, policies: int, seed: int) -> dict[Turn, EpisodeResult]:
    """Read the episodes that were written from this first seed on.

    Raises:
        UserError: a file there is not an episode.
    """
    found = {}
    for policy in range(policies):
        for path in folder.glob(f"policy_{policy + 1}_seed_*.npz"):
            result = read_episode(path)
            found[Turn(policy, result.seed - seed)] = result
    return found
