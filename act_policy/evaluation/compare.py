"""One comparison from end to end: policies from the same initial states until it is decided."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from act_policy.checkpoints.locate import identity
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_choice, check_whole_number, located
from act_policy.evaluation.results import (
    check_writable,
    continue_same,
    summarise,
    write_json,
)
from act_policy.evaluation.rollouts.contest import (
    Contestant,
    open_contestant,
    read_episodes,
    run_contest,
)
from act_policy.evaluation.rollouts.demonstrations import (
    TrainingDemonstrations,
    find_environment,
    refuse_demonstrated,
)
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    build_environment,
    build_in,
)
from act_policy.evaluation.rollouts.smoothness import DemonstratedMotion
from act_policy.evaluation.sections.comparison_report import write_comparison_report
from act_policy.judging.schedule import Schedule, Turn
from act_policy.judging.several import assign_letters, different_pairs
from act_policy.judging.verdict import check_judging
from act_policy.report.verdicts import list_verdicts
from act_policy.sim import episode_steps
from act_policy.system.processes import usable_cores
from act_policy.system.versions import versions
from act_policy.types import Schema

RESULT_FILE, SETUP_FILE, EPISODES = "comparison.json", "setup.json", "episodes"


@dataclass(frozen=True)
class ComparisonConfig:
    """How policies are compared.

    seed: of the first initial state; the others follow.
    episodes: most episodes of each policy.
    margin: a difference of success rates that does not matter, 0 to 1.
    confidence: that all verdicts are right.
    max_steps: end of an episode; None is that of the demonstrations, else the environment's own.
    quality: of the images, fast or exact; None is that of the demonstrations, else fast.
    instruction: the task in words, for the policies that know several.
    """

    seed: int = 1000
    episodes: int = 200
    margin: float = 0.05
    confidence: float = 0.95
    max_steps: int | None = None
    quality: str | None = None
    instruction: str | None = None

    def __post_init__(self) -> None:
        check_whole_number("episodes", self.episodes, 1)
        check_whole_number("seed", self.seed, 0)
        if self.max_steps is not None:
            check_whole_number("max_steps", self.max_steps, 1)
        if self.quality is not None:
            check_choice("quality", self.quality, ("fast", "exact"))
        check_judging(self.margin, self.confidence)

    @property
    def seeds(self) -> range:
        """One per initial state."""
        return range(self.seed, self.seed + self.episodes)


class Held(NamedTuple):
    """Episodes of several policies, and what follows from them.

    report: what comparison.json holds.
    used: episodes of each policy on which the verdicts rest, in the order of their seeds.
    build: (schema, sizes) -> environment, as in those episodes.
    """

    report: dict[str, Any]
    used: list[list[EpisodeResult]]
    schedule: Schedule
    schema: Schema
    build: Callable[..., Environment]


def compare(
    contestants: Sequence[Contestant],
    out: Path,
    config: ComparisonConfig,
    demonstrations: Sequence[TrainingDemonstrations] = (),
    workers: int | None = None,
    films: int = 6,
    load: Callable[[Contestant], ChunkPolicy] = open_contestant,
    build: Callable[..., Environment] = build_environment,
) -> dict[str, Any]:
    """Compare policies; write comparison.json and report.html to `out`.

    A comparison that was interrupted, or that ended undecided, continues from the episodes in
    `out`, with more `episodes` if they are given.

    Args:
        contestants: two or more, with different names.
        out: folder, made if it does not exist.
        config: how they are compared.
        demonstrations: those of the task that the policies were trained on: their seeds are
            refused, and the policies' smoothness is compared with theirs.
        workers: processes; None takes every usable core.
        films: number of initial states with different outcomes that the report shows.
        load: opens a policy; called here and in each process.
        build: (schema, sizes=None, max_steps=, quality=) -> environment, see build_environment.

    Returns:
        What comparison.json holds.

    Raises:
        UserError: the policies, their environments and the settings do not fit each other, or
            another comparison is in `out`.
        WorkerError: a process failed, died or hung twice at the same episode; what was finished is
            kept.
    """
    workers = usable_cores() if workers is None else check_whole_number("workers", workers, 1)
    check_whole_number("films", films, 0)
    held = hold(contestants, out, config, Schedule, demonstrations, workers, load, build)
    write_json(out / RESULT_FILE, held.report)
    write_comparison_report(
        out, held.report, held.used, held.schedule, held.schema, held.build, workers, films
    )
    return held.report


def hold(
    contestants: Sequence[Contestant],
    out: Path,
    config: ComparisonConfig,
    make_schedule: Callable[[int, int, float, float], Schedule],
    demonstrations: Sequence[TrainingDemonstrations],
    workers: int,
    load: Callable[[Contestant], ChunkPolicy],
    build: Callable[..., Environment],
) -> Held:
    """Run the episodes that the schedule asks for, and judge; for the rest see `compare`."""
    _check_names(contestants)
    compared = [identity(contestant.checkpoint) for contestant in contestants]
    policies = _open(contestants, load)
    contestants = [_settled(one, policy) for one, policy in zip(contestants, policies, strict=True)]
    for one, policy in zip(contestants, policies, strict=True):
        with located(f"policies: {one.name}"):
            policy.schema.task_index(config.instruction)  # refuses an unknown task
    schemas = {one.name: policy.schema for one, policy in zip(contestants, policies, strict=True)}
    environment = find_environment(schemas, demonstrations)
    config = _as_recorded(config, demonstrations, environment)
    seen = set().union(*(one.seeds for one in demonstrations))
    refuse_demonstrated(
        config.seeds, seen.union(*(policy.demonstration_seeds for policy in policies))
    )
    check_writable(out)
    setup = _set_up(contestants, compared, config)
    continue_same(out / SETUP_FILE, setup, "comparison")

    schedule = make_schedule(len(contestants), config.episodes, config.margin, config.confidence)
    earlier = read_episodes(out / EPISODES, len(contestants), config.seed)
    for turn, result in sorted(earlier.items(), key=lambda item: item[0].state):
        schedule.record(turn, result.success)
    build = partial(build, max_steps=config.max_steps, quality=config.quality)
    build = partial(build_in, environment, build)
    total = len(contestants) * config.episodes
    with tqdm(total=total, initial=len(earlier), desc="at most", unit="episode") as bar:
        run_contest(
            list(contestants),
            schedule,
            config.seed,
            out / EPISODES,
            workers,
            load,
            build,
            config.instruction,
            on_result=bar.update,
        )
    for contestant, before in zip(contestants, compared, strict=True):
        if identity(contestant.checkpoint) != before:
            raise UserError(
                f"checkpoint={contestant.checkpoint} was replaced while it was compared, as if it "
                "were still being trained; copy it, and compare the copy with another out="
            )

    episodes = read_episodes(out / EPISODES, len(contestants), config.seed)
    used = [
        [episodes[Turn(policy, state)] for state in range(schedule.states_used(policy))]
        for policy in range(len(contestants))
    ]
    report = _report(contestants, policies, compared, used, schedule, config, demonstrations)
    report["environment"] = environment
    return Held(report, used, schedule, policies[0].schema, build)


def _check_names(contestants: Sequence[Contestant]) -> None:
    names = [contestant.name for contestant in contestants]
    if len(names) < 2:
        raise UserError(f"policies: found {len(names)}, expected two or more to compare")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(
            f"policies: {', '.join(twice)} is there twice; give different settings, or name="
        )


def _open(
    contestants: Sequence[Contestant], load: Callable[[Contestant], ChunkPolicy]
) -> list[ChunkPolicy]:
    """Open each checkpoint once; refuse what cannot be executed before any process starts."""
    opened: dict[Path, ChunkPolicy] = {}
    for contestant in contestants:
        if contestant.checkpoint not in opened:
            opened[contestant.checkpoint] = load(contestant)
        contestant.executor(opened[contestant.checkpoint])
    return [opened[contestant.checkpoint] for contestant in contestants]


def _settled(contestant: Contestant, policy: ChunkPolicy) -> Contestant:
    """Fill in the policy's own execution, which another command may change meanwhile."""
    used = contestant.executor(policy).execution
    return replace(
        contestant,
        execute_steps=used.execute_steps,
        ensemble_coefficient=used.ensemble_coefficient,
    )


