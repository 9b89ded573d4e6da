"""A Gymnasium environment as anybody might write it: a bead on a rail, seen from above."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.spaces import Dict as DictSpace

ID = "somebodys/Slide-v3"
GOAL = 0.8


class SlideEnv(gymnasium.Env[Any, Any]):
    """The action moves a bead along a rail of length 1; its image is one white column."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, speed: float = 0.1, render_mode: str | None = None) -> None:
        self.render_mode, self._speed = render_mode, speed
        self.action_space = Box(-1, 1, (1,), np.float64)
        self.observation_space = DictSpace(
            {
                "eyes": DictSpace({"above": Box(0, 255, (8, 40, 3), np.uint8)}),
                "bead": Box(0, 1, (1,), np.float64),
                "goal": Box(0, 1, (1,), np.float64),
            }
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.bead = self.np_random.uniform(0, 0.3)
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.bead = float(np.clip(self.bead + self._speed * action[0], 0, 1))
        reached = self.bead >= GOAL
        return self._observe(), self.bead, reached, False, {"reached": reached}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        image = np.zeros((8, 40, 3), np.uint8)
        image[:, round(39 * self.bead)] = 255
        return image

    def _observe(self) -> dict[str, Any]:
        image = np.zeros((8, 40, 3), np.uint8)
        image[:, round(39 * self.bead)] = 255
        bead, goal = np.array([self.bead]), np.array([GOAL])
        return {"eyes": {"above": image}, "bead": bead, "goal": goal}


def push(environment: Any) -> Any:
    """A teacher: full speed, as long as the bead is not there."""
    bead = environment.unwrapped
    return lambda observation: [1.0 if bead.bead < GOAL else 0.0]


def push_too_much(environment: Any) -> Any:
    """A teacher whose actions have another size."""
    return lambda observation: np.zeros(3)


if ID not in gymnasium.registry:
    gymnasium.register(ID, SlideEnv, max_episode_steps=50)
