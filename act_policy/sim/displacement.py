"""Objects that move while the arm is on its way to them."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from act_policy.errors import UserError, check_whole_number


@dataclass(frozen=True)
class Displacement:
    """When and how far the objects are moved.

    step: of the episode, from 0; the images of the step after it are the first to show it.
    distance: in metres.
    """

    step: int
    distance: float = 0.03

    def __post_init__(self) -> None:
        check_whole_number("displace_at", self.step, 0)
        if not isinstance(self.distance, int | float) or not 0 < self.distance < np.inf:
            raise UserError(f"displace_by={self.distance}: expected a distance in metres")


class DisplacedObjects(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Moves a task's objects in the middle of the episode, in a direction that the seed draws.

    Raises:
        UserError: the task has no objects that can be moved.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], displacement: Displacement) -> None:
        super().__init__(environment)
        self._displacement = displacement
        if not hasattr(environment.unwrapped, "displace_objects"):
            raise UserError(
                f"displace_at={displacement.step}: {environment.unwrapped} has no objects that can "
                "be moved; ALOHA's tasks have"
            )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        self._step = 0
        self._random = np.random.default_rng([0 if seed is None else seed, 3])
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Move the objects, if it is time, and do one step."""
        if self._step == self._displacement.step:
            task: Any = self.unwrapped
            task.displace_objects(self._displacement.distance, self._random)
        self._step += 1
        return super().step(action)
