"""Baselines that a policy must clearly beat before its success rate means anything.

A policy that succeeds as often with a black image does not use its cameras; a task that a replayed
demonstration solves does not vary enough to need a policy.
"""

from collections.abc import Callable, Sequence

import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.types import Observation


class BlackImagePolicy:
    """The same policy, blindfolded: every camera shows zeros; the real images are never read."""

    def __init__(self, policy: ChunkPolicy):
        self._policy = policy
        self.schema = policy.schema
        self.chunk_length = policy.chunk_length
        self.statistics = policy.statistics
        self.demonstration_seeds = policy.demonstration_seeds
        self._black = {
            camera.name: np.zeros((camera.height, camera.width, 3), np.uint8)
            for camera in policy.schema.cameras
        }

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the chunk (k, a) that the policy predicts in the dark."""
        return self._policy.predict_chunk(observation._replace(images=self._black))


def draw_demonstration(actions: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Pick one demonstration's actions (T, a) to replay; the seed alone decides which."""
    return actions[int(np.random.default_rng(seed).integers(len(actions)))]


def play_recorded(actions: np.ndarray) -> Callable[[Observation[np.ndarray]], np.ndarray]:
    """Play recorded actions (T, a) one after the other, whatever is observed."""
    remaining = iter(actions)

    def select_action(observation: Observation[np.ndarray]) -> np.ndarray:
        action: np.ndarray = next(remaining).copy()
        return action

    return select_action
