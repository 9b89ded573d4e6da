"""One suite from end to end: a policy in every row, from the same initial states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_whole_number, located
from act_policy.evaluation.evaluate import EvaluationConfig, build_displaced
from act_policy.evaluation.results import (
    check_writable,
    continue_same,
    summarise,
    write_json,
)
from act_policy.evaluation.rollouts.delays import make_executor
from act_policy.evaluation.rollouts.demonstrations import (
    TrainingDemonstrations,
    refuse_demonstrated,
)
from act_policy.evaluation.rollouts.disturbance import UNDISTURBED, Disturbance
from act_policy.evaluation.rollouts.kept import read_episode, write_episode
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    Rollout,
    build_environment,
    evaluate_policy,
)
from act_policy.evaluation.rollouts.suite_rows import Suite
from act_policy.evaluation.sections.suite_report import write_suite_report
from act_policy.intervals import mean_interval
from act_policy.judging.difference import Counts, bound_difference, count_pairs
from act_policy.system.processes import usable_cores
from act_policy.system.versions import versions

RESULT_FILE, SETUP_FILE, EPISODES, PICTURES = "suite.json", "setup.json", "episodes", "pictures"


def run_suite(
    checkpoint: Path,
    out: Path,
    suite: Suite,
    config: EvaluationConfig,
    demonstrations: TrainingDemonstrations | None = None,
    workers: int | None = None,
    load: Callable[[Path], ChunkPolicy] = open_policy,
    build: Callable[..., Environment] = build_environment,
) -> dict[str, Any]:
    """Try a policy in every row of a suite; write suite.json and report.html to `out`.

    An interrupted suite continues from the episodes in `out`; a finished one is extended if
    `config` asks for more episodes.

    Args:
        checkpoint: run folder, checkpoint file, bundle, ONNX file, or one of other software.
        out: folder, made if it does not exist.
        suite: rows to try it in.
        config: initial states, execution, and the time limit of rows without their own.
        demonstrations: what the policy was trained on; their seeds are refused.
        workers: number of processes; None takes every usable core.
        load: reads the checkpoint; called here and once in each process.
        build: (schema, sizes=None, max_steps=, quality=) -> environment, see build_environment.

    Returns:
        What suite.json holds.

    Raises:
        UserError: the policy, the rows and the settings do not fit each other, or `out` holds
            another suite.
        WorkerError: a process failed, died or hung twice at the same episode; what was finished is
            kept.
    """
    workers = usable_cores() if workers is None else check_whole_number("workers", workers, 1)
    tried = identity(checkpoint)
    policy = load(checkpoint)
    suite, left_out = suite.fit(policy)
    told = [replace(row, task=row.task or config.instruction) for row in suite.rows]
    suite = suite._replace(rows=tuple(told))
    shown = demonstrations or TrainingDemonstrations([])
    config = config.like(shown.config, policy.schema.environment)
    asked_for = (config.execute_steps, config.ensemble_coefficient)
    used = make_executor(policy, *asked_for, config.lateness, config.seed).execution
    execution = (used.execute_steps, used.ensemble_coefficient)
    config = replace(config, execute_steps=execution[0], ensemble_coefficient=execution[1])
    for row in suite.rows:  # raises before any process starts
        late = row.disturbance.lateness(config.lateness)
        make_executor(policy, *execution, late, config.seed)
        with located(f"suite: row {row.name!r}"):
            policy.schema.task_index(row.task)
    refuse_demonstrated(config.seeds, {*policy.demonstration_seeds, *shown.seeds})
    check_writable(out)
    fixed = asdict(config)
    del fixed["episodes"], fixed["instruction"]  # each row has its own
    setup = {"checkpoint": tried["sha256"], "suite": suite.to_plain(), **fixed}
    continue_same(out / SETUP_FILE, setup, "suite")

    rollouts = _rollouts(suite, config, out)
    paths = {
        (rollout.row, rollout.seed): out / EPISODES / folder / f"seed_{rollout.seed}.npz"
        for folder, rollout in rollouts
    }
    todo = [one for _, one in rollouts if not paths[one.row, one.seed].is_file()]
    make_policy = partial(load, checkpoint)
    build = partial(build, max_steps=config.max_steps, quality=config.quality)
    if config.displacement is not None:
        build = partial(build_displaced, build, config.displacement)
    total = len(rollouts)
    with tqdm(total=total, initial=total - len(todo), desc=suite.name, unit="episode") as bar:

        def keep(rollout: Rollout, result: EpisodeResult) -> None:
            write_episode(paths[rollout.row, rollout.seed], result)
            bar.update()

        evaluate_policy(
            make_policy, build, todo, workers, *execution, config.lateness, on_result=keep
        )
    if identity(checkpoint) != tried:
        raise UserError(
            f"checkpoint={checkpoint} was replaced while it was tried; if it is still being "
            "trained, copy it, and try the copy with another out="
        )
    results = {
        row.name: [read_episode(paths[row.name, seed]) for seed in config.seeds]
        for row in suite.rows
    }
    report = {
        **summarise_suite(suite, results, policy.schema.environment),
        "left_out": left_out,
        "checkpoint": tried,
        "environment": policy.schema.environment,
        "execution": used.to_dict(),
        "settings": asdict(config),
        "versions": versions(),
    }
    write_json(out / RESULT_FILE, report)
    write_suite_report(out, report, [out / PICTURES / f"{i:02d}.png" for i in _number_rows(suite)])
    return report


def _number_rows(suite: Suite) -> range:
    return range(1, len(suite.rows) + 1)


def _rollouts(suite: Suite, config: EvaluationConfig, out: Path) -> list[tuple[str, Rollout]]:
    """List every episode with the name of its row's folder, in the order of running them.

    Rows of one environment take turns, so that after an interruption all of them have about as many
    episodes. Environments follow one another, because a process keeps only a few of them.
    """
    kinds = list(dict.fromkeys((row.environment, row.max_steps) for row in suite.rows))
    episodes = [
        (kinds.index((row.environment, row.max_steps)), seed, number, row)
        for number, row in zip(_number_rows(suite), suite.rows, strict=True)
        for seed in config.seeds
    ]
    return [
        (
            f"{number:02d}",
            Rollout(
                seed,
                environment=row.environment,
                max_steps=row.max_steps,
                disturbance=row.disturbance,
                task=row.task,
                picture=out / PICTURES / f"{number:02d}.png" if seed == config.seed else None,
                row=row.name,
            ),
        )
        for _, seed, number, row in sorted(episodes, key=lambda episode: episode[:3])
    ]


def summarise_suite(
    suite: Suite, results: Mapping[str, Sequence[EpisodeResult]], environment: str
) -> dict[str, Any]:
    """Summarise each row, each group and the whole suite; the means leave the control out.

    Args:
        suite: its rows.
        results: row -> episodes, in the order of their seeds.
        environment: id for rows that do not name one.
    """
    summaries = []
    for row in suite.rows:
        compared = None
        if suite.control is not None and row.name != suite.control:
            compared = compare_pairs(results[suite.control], results[row.name])
        summaries.append(
            {
                "name": row.name,
                "group": row.group,
                "environment": row.environment or environment,
                "disturbance": _list_changes(row.disturbance),
                **summarise(results[row.name]),
                "difference": compared,
            }
        )
    counted = [summary for summary in summaries if summary["name"] != suite.control]
    groups: dict[str, list[dict[str, Any]]] = {}
    for summary in counted:
        groups.setdefault(summary["group"], []).append(summary)
    weights = [1 / len(groups[summary["group"]]) for summary in counted]
    return {
        "mode": "suite",
        "suite": suite.name,
        "control": suite.control,
        "rows": summaries,
        "groups": {name: average(group, [1.0] * len(group)) for name, group in groups.items()},
        "mean_of_rows": average(counted, [1.0] * len(counted)),
        "mean_of_groups": average(counted, weights),
    }


def compare_pairs(control: Sequence[EpisodeResult], row: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Compare episodes from the same initial states: the row's success rate minus the control's.

    With 95% confidence the interval holds the true difference, however often one looks.
    """
    counts = count_pairs(*(np.array([one.success for one in each]) for each in (control, row)))
    last = Counts(*(ended[-1:] for ended in counts))
    low, high = bound_difference(last)
    row_alone, control_alone, _ = (int(ended[0]) for ended in last)
    return {
        "difference": (row_alone - control_alone) / len(row),
        "interval": [float(low[0]), float(high[0])],
        "row_alone": row_alone,
        "control_alone": control_alone,
    }


