"""One evaluation from end to end: policy and baselines on the same seeds, report, videos."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_choice, check_whole_number
from act_policy.evaluation.results import check_writable, summarise, write_json
from act_policy.evaluation.rollouts.baselines import draw_demonstration
from act_policy.evaluation.rollouts.delays import Delay, gradual_dimensions, make_executor
from act_policy.evaluation.rollouts.demonstrations import (
    TrainingDemonstrations,
    find_environment,
    refuse_demonstrated,
)
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    Rollout,
    build_environment,
    build_in,
    evaluate_policy,
)
from act_policy.evaluation.rollouts.seams import measure_motion
from act_policy.evaluation.rollouts.video import write_episode_videos
from act_policy.evaluation.sections.rollout_report import Background, write_rollout_report
from act_policy.sim import episode_steps
from act_policy.sim.displacement import DisplacedObjects, Displacement
from act_policy.system.processes import usable_cores
from act_policy.system.versions import versions

BLACK_IMAGE, REPLAYED = "black_image", "replayed_demonstration"


@dataclass(frozen=True)
class EvaluationConfig:
    """How a policy is tried.

    episodes: number of initial states; their seeds are seed, seed + 1, ...
    execute_steps: of each chunk before the policy is asked again.
    ensemble_coefficient: of temporal ensembling. Without either, the policy's own execution counts.
    delay, stop_and_wait, blend_steps: how late answers are, see `Delay`.
    displace_at, displace_by: step at which the task's objects are moved, and how far in metres;
        None does not move them.
    max_steps: end of an episode; None is that of the demonstrations, else the environment's own.
    quality: of the images, fast or exact; None is that of the demonstrations, else fast.
    instruction: the task in words, for a policy that knows several.
    """

    episodes: int = 100
    seed: int = 1000
    execute_steps: int | None = None
    ensemble_coefficient: float | None = None
    delay: int | tuple[int, int] = 0
    stop_and_wait: bool = False
    blend_steps: int | None = None
    displace_at: int | None = None
    displace_by: float = 0.03
    max_steps: int | None = None
    quality: str | None = None
    instruction: str | None = None

    def __post_init__(self) -> None:
        check_whole_number("episodes", self.episodes, 1)
        check_whole_number("seed", self.seed, 0)
        for name in ("execute_steps", "max_steps"):
            if (value := getattr(self, name)) is not None:
                check_whole_number(name, value, 1)
        if not isinstance(self.ensemble_coefficient, int | float | None):
            raise UserError(
                f"ensemble_coefficient={self.ensemble_coefficient}: expected a number or null"
            )
        if self.quality is not None:
            check_choice("quality", self.quality, ("fast", "exact"))
        _ = self.lateness, self.displacement  # refuse what cannot be

    @property
    def lateness(self) -> Delay:
        """How late answers are, and what the arm does meanwhile."""
        return Delay(self.delay, self.stop_and_wait, self.blend_steps)

    @property
    def displacement(self) -> Displacement | None:
        """When and how far the objects are moved."""
        return (
            None if self.displace_at is None else Displacement(self.displace_at, self.displace_by)
        )

    def like(self, recorded: Mapping[str, Any], environment: str) -> "EvaluationConfig":
        """Fill in what is None as the demonstrations were recorded, `read_recorded_config`."""
        return replace(
            self,
            max_steps=self.max_steps or recorded.get("max_steps") or episode_steps(environment),
            quality=self.quality or recorded.get("quality", "fast"),
        )

    @property
    def seeds(self) -> list[int]:
        """One per initial state."""
        return list(range(self.seed, self.seed + self.episodes))


def evaluate(
    checkpoint: Path,
    out: Path,
    config: EvaluationConfig,
    demonstrations: TrainingDemonstrations | None = None,
    baselines: bool = True,
    videos: int = 3,
    workers: int | None = None,
    background: Background = Background(),  # noqa: B008  it cannot be changed
    load: Callable[[Path], ChunkPolicy] = open_policy,
    build: Callable[..., Environment] = build_environment,
    environment: str = "",
) -> dict[str, Any]:
    """Try a policy and its baselines; write evaluation.json, videos/ and report.html to `out`.

    Args:
        checkpoint: run folder, checkpoint file, bundle, ONNX file, or one of other software.
        out: folder, made if it does not exist.
        config: how it is tried.
        demonstrations: of its instruction; their seeds are refused, and they are replayed as a
            baseline.
        baselines: whether to try a black image and a replayed demonstration on the same seeds.
        videos: number of successes, and of failures, that are filmed.
        workers: processes; None takes every usable core.
        background: what else the report shows.
        load: reads the checkpoint; called here and once in each process.
        build: (schema, sizes=None, max_steps=, quality=) -> environment, see build_environment.
        environment: id, for a policy that does not know its environment; "" is that of the
            demonstrations.

    Returns:
        What evaluation.json holds.

    Raises:
        UserError: the policy, the environment, the seeds and the settings do not fit each other.
        WorkerError: a process failed, died or hung twice at the same episode.
    """
    workers = usable_cores() if workers is None else check_whole_number("workers", workers, 1)
    check_whole_number("videos", videos, 0)
    judged = identity(checkpoint)
    policy = load(checkpoint)
    shown = demonstrations or TrainingDemonstrations([])
    policy.schema.task_index(config.instruction)  # refuses an unknown task
    known = policy.schema.environment or environment
    environment = known or find_environment({"policy": policy.schema}, [shown])
    config = config.like(shown.config, environment)
    # Refuse what cannot be executed before any process starts.
    asked_for = (config.execute_steps, config.ensemble_coefficient)
    used = make_executor(policy, *asked_for, config.lateness, config.seed).execution
    execution = (used.execute_steps, used.ensemble_coefficient)
    config = replace(config, execute_steps=execution[0], ensemble_coefficient=execution[1])
    refuse_demonstrated(config.seeds, {*policy.demonstration_seeds, *shown.seeds})

    groups = {"policy": [Rollout(seed, task=config.instruction) for seed in config.seeds]}
    if baselines:
        blind = [replace(rollout, black_image=True) for rollout in groups["policy"]]
        groups[BLACK_IMAGE] = blind
    if baselines and demonstrations is not None:
        _check_actions(shown.actions, policy.schema.action_size)
        groups[REPLAYED] = [
            Rollout(seed, actions=draw_demonstration(shown.actions, seed)) for seed in config.seeds
        ]

    check_writable(out)
    build = partial(build, max_steps=config.max_steps, quality=config.quality)
    build = partial(build_in, environment, build)
    if config.displacement is not None:
        build = partial(build_displaced, build, config.displacement)
    rollouts = [rollout for group in groups.values() for rollout in group]
    with tqdm(total=len(rollouts), desc="rollouts", unit="episode") as bar:
        won: list[bool] = []

        def update(rollout: Rollout, result: EpisodeResult) -> None:
            if rollout.actions is None and not rollout.black_image:
                won.append(result.success)
                bar.set_postfix_str(f"policy {sum(won)} of {len(won)}", refresh=False)
            bar.update()

        make_policy = partial(load, checkpoint)
        results = evaluate_policy(
            make_policy, build, rollouts, workers, *execution, config.lateness, on_result=update
        )
    if identity(checkpoint) != judged:
        raise UserError(
            f"checkpoint={checkpoint} was replaced while it was tried, as if it were still being "
            "trained; evaluate when that is done, or copy the file first"
        )
    grouped = {
        name: results[i * config.episodes : (i + 1) * config.episodes]
        for i, name in enumerate(groups)
    }
    summaries = {name: summarise(group) for name, group in grouped.items()}
    motion = measure_motion(
        grouped["policy"],
        shown.actions,
        config.lateness.timing.blend_steps,
        gradual_dimensions(policy.schema),
    )
    report = {
        "mode": "rollout",
        **summaries.pop("policy"),
        "motion": motion._asdict(),
        "baselines": summaries,
        "checkpoint": judged,
        "environment": environment,
        "execution": used.to_dict(),
        "rate": policy.schema.rate,
        "settings": asdict(config),
        "versions": versions(),
    }
    write_json(out / "evaluation.json", report)

    filmed = choose_filmed(grouped["policy"], videos)
    if filmed or (out / "videos").is_dir():  # those of an earlier evaluation must not stay
        write_episode_videos(build, policy.schema, filmed, out / "videos", workers)
    write_rollout_report(
        out, report, policy, grouped["policy"], filmed, shown.actions, build, workers, background
    )
    return report


def build_displaced(
    build: Callable[..., Environment], displacement: Displacement, *arguments: Any, **options: Any
) -> Environment:
    """Build an environment whose objects are moved in mid-episode."""
    return DisplacedObjects(build(*arguments, **options), displacement)


def choose_filmed(results: Sequence[EpisodeResult], count: int) -> list[EpisodeResult]:
    """Return the first successes and the first failures, `count` of each at most."""
    successes = [result for result in results if result.success]
    failures = [result for result in results if not result.success]
    return successes[:count] + failures[:count]


def _check_actions(demonstrations: Sequence[np.ndarray], action_size: int) -> None:
    for index, actions in enumerate(demonstrations):
        if actions.ndim != 2 or actions.shape[1] != action_size or len(actions) == 0:
            raise UserError(
                f"demonstrations: episode {index} has actions of shape {actions.shape}, "
                f"expected (steps, {action_size}) like the policy's"
            )
