"""Baselines that a policy must clearly beat before its success rate means anything.

A policy that succeeds as often with a black image does not use its cameras; a task that a replayed
demonstration solves does not vary enough to need a policy.
"""

from collections.abc import Callable, Sequence

import numpy as np

from act_policy.types import Observation, Schema

SelectAction = Callable[[Observation[np.ndarray]], np.ndarray]


def blindfold(select_action: SelectAction, schema: Schema) -> SelectAction:
    """Let a policy act while every camera shows zeros; the real images are never read."""
    black = {c.name: np.zeros((c.height, c.width, 3), np.uint8) for c in schema.cameras}
    return lambda observation: select_action(observation._replace(images=black))


def draw_demonstration(actions: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Pick one demonstration's actions (T, a) to replay; the seed alone decides which."""
    return actions[int(np.random.default_rng(seed).integers(len(actions)))]


def play_recorded(actions: np.ndarray) -> SelectAction:
    """Play copies of recorded actions (T, a) one after the other, whatever is observed."""
    remaining = iter(actions)
    return lambda observation: np.array(next(remaining))
