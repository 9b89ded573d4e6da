"""Simulated tasks: gymnasium environments, scripted experts and the recording of demonstrations.

Importing this package registers `act_policy/MetaWorld-<task>-v0` for each of Meta-World's 50 tasks,
`act_policy/AlohaTransferCube-v0` and `act_policy/AlohaInsertion-v0`; the simulator itself is
imported when an environment is made.
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

ALOHA_TASKS: Final = ("TransferCube", "Insertion")
ALOHA_EPISODE_STEPS: Final = 400


def environment_id(task: str) -> str:
    """The id under which gymnasium knows a Meta-World task."""
    return f"act_policy/MetaWorld-{task}-v0"


def aloha_environment_id(task: str) -> str:
    """The id under which gymnasium knows one of ALOHA's tasks."""
    return f"act_policy/Aloha{task}-v0"


def episode_steps(environment: str) -> int | None:
    """The steps after which an episode ends in the environment of that id; None if unknown."""
    spec = gymnasium.registry.get(environment)
    return spec.max_episode_steps if spec else None


def register_environments() -> None:
    """Make every task known to gymnasium; calling it again changes nothing."""
    for task in TASKS:
        _register(environment_id(task), "metaworld:MetaWorldEnv", task, MAX_EPISODE_STEPS)
    for task in ALOHA_TASKS:
        _register(
            aloha_environment_id(task), "aloha.environment:AlohaEnv", task, ALOHA_EPISODE_STEPS
        )


def _register(name: str, entry_point: str, task: str, steps: int) -> None:
    if name not in gymnasium.registry:
        gymnasium.register(
            id=name,
            entry_point=f"act_policy.sim.{entry_point}",
            kwargs={"task": task},
            max_episode_steps=steps,
            disable_env_checker=True,  # it reads, and so renders, every first observation
        )


register_environments()
