"""A task that needs eyes: reach the column that the image shows. Importable by worker processes.

The image's brightness is the target's place; the hand starts at 0. A policy that sees nothing
goes to where a black image means.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from act_policy import Observation, Schema, UserError
from act_policy.execution import Execution
from act_policy.types import Camera

SCHEMA = Schema(
    cameras=(Camera("front", 8, 12), Camera("side", 8, 8)),
    state_names=("x",),
    state_units=("m",),
    action_names=("move",),
    action_units=("m/step",),
    rate=60.0,
    environment="fake/Reach-v0",
)
STEP_LIMIT = 40


class Images(dict[str, np.ndarray]):
    """Images drawn when they are read; `drawn` counts them."""

    def __init__(self, environment: "ReachEnv"):
        super().__init__(dict.fromkeys(environment.sizes))
        self._environment = environment

    def __getitem__(self, name: str) -> np.ndarray:
        self._environment.drawn += 1
        height, width = self._environment.sizes[name]
        image = np.full((height, width, 3), self._environment.brightness, np.uint8)
        image[:, : width // 2, 0] = 255  # red on the left
        return image


class ReachEnv(gymnasium.Env[dict[str, Any], np.ndarray]):
    def __init__(self, sizes: dict[str, tuple[int, int]], step_limit: int = STEP_LIMIT):
        self.sizes = sizes
        self.step_limit = step_limit
        self.drawn = 0
        self.brightness = 0
        self.x = 0.0

    @property
    def target(self) -> float:
        return self.brightness / 255

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.brightness = int(self.np_random.integers(100, 256))
        self.x, self.steps = 0.0, 0
        return self.observe(), {"success": False}

    def observe(self) -> dict[str, Any]:
        return {"pixels": Images(self), "agent_pos": np.array([self.x], np.float32)}

    def step(self, action: np.ndarray) -> Any:
        self.x += float(np.clip(action[0], -0.05, 0.05))
        self.steps += 1
        success = abs(self.x - self.target) < 0.02
        return self.observe(), 0.0, False, self.steps >= self.step_limit, {"success": success}


class SeeingPolicy:
    """Goes straight to where the image shows the target; misses targets beyond its reach."""

    schema = SCHEMA
    chunk_length = 4
    statistics, demonstration_seeds, execution = None, (), Execution()

    def __init__(self, reach: float = 0.9):
        self.reach = reach

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        target = min(observation.images["front"][0, -1, 1] / 255, self.reach)
        x, moves = float(observation.state[0]), []
        for _ in range(self.chunk_length):
            moves.append(np.clip(target - x, -0.05, 0.05))
            x += moves[-1]
        return np.array(moves, np.float32)[:, None]


class FailingPolicy(SeeingPolicy):
    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        raise UserError("this checkpoint cannot act")


class DemonstratedPolicy(SeeingPolicy):
    demonstration_seeds = (1001,)


def load(path: Path) -> SeeingPolicy:
    if "demonstrated" in path.name:
        return DemonstratedPolicy()
    return FailingPolicy() if "failing" in path.name else SeeingPolicy()


def replace_and_load(path: Path) -> SeeingPolicy:
    """As if training wrote a better checkpoint at this moment."""
    path.write_bytes(b"later weights")
    return load(path)


def build(
    schema: Schema,
    sizes: dict[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
    quality: str = "fast",
) -> ReachEnv:
    own = {camera.name: (camera.height, camera.width) for camera in schema.cameras}
    return ReachEnv(sizes or own, max_steps or STEP_LIMIT)


class CrashingEnv(ReachEnv):
    """Its process dies at seed 12, but only until the file `marker` is there."""

    def __init__(self, marker: Path, sizes: dict[str, tuple[int, int]], step_limit: int):
        super().__init__(sizes, step_limit)
        self.marker = marker

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed == 12:
            with suppress(FileExistsError):  # of several processes one makes the file
                self.marker.touch(exist_ok=False)
                os._exit(7)
        return super().reset(seed=seed)


def build_crashing(
    marker: Path, schema: Schema, max_steps: int | None = None, **_: Any
) -> ReachEnv:
    sizes = {camera.name: (camera.height, camera.width) for camera in schema.cameras}
    return CrashingEnv(marker, sizes, max_steps or STEP_LIMIT)


class StagedEnv(ReachEnv):
    """Half way to the target is a stage of its own, which the hand may leave again."""

    def step(self, action: np.ndarray) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        info["stage"] = int(self.x > 0.5)
        return observation, reward, terminated, truncated, info


def build_staged(
    schema: Schema,
    sizes: dict[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
    quality: str = "fast",
) -> ReachEnv:
    own = {camera.name: (camera.height, camera.width) for camera in schema.cameras}
    return StagedEnv(sizes or own, max_steps or STEP_LIMIT)


Job = Callable[[int, Callable[[], None]], int]


def make_job(kind: str, once: Path | None = None) -> Job:
    """Make a job that has its trouble always, or only until the file `once` is there."""
    if kind == "no start":
        raise UserError("nothing to start with")
    return partial(do_job, kind, once)


def do_job(kind: str, once: Path | None, number: int, alive: Callable[[], None]) -> int:
    if number == 2 and not (once is not None and once.exists()):
        if once is not None:
            once.touch()
        if kind == "crash":
            os._exit(7)
        if kind == "hang":
            time.sleep(60)
        if kind == "bug":
            raise KeyError("somewhere deep")
        if kind == "bad input":
            raise UserError("file x: broken")
        if kind == "long":
            for _ in range(40):
                time.sleep(0.1)
                alive()
    if kind == "threads":
        return int(os.environ["OMP_NUM_THREADS"])
    return number * number
