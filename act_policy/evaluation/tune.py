"""Which way to execute its chunks suits a policy: candidates race in simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from act_policy.checkpoints.execution_file import write_execution
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_whole_number
from act_policy.evaluation.compare import ComparisonConfig, hold
from act_policy.evaluation.results import write_json
from act_policy.evaluation.rollouts.contest import Contestant, open_contestant
from act_policy.evaluation.rollouts.demonstrations import TrainingDemonstrations
from act_policy.evaluation.rollouts.run import Environment, build_environment
from act_policy.evaluation.sections.comparison_report import write_comparison_report
from act_policy.execution import Execution
from act_policy.judging.race import Race
from act_policy.report.pieces import format_count
from act_policy.system.processes import usable_cores

RESULT_FILE = "tuning.json"
HALVINGS = 5
"""Number of execute_steps that are tried: the whole chunk, half of it and so on."""


@dataclass(frozen=True)
class TuningConfig(ComparisonConfig):
    """How candidates are compared; the seeds are for tuning alone.

    Success on initial states by which something was chosen is too good a figure: the default seeds
    of evaluations and comparisons are refused.
    """

    seed: int = 50_000
    episodes: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        evaluated = ComparisonConfig().seeds
        if set(self.seeds) & set(evaluated):
            raise UserError(
                f"seed={self.seed}: evaluations use {evaluated[0]} to {evaluated[-1]}, and success "
                "there would then be measured on states by which the execution was chosen; choose "
                "other seeds"
            )


def list_candidates(
    chunk_length: int,
    own: Execution,
    execute_steps: Sequence[int] | None,
    ensemble_coefficients: Sequence[float],
) -> list[Execution]:
    """List what is tried, beginning with that which asks the policy least often.

    Args:
        chunk_length: of the policy.
        own: the policy's present execution, which takes part.
        execute_steps: None halves the chunk again and again.
        ensemble_coefficients: one candidate each; may be empty.

    Raises:
        UserError: a value is impossible, or there is nothing to choose from.
    """
    if execute_steps is None:
        execute_steps = [chunk_length >> i for i in range(HALVINGS) if chunk_length >> i]
    found = {Execution(steps) for steps in execute_steps}
    found |= {Execution(None, m) for m in ensemble_coefficients}
    if own.ensemble_coefficient is None:
        found.add(Execution(own.execute_steps or chunk_length))
    else:
        found.add(Execution(None, own.ensemble_coefficient))
    if len(found) < 2:
        raise UserError(
            "execute_steps, ensemble_coefficients: there is one candidate; name others to try"
        )
    return sorted(found, key=lambda one: (-(one.execute_steps or 0), one.ensemble_coefficient or 0))


def tune(
    contestant: Contestant,
    out: Path,
    config: TuningConfig,
    execute_steps: Sequence[int] | None = None,
    ensemble_coefficients: Sequence[float] = (0.01,),
    demonstrations: Sequence[TrainingDemonstrations] = (),
    workers: int | None = None,
    films: int = 6,
    load: Callable[[Contestant], ChunkPolicy] = open_contestant,
    build: Callable[..., Environment] = build_environment,
) -> dict[str, Any]:
    """Let candidates race; keep the winner in the run or bundle as its default execution.

    The winner is the candidate with the highest success rate among those that were not beaten, and
    among equal ones that which asks the policy least often. An interrupted race goes on from the
    episodes in `out`, which gets tuning.json and report.html.

    `contestant` is the policy; its name and execution do not matter. `list_candidates` describes
    execute_steps and ensemble_coefficients, `compare` the others.

    Returns:
        What tuning.json holds.

    Raises:
        UserError, WorkerError: as `compare`.
    """
    workers = usable_cores() if workers is None else check_whole_number("workers", workers, 1)
    check_whole_number("films", films, 0)
    policy = load(contestant)
    policy.schema.task_index(config.instruction)  # refuses an unknown task
    candidates = list_candidates(
        policy.chunk_length, policy.execution, execute_steps, ensemble_coefficients
    )
    contestants = [
        replace(
            contestant,
            name=str(one),
            execute_steps=one.execute_steps,
            ensemble_coefficient=one.ensemble_coefficient,
        )
        for one in candidates
    ]
    race: list[Race] = []

    def make_race(policies: int, states: int, margin: float, confidence: float) -> Race:
        race.append(Race(policies, states, margin, confidence))
        return race[0]

    held = hold(contestants, out, config, make_race, demonstrations, workers, load, build)
    left = race[0].left
    rates = [one["success_rate"] for one in held.report["policies"]]
    best = max(left, key=lambda i: (rates[i], -i))
    seeds = [one.seed for one in held.used[best]]
    reason = explain(candidates, rates, left, best, seeds, config.instruction)
    chosen = replace(candidates[best], reason=reason)
    kept = write_execution(contestant.checkpoint, chosen)
    of_the_best = [v for v in held.report["verdicts"] if str(candidates[best]) in (v["a"], v["b"])]
    report = {
        **held.report,
        "mode": "tuning",
        "chosen": chosen.to_dict(),
        "kept_in": None if kept is None else str(kept),
        "left": [str(candidates[i]) for i in left],
        "verdicts": of_the_best,
    }
    write_json(out / RESULT_FILE, report)
    write_comparison_report(
        out, report, held.used, held.schedule, held.schema, held.build, workers, films
    )
    return report


def explain(
    candidates: Sequence[Execution],
    rates: Sequence[float],
    left: Sequence[int],
    best: int,
    seeds: Sequence[int],
    task: str | None = None,
) -> str:
    """Say in words why the best candidate was chosen, and for which task of several."""
    states = format_count(len(seeds), "initial state") + f" of {task!r}" * (task is not None)
    parts = [f"tuned: {rates[best]:.0%} of {states} succeeded (seeds {seeds[0]} to {seeds[-1]})"]
    if beaten := [str(one) for i, one in enumerate(candidates) if i not in left]:
        parts.append(f"worse: {', '.join(beaten)}")
    lower = [i for i in left if rates[i] < rates[best]]
    equal = [i for i in left if i > best and rates[i] == rates[best]]
    for others, why in (
        (lower, "it succeeded most often"),
        (equal, "it asks the policy less often"),
    ):
        if others:
            named = ", ".join(str(candidates[i]) for i in others)
            parts.append(f"not told apart from {named}, chosen because {why}")
    return "; ".join(parts)
