"""Moments of episodes that were rolled out: their recorded actions are carried out once more."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from act_policy.evaluation.rollouts.run import Environment, EpisodeResult
from act_policy.system.processes import Handler, run_jobs
from act_policy.types import Observation, Schema

Sizes = dict[str, tuple[int, int]]
"""Camera name -> (height, width) in pixels."""


class Look(NamedTuple):
    """At which steps of an episode to look; 0 is the initial state, `episode.steps` the end.

    height: of the images in pixels; None is what the policy sees.
    """

    episode: EpisodeResult
    steps: Sequence[int]
    height: int | None = None

    def __str__(self) -> str:
        return str(self.episode)


class Seen(NamedTuple):
    """States and observations of a replayed episode.

    states: float32 (T + 1, s), the last one after the last action.
    moments: step -> observation.
    """

    states: np.ndarray
    moments: dict[int, Observation[np.ndarray]]

    def tell(self, task: str | None) -> "Seen":
        """Return it with what the policy was told to do, in words."""
        told = {step: observation._replace(task=task) for step, observation in self.moments.items()}
        return self._replace(moments=told)


def see_moments(
    make_environment: Callable[[Schema, Sizes | None], Environment],
    schema: Schema,
    looks: Sequence[Look],
    workers: int,
) -> list[Seen]:
    """Look at moments of episodes, in parallel; only these are rendered.

    Args:
        make_environment: (schema, camera sizes) -> environment; picklable.
        schema: of the policy.
        looks: what to look at.
        workers: number of processes.

    Raises:
        WorkerError: a replay ended otherwise than the episode did, or a process failed.
    """
    return run_jobs(partial(_watcher, make_environment, schema), looks, workers)


def film_sizes(schema: Schema, height: int) -> Sizes:
    """All cameras at one even height in pixels, their aspect ratios kept, widths even."""
    return {
        camera.name: (height, round(height * camera.width / camera.height / 2) * 2)
        for camera in schema.cameras
    }


def carry_out(
    environment: Environment, episode: EpisodeResult, alive: Callable[[], None] = lambda: None
) -> Iterator[Observation[np.ndarray]]:
    """Yield what is observed before each of the episode's actions and after the last.

    An image is rendered if it is read before the next observation is asked for.

    Raises:
        RuntimeError: the replay succeeded at another step, or not at all.
    """
    observation, _ = environment.reset(seed=episode.seed)
    for step, action in enumerate(episode.actions, start=1):
        yield Observation(observation["pixels"], observation["agent_pos"])
        observation, _, _, _, info = environment.step(action)
        if bool(info["success"]) != (episode.success and step == episode.steps):
            raise RuntimeError(
                f"{episode} cannot be reproduced: {episode.outcome} at step {episode.steps}, "
                f"but the replay is a {'success' if info['success'] else 'failure'} at step {step}"
            )
        alive()
    yield Observation(observation["pixels"], observation["agent_pos"])


def _watcher(
    make_environment: Callable[[Schema, Sizes | None], Environment], schema: Schema
) -> Handler[Look, Seen]:
    """Prepare a worker process that looks at episodes, in one environment for each height."""

    @cache
    def environment_of(height: int | None) -> Environment:
        sizes = None if height is None else film_sizes(schema, height)
        return make_environment(schema, sizes)

    def handle(look: Look, alive: Callable[[], None]) -> Seen:
        environment = environment_of(look.height)
        states, moments = [], {}
        for step, observation in enumerate(carry_out(environment, look.episode, alive)):
            state = np.array(observation.state)
            states.append(state)
            if step in look.steps:
                images = {n: np.array(observation.images[n]) for n in schema.camera_names}
                moments[step] = Observation(images, state)
        return Seen(np.stack(states), moments)

    return handle
