"""Policies and environments of a suite's worker processes; few imports, so that they start soon."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Observation, Schema
from tests.evaluation.evaluation_for_tests import STEP_LIMIT, CrashingEnv, ReachEnv, SeeingPolicy

STATE = FieldStatistics(*(np.ones(1) for _ in range(4)))


class KnowingPolicy(SeeingPolicy):
    statistics = Statistics(STATE, STATE, 100)


class TaskedPolicy(KnowingPolicy):
    """Reaches where it is told to open something, and turns away where to close it."""

    schema = replace(KnowingPolicy.schema, tasks=("Open it", "Close it"))

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        chunk = super().predict_chunk(observation)
        return -chunk if self.schema.task_index(observation.task) == 1 else chunk


class MirroredEnv(ReachEnv):
    """The hand moves the other way, so that the target cannot be reached."""

    def step(self, action: np.ndarray) -> Any:
        return super().step(-action)


def load(path: Path) -> SeeingPolicy:
    return KnowingPolicy(float(path.read_text()))


def load_tasked(path: Path) -> SeeingPolicy:
    return TaskedPolicy(float(path.read_text()))


def build_rows(
    schema: Schema,
    sizes: dict[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
    quality: str = "fast",
    marker: Path | None = None,
) -> ReachEnv:
    sizes = {camera.name: (camera.height, camera.width) for camera in schema.cameras}
    steps = max_steps or STEP_LIMIT
    if schema.environment == "fake/Mirrored-v0":
        return MirroredEnv(sizes, steps)
    return ReachEnv(sizes, steps) if marker is None else CrashingEnv(marker, sizes, steps)