def _as_recorded(
    config: ComparisonConfig, demonstrations: Sequence[TrainingDemonstrations], environment: str
) -> ComparisonConfig:
    """Fill in what is None as the demonstrations were recorded, which must be all the same way."""
    own = {"max_steps": episode_steps(environment), "quality": "fast"}
    settled = asdict(config)
    for name, default in own.items():
        if settled[name] is not None:
            continue
        recorded = {one.config[name] for one in demonstrations if one.config.get(name)}
        if len(recorded) > 1:
            listed = " and ".join(map(str, sorted(recorded)))
            raise UserError(f"{name}: the policies' demonstrations have {listed}; give {name}=")
        settled[name] = next(iter(recorded), default)
    return ComparisonConfig(**settled)


def _set_up(
    contestants: Sequence[Contestant], compared: Sequence[dict[str, Any]], config: ComparisonConfig
) -> dict[str, Any]:
    """What must stay the same when a comparison is continued."""
    settings = asdict(config)
    del settings["episodes"]
    policies = [
        {
            "sha256": one["sha256"],
            "execute_steps": contestant.execute_steps,
            "ensemble_coefficient": contestant.ensemble_coefficient,
        }
        for contestant, one in zip(contestants, compared, strict=True)
    ]
    return {"policies": policies, **settings}


def _report(
    contestants: Sequence[Contestant],
    policies: Sequence[ChunkPolicy],
    compared: Sequence[dict[str, Any]],
    used: Sequence[Sequence[EpisodeResult]],
    schedule: Schedule,
    config: ComparisonConfig,
    demonstrations: Sequence[TrainingDemonstrations],
) -> dict[str, Any]:
    judged = schedule.judged
    summaries = [summarise(results) for results in used]
    letters = assign_letters(
        [summary["success_rate"] for summary in summaries], different_pairs(judged)
    )
    actions = [action for one in demonstrations[:1] for action in one.actions]
    motion = DemonstratedMotion.measure(actions) if actions else None
    shown = []
    for i, contestant in enumerate(contestants):
        smoothness = None
        if motion is not None:
            every = contestant.executor(policies[i]).execute_steps
            smoothness = motion.compare([one.actions for one in used[i]], every)._asdict()
        shown.append(
            {
                "name": contestant.name,
                "checkpoint": compared[i],
                "execute_steps": contestant.execute_steps,
                "ensemble_coefficient": contestant.ensemble_coefficient,
                "letters": letters[i],
                "smoothness": smoothness,
                **summaries[i],
            }
        )
    names = [contestant.name for contestant in contestants]
    return {
        "mode": "comparison",
        "decided": schedule.is_decided,
        "verdicts": list_verdicts(names, schedule, config.margin),
        "policies": shown,
        "demonstrations": None if motion is None else motion.compare(actions, 1)._asdict(),
        "confidence_of_each_pair": schedule.of_each,
        "settings": asdict(config),
        "versions": versions(),
    }
