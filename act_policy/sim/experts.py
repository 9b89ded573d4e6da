"""Scripted experts that know where every object is: the source of demonstrations."""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from act_policy.errors import UserError

Expert = Callable[[], np.ndarray]
"""Returns the action for the environment's current state: float32 (a,) within the action space."""


class Variation(NamedTuple):
    """How much an expert departs from its usual way; by default not at all.

    timing: standard deviation of the logarithm of how long each phase takes.
    pose: standard deviation of where each way-point is, in metres.
    seed: fixes the departures.
    """

    timing: float = 0.0
    pose: float = 0.0
    seed: int = 0


AS_USUAL = Variation()


def scripted_expert(environment: Any, variation: Variation = AS_USUAL) -> Expert:
    """Make a fresh expert for one episode of a task, which has just been reset.

    Raises:
        UserError: the environment is not one of this package's tasks, or its expert cannot vary.
    """
    environment = environment.unwrapped
    name = getattr(getattr(environment, "schema", None), "environment", "")
    if found := re.fullmatch(r"act_policy/MetaWorld-(.+)-v0", name):
        if variation.timing or variation.pose:
            raise UserError(
                f"{name}: timing_noise and pose_noise vary ALOHA's experts only; this one reacts "
                "to what happens, so noise= makes its demonstrations differ"
            )
        return _metaworld_expert(environment, found[1])
    if found := re.fullmatch(r"act_policy/Aloha(.+)-v0", name):
        from act_policy.sim.aloha_expert import MOTIONS, AlohaExpert, varied

        motion = MOTIONS[found[1]](environment.object_poses)
        motion = varied(motion, *variation)
        return AlohaExpert(environment.model, motion, environment.agent_pos)
    raise UserError(f"environment {name or environment}: there is no scripted expert for it")


def _metaworld_expert(environment: Any, task: str) -> Expert:
    from metaworld.policies import ENV_POLICY_MAP

    policy: Any = ENV_POLICY_MAP[f"{task}-v3"]  # annotated there as the abstract class
    policy = policy()
    space = environment.action_space

    def act() -> np.ndarray:
        with warnings.catch_warnings():
            # it warns of each action beyond [-1, 1], which is clipped here
            warnings.filterwarnings("ignore", message="Constant\\(s\\) may be too high")
            action = policy.get_action(environment.full_observation())
        clipped: np.ndarray = np.clip(action, space.low, space.high).astype(np.float32)
        return clipped

    return act