def average(rows: Sequence[Mapping[str, Any]], weights: Sequence[float]) -> dict[str, Any]:
    """Average the success rates of rows.

    Rows of one environment start from the same initial states, so their episodes are not
    independent. The interval counts them as one row's number of episodes.
    """
    strata: dict[str, tuple[float, float]] = {}  # environment -> weight, weighted rate
    for row, weight in zip(rows, weights, strict=True):
        before = strata.get(row["environment"], (0.0, 0.0))
        strata[row["environment"]] = (
            before[0] + weight,
            before[1] + weight * row["success_rate"],
        )
    of_each = [weight for weight, _ in strata.values()]
    rates = [weighted / weight for weight, weighted in strata.values()]
    episodes = [len(rows[0]["episodes"])] * len(rates)
    rate = sum(weighted for _, weighted in strata.values()) / sum(of_each)
    interval = mean_interval(rates, episodes, of_each)
    return {"rows": len(rows), "success_rate": rate, "interval": list(interval)}


def _list_changes(disturbance: Disturbance) -> dict[str, Any]:
    """Return the fields that differ from no disturbance, flat as in a suite's file."""
    values, usual = asdict(disturbance), asdict(UNDISTURBED)
    looks, usual_looks = values.pop("appearance"), usual.pop("appearance")
    values, usual = values | looks, usual | usual_looks
    return {name: value for name, value in values.items() if value != usual[name]}
