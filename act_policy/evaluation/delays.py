"""The price of late answers: every way of executing chunks, at every delay, from the same states.

    python -m act_policy.evaluation.delays runs/plain [runs/knowing ...] \
        --demonstrations data/mine --delays 0 2 4 8 10 --episodes 100 --out reports/delays

All of it is in lock step (`rollouts/delays.py`), so the figures do not depend on the machine. A
policy that was trained with committed actions is told them by the asynchronous methods. Writes
delays.json and delays.png and prints the tables. The same command goes on after an interruption,
and with more delays, episodes or policies.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError
from act_policy.evaluation.evaluate import build_displaced
from act_policy.evaluation.results import check_writable, summarise, write_json
from act_policy.evaluation.rollouts.contest import episode_path, read_episodes
from act_policy.evaluation.rollouts.delays import Delay, gradual_dimensions, make_executor
from act_policy.evaluation.rollouts.demonstrations import find_demonstrations, refuse_demonstrated
from act_policy.evaluation.rollouts.kept import write_episode
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    build_environment,
    play_episode,
)
from act_policy.evaluation.rollouts.seams import measure_motion
from act_policy.evaluation.sections.delays_report import draw_cells, tabulate_cells
from act_policy.judging.schedule import Turn
from act_policy.sim import episode_steps
from act_policy.sim.displacement import Displacement
from act_policy.sim.rendering import choose_gl_backend
from act_policy.system.processes import Handler, run_jobs, usable_cores
from act_policy.system.versions import versions
from act_policy.types import Schema

RESULT_FILE, PICTURE_FILE = "delays.json", "delays.png"
ENSEMBLE_COEFFICIENT = 0.01
"""The original ACT's."""


class Method(NamedTuple):
    """A way of executing chunks; `Delay` describes the fields."""

    stop_and_wait: bool = False
    blend_steps: int | None = None
    ensemble_coefficient: float | None = None


METHODS = {
    "stop and wait": Method(stop_and_wait=True),
    "asynchronous": Method(blend_steps=0),
    "blending": Method(blend_steps=4),
    "ensembling": Method(ensemble_coefficient=ENSEMBLE_COEFFICIENT),
}


@dataclass(frozen=True)
class Cell:
    """One policy, executed in one way at one delay.

    displace_at: step at which the objects are moved; None leaves them where they are.
    """

    policy: Path
    method: str
    delay: int
    execute_steps: int | None = None
    displace_at: int | None = None

    @property
    def lateness(self) -> Delay:
        """How late answers are, and what the arm does meanwhile."""
        method = METHODS[self.method]
        return Delay(self.delay, method.stop_and_wait, method.blend_steps)

    @property
    def settings(self) -> tuple[int | None, float | None]:
        """execute_steps and ensemble_coefficient."""
        coefficient = METHODS[self.method].ensemble_coefficient
        return (self.execute_steps if coefficient is None else None), coefficient

    def folder(self, out: Path) -> Path:
        """Where its episodes are kept."""
        name: str = identity(self.policy)["sha256"][:12]
        how = f"{self.method.replace(' ', '_')}_delay_{self.delay}"
        if self.execute_steps is not None:
            how += f"_execute_{self.execute_steps}"
        if self.displace_at is not None:
            how += f"_displace_{self.displace_at}"
        return out / "episodes" / name / how


def measure_cells(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    out: Path,
    build: Callable[[Schema], Environment],
    workers: int,
    load: Callable[[Path], ChunkPolicy] = open_policy,
) -> dict[Cell, list[EpisodeResult]]:
    """Run the episodes that `out` does not hold yet; each is written as it finishes.

    Raises:
        UserError: settings do not fit a policy, or a policy its environment.
        WorkerError: a process failed, died or hung twice at the same episode; what was finished is
            kept.
    """
    folders = {cell: cell.folder(out) for cell in cells}
    first = seeds[0]

    def read() -> dict[Cell, dict[int, EpisodeResult]]:
        kept = {cell: read_episodes(folder, 1, first) for cell, folder in folders.items()}
        return {c: {first + turn.state: one for turn, one in k.items()} for c, k in kept.items()}

    there = read()
    jobs = [(cell, seed) for cell in cells for seed in seeds if seed not in there[cell]]
    with tqdm(total=len(jobs), desc="episodes", unit="episode") as bar:

        def keep(job: tuple[Cell, int], result: EpisodeResult) -> None:
            cell, seed = job
            write_episode(episode_path(folders[cell], Turn(0, seed - first), seed), result)
            bar.update()

        run_jobs(
            partial(_player, load, build),
            jobs,
            workers,
            on_result=keep,
            mark_rerun=EpisodeResult.mark_rerun,
        )
    there = read()
    return {cell: [there[cell][seed] for seed in seeds] for cell in cells}


