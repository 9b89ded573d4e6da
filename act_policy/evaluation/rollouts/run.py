"""Episodes in simulation through the robot's own control loop, in parallel processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError
from act_policy.evaluation.rollouts.adapting import AdaptedObservations, restore_recorded_cameras
from act_policy.evaluation.rollouts.baselines import SelectAction, blindfold, play_recorded
from act_policy.evaluation.rollouts.delays import Delay, EpisodeExecutor, make_executor
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
    """

    seed: int
    success: bool
    steps: int
    actions: np.ndarray
    stage: int | None = None
    captured: np.ndarray | None = None

    @property
    def outcome(self) -> str:
        """The word for it, as in the names of videos."""
        return "success" if self.success else "failure"

    def __str__(self) -> str:
        return f"seed {self.seed}"


@dataclass(frozen=True)
class Rollout:
    """One episode to run: from which initial state, and which policy acts.

    actions: (T, a) to play open loop, after which the episode ends; None lets the policy act.
    black_image: the policy sees black images only.
    """

    seed: int
    actions: np.ndarray | None = None
    black_image: bool = False

    def __str__(self) -> str:
        return f"seed {self.seed}"


def evaluate_policy(
    make_policy: Callable[[], ChunkPolicy],
    make_environment: Callable[[Schema], Environment],
    rollouts: Sequence[Rollout],
    workers: int,
    execute_steps: int | None = None,
    ensemble_coefficient: float | None = None,
    delay: Delay = Delay(),  # noqa: B008  it cannot be changed
    on_result: Callable[[Rollout, EpisodeResult], None] = lambda rollout, result: None,
) -> list[EpisodeResult]:
    """Run every rollout; the results come in their order and do not depend on `workers`.

    Each process makes policy and environment once; both functions must be picklable.

    Raises:
        UserError: policy and environment do not fit each other.
        WorkerError: a process failed, died or hung.
    """
    make_handler = partial(
        _episodes, make_policy, make_environment, execute_steps, ensemble_coefficient, delay
    )
    return run_jobs(make_handler, rollouts, workers, on_result=on_result)


def build_environment(
    schema: Schema,
    sizes: dict[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
    quality: str = "fast",
) -> Environment:
    """Build the simulated environment that a policy's schema names, with the policy's cameras.

    Args:
        schema: of the policy.
        sizes: camera name -> (height, width) to render instead of the policy's own.
        max_steps: end of an episode; None keeps the environment's own.
        quality: of the images, fast or exact.

    Raises:
        UserError: there is no such environment, or it differs from the schema.
    """
    import act_policy.sim  # noqa: F401  registers the environments

    recorded = restore_recorded_cameras(schema)
    cameras = {camera.name: (camera.height, camera.width) for camera in recorded.cameras}
    if not schema.environment:
        raise UserError(
            "the policy's schema names no simulated environment, so it cannot be rolled out; "
            "for a checkpoint of other software, source.schema=FILE.json says it, and the names"
        )
    try:
        environment = gymnasium.make(
            schema.environment,
            max_episode_steps=max_steps,
            disable_env_checker=True,  # it would read, and so render, every image
            cameras=sizes or cameras,
            quality=quality,
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise UserError(f"environment {schema.environment!r}: {error}") from None
    if sizes is not None:
        return environment
    # Its own schema is an attribute of the innermost environment.
    own: Schema = environment.unwrapped.schema  # type: ignore[attr-defined]
    if set(schema.states) <= set(own.states):  # some of the state's dimensions are enough
        recorded = replace(recorded, state_names=own.state_names, state_units=own.state_units)
    if differences := recorded.differences(own):
        raise UserError(
            f"the policy (here) and the environment {schema.environment} (there) differ: "
            f"{'; '.join(differences)}"
        )
    return AdaptedObservations(environment, schema) if schema.differences(own) else environment


def run_episode(
    environment: Environment,
    select_action: SelectAction,
    seed: int,
    alive: Callable[[], None] = lambda: None,
    max_steps: int | None = None,
) -> EpisodeResult:
    """Run one episode from the initial state that the seed fixes, until success or the time limit.

    max_steps may end it before the environment's own limit.
    """
    observation, _ = environment.reset(seed=seed)
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
    black_image: bool = False,
) -> EpisodeResult:
    """Run one episode of a policy; with black images, it sees only those."""
    select_action: Callable[[Observation[np.ndarray]], np.ndarray] = executor.select_action
    if black_image:
        select_action = blindfold(select_action, executor.schema)
    result = run_episode(environment, select_action, seed, alive)
    return result._replace(captured=np.array(executor.captured, np.int64))


def _episodes(
    make_policy: Callable[[], ChunkPolicy],
    make_environment: Callable[[Schema], Environment],
    execute_steps: int | None,
    ensemble_coefficient: float | None,
    delay: Delay,
) -> Handler[Rollout, EpisodeResult]:
    """Prepare a worker process: one policy, one environment, for all of its episodes."""
    policy = make_policy()
    environment = make_environment(policy.schema)
    make_executor(policy, execute_steps, ensemble_coefficient, delay, 0)  # refuses at once

    def handle(rollout: Rollout, alive: Callable[[], None]) -> EpisodeResult:
        if rollout.actions is not None:
            replayed, steps = play_recorded(rollout.actions), len(rollout.actions)
            return run_episode(environment, replayed, rollout.seed, alive, max_steps=steps)
        executor = make_executor(policy, execute_steps, ensemble_coefficient, delay, rollout.seed)
        return play_episode(environment, executor, rollout.seed, alive, rollout.black_image)

    return handle
