"""Episodes in simulation through the robot's own control loop, in parallel processes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from PIL import Image

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, writing
from act_policy.evaluation.rollouts.adapting import AdaptedObservations, restore_recorded_cameras
from act_policy.evaluation.rollouts.baselines import SelectAction, blindfold, play_recorded
from act_policy.evaluation.rollouts.delays import Delay, EpisodeExecutor, make_executor
from act_policy.evaluation.rollouts.disturbance import UNDISTURBED, Disturbance
from act_policy.sim.described import SimulatorConfig
from act_policy.system.atomic import atomic_file
from act_policy.system.processes import Handler, run_jobs
from act_policy.types import Observation, Schema

Environment = gymnasium.Env[Any, Any]


class EpisodeResult(NamedTuple):
    """One finished episode.

    steps: carried out until the first success or the end.
    actions: float32 (steps, a), enough to see the episode again from its seed.
    stage: the highest stage of reward that it reached; None where the task has no stages.
    captured: int64 (steps,), for each action the step whose images the newest chunk in it was made
        from; None where no policy acted.
    rerun: how the process of a first attempt ended; None where the first attempt succeeded.
    """

    seed: int
    success: bool
    steps: int
    actions: np.ndarray
    stage: int | None = None
    captured: np.ndarray | None = None
    rerun: str | None = None

    @property
    def outcome(self) -> str:
        """The word for it, as in the names of videos."""
        return "success" if self.success else "failure"

    def mark_rerun(self, why: str) -> "EpisodeResult":
        """Note how the process of the first attempt ended, as `run_jobs` says."""
        return self._replace(rerun=why)

    def __str__(self) -> str:
        return f"seed {self.seed}"


@dataclass(frozen=True)
class Rollout:
    """One episode to run: from which initial state, and which policy acts.

    actions: (T, a) to play open loop, after which the episode ends; None lets the policy act.
    black_image: the policy sees black images only.
    environment: id; None stands for the policy's own.
    max_steps: time limit; None stands for that of `make_environment`.
    disturbance: changes to what the policy sees and measures.
    task: in words, for a policy that knows several.
    picture: PNG file to write with the first image that the policy sees, all cameras side by side.
    row: name of the suite's row, for messages.
    """

    seed: int
    actions: np.ndarray | None = None
    black_image: bool = False
    environment: str | None = None
    max_steps: int | None = None
    disturbance: Disturbance = UNDISTURBED
    task: str | None = None
    picture: Path | None = None
    row: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed}" + (f" of {self.row!r}" if self.row else "")


def evaluate_policy(
    make_policy: Callable[[], ChunkPolicy],
    make_environment: Callable[..., Environment],
    rollouts: Sequence[Rollout],
    workers: int,
    execute_steps: int | None = None,
    ensemble_coefficient: float | None = None,
    delay: Delay = Delay(),  # noqa: B008  it cannot be changed
    on_result: Callable[[Rollout, EpisodeResult], None] = lambda rollout, result: None,
) -> list[EpisodeResult]:
    """Run every rollout; the results come in their order and do not depend on `workers`.

    Each process makes the policy once and environments as it needs them. Both functions must be
    picklable; make_environment is (schema, max_steps=) -> environment.

    Raises:
        UserError: policy and environment do not fit each other.
        WorkerError: a process failed, died or hung twice at the same episode.
    """
    make_handler = partial(
        _episodes, make_policy, make_environment, execute_steps, ensemble_coefficient, delay
    )
    return run_jobs(
        make_handler, rollouts, workers, on_result=on_result, mark_rerun=EpisodeResult.mark_rerun
    )


def build_environment(
    schema: Schema,
    sizes: dict[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
    quality: str = "fast",
    simulator: SimulatorConfig | None = None,
) -> Environment:
    """Build the simulated environment that a policy's schema names, with the policy's cameras.

    Args:
        schema: of the policy.
        sizes: camera name -> (height, width) to render instead of the policy's own.
        max_steps: end of an episode; None keeps the environment's own.
        quality: of the images, fast or exact.
        simulator: describes an environment that is not one of this package's.

    Raises:
        UserError: there is no such environment, or it differs from the schema.
    """
    import act_policy.sim  # noqa: F401  registers the environments

    recorded = restore_recorded_cameras(schema)
    cameras = {camera.name: (camera.height, camera.width) for camera in recorded.cameras}
    if simulator is None:
        environment = _make_ours(schema.environment, sizes or cameras, max_steps, quality)
    elif schema.environment in ("", simulator.environment):
        environment = simulator.make(sizes or cameras, max_steps)
    else:
        raise UserError(
            f"the policy is of environment {schema.environment!r}; simulator= "
            f"describes {simulator.environment!r}"
        )
    if sizes is not None:
        return environment
    own: Schema = environment.get_wrapper_attr("schema")
    if set(schema.states) <= set(own.states):  # some of the state's dimensions are enough
        recorded = replace(recorded, state_names=own.state_names, state_units=own.state_units)
    if differences := recorded.differences(own):
        raise UserError(
            f"the policy (here) and the environment {own.environment} (there) differ: "
            f"{'; '.join(differences)}"
        )
    return AdaptedObservations(environment, schema) if schema.differences(own) else environment


def build_in(
    environment: str,
    build: Callable[..., Environment],
    schema: Schema,
    *arguments: Any,
    **options: Any,
) -> Environment:
    """Build the environment of that id for a policy, whatever its own schema names."""
    return build(replace(schema, environment=environment), *arguments, **options)


def _make_ours(
    name: str, cameras: Mapping[str, tuple[int, int]], max_steps: int | None, quality: str
) -> Environment:
    """Make one of this package's environments."""
    if not name:
        raise UserError(
            "the policy's schema names no simulated environment, so it cannot be rolled out; "
            "for a checkpoint of other software, source.schema=FILE.json says it, and the names; "
            "evaluate.py simulator=NAME describes a simulator that is not one of ours; a policy "
            "that learned in several takes that of its instruction=, which demonstrations=FOLDER "
            "names where those of the run are gone"
        )
    try:
        return gymnasium.make(
            name,
            max_episode_steps=max_steps,
            disable_env_checker=True,  # it would read, and so render, every image
            cameras=cameras,
            quality=quality,
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(
            f"environment {name!r}: {error}; evaluate.py simulator=NAME describes a simulator that "
            "is not one of ours"
        ) from None


def run_episode(
    environment: Environment,
    select_action: SelectAction,
    seed: int,
    alive: Callable[[], None] = lambda: None,
    max_steps: int | None = None,
    options: dict[str, Any] | None = None,
) -> EpisodeResult:
    """Run one episode from the initial state that the seed fixes, until success or the time limit.

    max_steps may end it before the environment's own limit; options are passed to its reset.
    """
    observation, _ = environment.reset(seed=seed, options=options)
    actions: list[np.ndarray] = []
    success = ended = False
    stage: int | None = None
    while not (success or ended):
        # pixels is passed on as it is: an image that nobody reads is never rendered
        action = select_action(Observation(observation["pixels"], observation["agent_pos"]))
        observation, _, terminated, truncated, info = environment.step(action)
        actions.append(action)
        success = bool(info["success"])
        if "stage" in info:
            stage = max(stage or 0, int(info["stage"]))
        ended = terminated or truncated or len(actions) == max_steps
        alive()
    return EpisodeResult(seed, success, len(actions), np.stack(actions), stage)


def play_episode(
    environment: Environment,
    executor: EpisodeExecutor,
    seed: int,
    alive: Callable[[], None] = lambda: None,
    wrap: Callable[[SelectAction], SelectAction] = lambda select_action: select_action,
    options: dict[str, Any] | None = None,
) -> EpisodeResult:
    """Run one episode of a policy; `wrap` may change what it sees, options are of the reset."""
    select_action = wrap(executor.select_action)
    result = run_episode(environment, select_action, seed, alive, options=options)
    return result._replace(captured=np.array(executor.captured, np.int64))


def _episodes(
    make_policy: Callable[[], ChunkPolicy],
    make_environment: Callable[..., Environment],
    execute_steps: int | None,
    ensemble_coefficient: float | None,
    delay: Delay,
) -> Handler[Rollout, EpisodeResult]:
    """Prepare a worker process: it keeps its policy and the environments it used last."""
    policy = make_policy()
    environments = Environments(make_environment, policy.schema)
    make_executor(policy, execute_steps, ensemble_coefficient, delay, 0)  # refuses at once

    def handle(rollout: Rollout, alive: Callable[[], None]) -> EpisodeResult:
        environment = environments.find(rollout.environment, rollout.max_steps)
        if rollout.actions is not None:
            replayed, steps = play_recorded(rollout.actions), len(rollout.actions)
            return run_episode(environment, replayed, rollout.seed, alive, max_steps=steps)
        disturbance, seed = rollout.disturbance, rollout.seed
        late = disturbance.lateness(delay)
        executor = make_executor(policy, execute_steps, ensemble_coefficient, late, seed)

        def wrap(select_action: SelectAction) -> SelectAction:
            select_action = tell_task(select_action, rollout.task)
            if rollout.black_image:
                select_action = blindfold(select_action, policy.schema)
            if rollout.picture is not None:
                select_action = keep_first_image(select_action, policy.schema, rollout.picture)
            return disturbance.disturb(select_action, policy, seed)

        options = disturbance.reset_options(environment)
        return play_episode(environment, executor, seed, alive, wrap, options)

    return handle


def tell_task(select_action: SelectAction, task: str | None) -> SelectAction:
    """Wrap the way a policy acts so that it is told what to do, in words."""
    return lambda observation: select_action(observation._replace(task=task))


class Environments:
    """Makes environments as they are needed and keeps the last few: each takes about 160 MB."""

    KEPT = 2

    def __init__(self, make: Callable[..., Environment], schema: Schema):
        self._make, self._schema = make, schema
        self._made: dict[tuple[str | None, int | None], Environment] = {}  # last used, last here

    def find(self, name: str | None, max_steps: int | None) -> Environment:
        """Return the environment with this id and time limit; None as in `Rollout`."""
        environment = self._made.pop((name, max_steps), None)
        if environment is None:
            if len(self._made) == self.KEPT:
                self._made.pop(next(iter(self._made))).close()
            limit = {} if max_steps is None else {"max_steps": max_steps}
            environment = self._make(
                replace(self._schema, environment=name or self._schema.environment), **limit
            )
        self._made[name, max_steps] = environment
        return environment


def keep_first_image(select_action: SelectAction, schema: Schema, path: Path) -> SelectAction:
    """Wrap the way a policy acts so that the first image it sees is written as a PNG."""
    is_first = True

    def act(observation: Observation[np.ndarray]) -> np.ndarray:
        nonlocal is_first
        if is_first:
            is_first = False
            images = [np.asarray(observation.images[name]) for name in schema.camera_names]
            height = max(len(image) for image in images)
            even = [np.pad(im, ((0, height - len(im)), (0, 0), (0, 0))) for im in images]
            with writing(path), atomic_file(path) as file:
                Image.fromarray(np.concatenate(even, axis=1)).save(file, format="png")
        return select_action(observation)

    return act