def _player(
    load: Callable[[Path], ChunkPolicy], build: Callable[[Schema], Environment]
) -> Handler[tuple[Cell, int], EpisodeResult]:
    """Prepare a worker process: each policy is opened once."""
    opened, environment_of = cache(load), cache(build)

    def play(job: tuple[Cell, int], alive: Callable[[], None]) -> EpisodeResult:
        cell, seed = job
        policy = opened(cell.policy)
        executor = make_executor(policy, *cell.settings, cell.lateness, seed)
        return play_episode(environment_of(policy.schema), executor, seed, alive)

    return play


def summarise_cells(
    results: Mapping[Cell, Sequence[EpisodeResult]], demonstrations: Sequence[Any], schema: Schema
) -> list[dict[str, Any]]:
    """Success and motion of each cell, as values for JSON; the schema is that of the policies."""
    gradual = gradual_dimensions(schema)
    return [
        {
            "policy": str(cell.policy),
            "method": cell.method,
            "delay": cell.delay,
            **summarise(episodes),
            "motion": measure_motion(
                episodes, demonstrations, cell.lateness.timing.blend_steps, gradual
            )._asdict(),
        }
        for cell, episodes in results.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, write delays.json and print the tables."""
    options = _parser().parse_args(arguments)
    try:
        _measure(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _measure(options: argparse.Namespace) -> None:
    choose_gl_backend()  # once, here: the worker processes inherit it
    shown = find_demonstrations({}, options.demonstrations)
    assert shown is not None  # the folder is required
    seeds = list(range(options.seed, options.seed + options.episodes))
    cells = [
        Cell(policy, method, delay, options.execute_steps, options.displace_at)
        for policy in options.policies
        for method in options.methods
        for delay in options.delays
    ]
    opened = {policy: open_policy(policy) for policy in options.policies}
    for cell in cells:  # refuse before any process starts
        policy = opened[cell.policy]
        make_executor(policy, *cell.settings, cell.lateness, options.seed)
        refuse_demonstrated(seeds, {*policy.demonstration_seeds, *shown.seeds})
    environments = {policy.schema.environment for policy in opened.values()}
    if len(environments) > 1:
        raise UserError(
            f"the policies act in different environments ({', '.join(sorted(environments))}); "
            "measure those of one environment at a time"
        )
    (environment,) = environments
    build: Callable[..., Environment] = partial(
        build_environment,
        max_steps=shown.config.get("max_steps") or episode_steps(environment),
        quality=shown.config.get("quality", "fast"),
    )
    if options.displace_at is not None:
        build = partial(build_displaced, build, Displacement(options.displace_at))
    check_writable(options.out)
    results = measure_cells(cells, seeds, options.out, build, options.workers or usable_cores())
    schema = next(iter(opened.values())).schema
    summaries = summarise_cells(results, shown.actions, schema)
    settings = {name: value for name, value in vars(options).items() if name != "workers"}
    write_json(
        options.out / RESULT_FILE,
        {
            "mode": "delays",
            "environment": environment,
            "cells": summaries,
            "checkpoints": [identity(policy) for policy in options.policies],
            "settings": {name: _plain(value) for name, value in settings.items()},
            "versions": versions(),
        },
    )
    print(tabulate_cells(summaries))
    draw_cells(summaries, options.out / PICTURE_FILE)
    print(f"\nwritten: {options.out / RESULT_FILE} and {PICTURE_FILE}")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m act_policy.evaluation.delays")
    parser.add_argument("policies", nargs="+", type=Path, help="of the same environment")
    parser.add_argument("--demonstrations", required=True, help="folder they were trained on")
    parser.add_argument(
        "--out", required=True, type=Path, help="folder for episodes and delays.json"
    )
    parser.add_argument("--delays", nargs="+", type=int, default=[0, 2, 4, 6, 8, 10])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first initial state")
    parser.add_argument("--execute-steps", type=int, help="of each chunk; else the policy's own")
    parser.add_argument("--displace-at", type=int, help="step at which the objects move by 3 cm")
    parser.add_argument("--workers", type=int, help="parallel processes; else every usable core")
    return parser


if __name__ == "__main__":
    sys.exit(main())
