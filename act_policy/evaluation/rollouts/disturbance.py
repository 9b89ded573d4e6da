"""Disturbances of what a policy sees and measures in simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError, check_number, check_whole_number
from act_policy.evaluation.rollouts.baselines import SelectAction
from act_policy.evaluation.rollouts.delays import Delay
from act_policy.sim.appearance import AS_IT_IS, Appearance
from act_policy.sim.environment import SimulatedTask
from act_policy.sim.images import LazyImages


@dataclass(frozen=True)
class Disturbance:
    """Changes to what a policy sees and measures; by default nothing is changed.

    appearance: how the scene looks; physics stays as it is.
    state_noise: standard deviation of the noise added to each measured state at each step, as a
        fraction of that state's standard deviation in the demonstrations.
    dropped_frames: probability, at each step, that a camera repeats its last image; with 1 it
        shows its first image for the whole episode.
    delay: control steps from a question to the policy's answer; 0 leaves the evaluation's delay.
    """

    appearance: Appearance = AS_IT_IS
    state_noise: int | float = 0.0
    dropped_frames: int | float = 0.0
    delay: int = 0

    def __post_init__(self) -> None:
        check_number("state_noise", self.state_noise, 0, 10)
        check_number("dropped_frames", self.dropped_frames, 0, 1)
        check_whole_number("delay", self.delay, 0)

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> "Disturbance":
        """Make a disturbance from a flat mapping of its fields and those of the appearance."""
        looks = {field.name for field in fields(Appearance)}
        own = {field.name for field in fields(cls)} - {"appearance"}
        if unknown := sorted(set(values) - looks - own):
            known = ", ".join(sorted(looks | own))
            raise UserError(f"unknown disturbance {', '.join(unknown)}; known are {known}")
        appearance = Appearance.from_config({n: v for n, v in values.items() if n in looks})
        return cls(appearance, **{name: v for name, v in values.items() if name in own})

    def lateness(self, usual: Delay) -> Delay:
        """Return how late answers are, given how late they are in the evaluation."""
        return replace(usual, steps=self.delay) if self.delay else usual

    def reset_options(self, environment: Any) -> dict[str, Any] | None:
        """Return the options of `environment.reset` that give the episode this appearance.

        Raises:
            UserError: the appearance of this environment cannot be changed.
        """
        if self.appearance == AS_IT_IS:
            return None
        if not isinstance(environment.unwrapped, SimulatedTask):
            raise UserError(
                "the appearance of this environment cannot be changed; only that of Meta-World "
                "and ALOHA can"
            )
        return {"appearance": self.appearance}

    def disturb(self, select_action: SelectAction, policy: ChunkPolicy, seed: int) -> SelectAction:
        """Wrap the way a policy acts, for one episode, so that it gets disturbed observations.

        Raises:
            UserError: state_noise is set, but the standard deviation of the state is not known.
        """
        if not self.state_noise and not self.dropped_frames:
            return select_action
        scale = self._scale_noise(policy) if self.state_noise else None
        noise_random, drop_random = (np.random.default_rng([seed, i]) for i in (6, 7))
        shown: dict[str, Mapping[str, np.ndarray]] = {}  # the observation of each camera's image

        def act(observation: Any) -> np.ndarray:
            if scale is not None:
                noise = scale * noise_random.standard_normal(scale.shape)
                observation = observation._replace(
                    state=(observation.state + noise).astype(np.float32)
                )
            if self.dropped_frames:
                for camera in observation.images:
                    if drop_random.random() >= self.dropped_frames or camera not in shown:
                        shown[camera] = observation.images
                now = dict(shown)
                images = LazyImages(now, lambda camera: now[camera][camera])
                observation = observation._replace(images=images)
            return select_action(observation)

        return act

    def _scale_noise(self, policy: ChunkPolicy) -> np.ndarray:
        if policy.statistics is None:
            raise UserError(
                "state_noise: the noise is a fraction of the state's standard deviation in the "
                "demonstrations, which this policy does not know"
            )
        scale: np.ndarray = self.state_noise * policy.statistics.state.std
        return scale


UNDISTURBED = Disturbance()
