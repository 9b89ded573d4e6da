"""A task for the policies of `training_for_tests`, whose success depends on what they do.

Its ids, `tests.training.simulated_task:Move-v0` and `...:MoveAgain-v0`, make gymnasium import this.
"""

from typing import Any

import gymnasium
import numpy as np

from act_policy.types import Schema
from tests.training.training_for_tests import SCHEMA

ENVIRONMENT, SAME_AGAIN = f"{__name__}:Move-v0", f"{__name__}:MoveAgain-v0"


class Move(gymnasium.Env[dict[str, Any], np.ndarray]):
    """Eight steps; success where the sum of the movements along x reaches what the seed draws."""

    def __init__(self, cameras: dict[str, tuple[int, int]], quality: str) -> None:
        self.sizes = cameras

    @property
    def schema(self) -> Schema:
        return SCHEMA

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.goal, self.moved = 2.0 + 2.0 * float(self.np_random.normal()), 0.0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> Any:
        self.moved += float(action[0])
        return self._observe(), 0.0, False, False, {"success": self.moved >= self.goal}

    def _observe(self) -> dict[str, Any]:
        pixels = {
            name: self.np_random.integers(0, 256, (*size, 3), dtype=np.uint8)
            for name, size in self.sizes.items()
        }
        return {"pixels": pixels, "agent_pos": np.array([self.moved, self.goal], np.float32)}


for name in ("Move-v0", "MoveAgain-v0"):
    gymnasium.register(name, Move, max_episode_steps=8, disable_env_checker=True)
