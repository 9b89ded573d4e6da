"""Simulated tasks: gymnasium environments, scripted experts and the recording of demonstrations.

Importing this package registers `act_policy/MetaWorld-<task>-v0` for each of Meta-World's 50 tasks;
the simulator itself is imported when an environment is made.
"""

from typing import Final

import gymnasium

TASKS: Final = (
    "assembly",
    "basketball",
    "bin-picking",
    "box-close",
    "button-press-topdown",
    "button-press-topdown-wall",
    "button-press",
    "button-press-wall",
    "coffee-button",
    "coffee-pull",
    "coffee-push",
    "dial-turn",
    "disassemble",
    "door-close",
    "door-lock",
    "door-open",
    "door-unlock",
    "drawer-close",
    "drawer-open",
    "faucet-close",
    "faucet-open",
    "hammer",
    "hand-insert",
    "handle-press-side",
    "handle-press",
    "handle-pull-side",
    "handle-pull",
    "lever-pull",
    "peg-insert-side",
    "peg-unplug-side",
    "pick-out-of-hole",
    "pick-place",
    "pick-place-wall",
    "plate-slide-back-side",
    "plate-slide-back",
    "plate-slide-side",
    "plate-slide",
    "push-back",
    "push",
    "push-wall",
    "reach",
    "reach-wall",
    "shelf-place",
    "soccer",
    "stick-pull",
    "stick-push",
    "sweep-into",
    "sweep",
    "window-close",
    "window-open",
)
"""Names of Meta-World's tasks, without its version."""

MAX_EPISODE_STEPS: Final = 500
"""Meta-World's horizon; `gymnasium.make(..., max_episode_steps=)` overrides it."""


def environment_id(task: str) -> str:
    """The id under which gymnasium knows a Meta-World task."""
    return f"act_policy/MetaWorld-{task}-v0"


def register_environments() -> None:
    """Make every task known to gymnasium; calling it again changes nothing."""
    for task in TASKS:
        if environment_id(task) not in gymnasium.registry:
            gymnasium.register(
                id=environment_id(task),
                entry_point="act_policy.sim.metaworld:MetaWorldEnv",
                kwargs={"task": task},
                max_episode_steps=MAX_EPISODE_STEPS,
                disable_env_checker=True,  # it reads, and so renders, every first observation
            )


register_environments()
