"""Rollouts a minute: physics and images, no policy."""

from typing import Any

from benchmarks.common import Row, ask_peer, time_calls, training_settings

EPISODE_STEPS = 100


def measure(config: Any) -> list[Row]:
    """Rollouts a minute of 100 steps in one process: physics and images, no policy."""
    lazy = "act_policy, an image a chunk"
    every = "act_policy, an image a step"
    chunk = training_settings(config).model.chunk_length
    rows = [
        {"who": lazy, "value": our_rollouts(config, chunk), "image_every": chunk},
        {"who": every, "value": our_rollouts(config, 1), "image_every": 1},
        {"who": "Meta-World's own renderer, every step", "value": own_renderer_rollouts(config)},
    ]
    if config.peer is not None:
        peer = ask_peer(config, None)
        rows = [{**row, "compare_with": peer["who"]} for row in rows[:2]] + rows[2:] + [peer]
    return [{**row, "unit": "rollouts/min"} for row in rows]


def our_rollouts(config: Any, every: int) -> float:
    """Step our environment and read its images at every n-th step."""
    import gymnasium
    import numpy as np

    import act_policy.sim  # noqa: F401  registers the tasks

    cameras = {name: tuple(size) for name, size in config.cameras.items()}
    environment = gymnasium.make(config.environment, cameras=cameras)
    state = {"step": 0, "seed": 0}

    def step() -> None:
        if state["step"] % EPISODE_STEPS == 0:
            state["seed"] += 1
            state["pixels"] = environment.reset(seed=state["seed"])[0]["pixels"]
        if state["step"] % EPISODE_STEPS % every == 0:
            dict(state["pixels"].items())  # type: ignore[attr-defined]  # reads, and so draws
        state["pixels"] = environment.step(np.full(4, 0.1, np.float32))[0]["pixels"]
        state["step"] += 1

    per_step = time_calls(config, step, whole=EPISODE_STEPS)
    environment.close()
    return 60 / (per_step * EPISODE_STEPS)


def own_renderer_rollouts(config: Any) -> float:
    """Step Meta-World as it comes, rendering at each step."""
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
    return 60 / (per_step * EPISODE_STEPS)
