"""Rollouts per minute: physics and images, no policy."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from benchmarks.clock import time_calls
from benchmarks.common import Row, ask_peer, training_config

METAWORLD_STEPS = 100
ALOHA_STEPS = 400
ALOHA_CHUNK = 100


def measure(config: Any) -> list[Row]:
    """Measure rollouts per minute in one process: 100 steps of Meta-World or 400 of ALOHA."""
    is_aloha = config.environment.startswith("act_policy/Aloha")
    chunk = ALOHA_CHUNK if is_aloha else training_config(config).model.chunk_length
    steps = ALOHA_STEPS if is_aloha else METAWORLD_STEPS
    actions = expert_actions(config) if is_aloha else [[0.1] * 4]
    rows = [
        {
            "who": f"act_policy, an image {often}",
            "value": our_rollouts(config, actions, steps, every),
            "image_every": every,
        }
        for often, every in (("a chunk", chunk), ("a step", 1))
    ]
    if config.peer is not None:
        peer = ask_peer(config, None, actions=actions, episode_steps=steps)
        rows = [{**row, "compare_with": peer["who"]} for row in rows] + [peer]
    if not is_aloha:
        own = own_renderer_rollouts(config)
        rows.append({"who": "Meta-World's own renderer, every step", "value": own})
    return [{**row, "unit": "rollouts/min", "steps": steps} for row in rows]


def our_rollouts(config: Any, actions: Sequence[Any], episode_steps: int, every: int) -> float:
    """Play actions in our environment; read its images every `every` steps."""
    import gymnasium
    import numpy as np

    import act_policy.sim  # noqa: F401  registers the tasks

    cameras = {name: tuple(size) for name, size in config.cameras.items()}
    environment = gymnasium.make(config.environment, cameras=cameras)

    def steps() -> Iterator[None]:
        """Make one step at each `next`, for ever."""
        for seed in count():
            pixels = environment.reset(seed=seed)[0]["pixels"]
            for step in range(episode_steps):
                if step % every == 0:
                    dict(pixels.items())  # reading renders them
                action = np.array(actions[min(step, len(actions) - 1)], np.float32)
                pixels = environment.step(action)[0]["pixels"]
                yield

    going = steps()
    per_step = time_calls(config, lambda: next(going), whole=episode_steps)
    environment.close()
    return 60 / (per_step * episode_steps)


def expert_actions(config: Any) -> list[list[float]]:
    """Return the actions of ALOHA's expert from the initial state of seed 0 to the end."""
    import gymnasium
    import numpy as np

    from act_policy.sim.environment import scripted_expert

    environment = gymnasium.make(config.environment, cameras={})
    environment.reset(seed=0)
    expert, actions, terminated = scripted_expert(environment), [], False
    while not terminated:
        actions.append([round(float(value), 5) for value in expert()])
        terminated = environment.step(np.array(actions[-1], np.float32))[2]
    environment.close()
    return actions


def own_renderer_rollouts(config: Any) -> float:
    """Step the original Meta-World, rendering at each step."""
    import gymnasium
    import metaworld  # noqa: F401  registers its environments
    import numpy as np

    height, width = next(iter(config.cameras.values()))
    name = config.environment.split("MetaWorld-")[1].removesuffix("-v0")
    environment = gymnasium.make(
        "Meta-World/MT1",
        env_name=f"{name}-v3",
        render_mode="rgb_array",
        disable_env_checker=True,
        camera_name=next(iter(config.cameras)),
        width=width,
        height=height,
    )
    environment.reset(seed=0)

    def step() -> None:
        environment.step(np.full(4, 0.1, np.float32))
        environment.render()

    per_step = time_calls(config, step)
    environment.close()
    return 60 / (per_step * METAWORLD_STEPS)
