"""Does an exported policy say what the original says? Asked with random raw observations."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from act_policy.model.policy import ACTPolicy
from act_policy.types import FieldStatistics, Observation

BATCH_SIZES = (1, 3, 5)
TOLERANCE = 1e-4
"""Largest error allowed, in standard deviations of each action dimension.

float32 allows no less for actions in degrees.
"""


class ParityError(RuntimeError):
    """An exported policy differs from the original; nothing was written."""


Predict = Callable[[Observation[np.ndarray]], np.ndarray]
"""Turns a batch of raw observations into chunks (b, k, a) in physical units."""


class Parity(NamedTuple):
    """How far one format is from the original, and how fast.

    largest_error: in physical units; largest_error_in_std: in standard deviations.
    latency_ms: median milliseconds for one observation.
    """

    largest_error: float
    largest_error_in_std: float
    latency_ms: float


def random_observation(
    policy: ACTPolicy, batch: int, generator: np.random.Generator
) -> Observation[np.ndarray]:
    """Noise images, and vectors over the whole range that training saw."""

    def vector(field: FieldStatistics) -> np.ndarray:
        shape = (batch, len(field.mean))
        # An imported policy may not know its range.
        low = np.where(np.isnan(field.min), field.mean - 3 * field.std, field.min)
        high = np.where(np.isnan(field.max), field.mean + 3 * field.std, field.max)
        return generator.uniform(low, high, shape).astype(np.float32)

    images = {
        camera.name: generator.integers(
            0, 256, (batch, camera.height, camera.width, 3), dtype=np.uint8
        )
        for camera in policy.schema.cameras
    }
    environment_state = policy.statistics.environment_state
    return Observation(
        images,
        vector(policy.statistics.state),
        None if environment_state is None else vector(environment_state),
    )


def measure_parity(
    policy: ACTPolicy, predict: Predict, name: str, tolerance: float = TOLERANCE
) -> Parity:
    """Compare at every batch size, and time the format at batch 1.

    Raises:
        ParityError: an output differs by more than tolerance standard deviations of its dimension.
    """
    generator = np.random.default_rng(0)
    scale = policy.statistics.scale(policy.statistics.action)
    largest = largest_in_std = 0.0
    for batch in BATCH_SIZES:
        observation = random_observation(policy, batch, generator)
        expected = policy.predict_chunk(observation)
        found = predict(observation)
        if found.shape != expected.shape:
            raise ParityError(
                f"{name}: output {found.shape} at batch {batch}, not {expected.shape}"
            )
        error = np.abs(found.astype(np.float64) - expected)
        in_std = (error / scale).max(axis=(0, 1))
        worst = int(in_std.argmax())
        # Written so that a NaN fails too.
        if not in_std.max() <= tolerance:
            raise ParityError(
                f"{name}: action {policy.schema.action_names[worst]} differs by "
                f"{in_std[worst]:.2e} standard deviations from the original at batch {batch}; "
                f"at most {tolerance:.2g} is allowed"
            )
        largest = max(largest, float(error.max()))
        largest_in_std = max(largest_in_std, float(in_std.max()))
    one = random_observation(policy, 1, generator)
    return Parity(largest, largest_in_std, latency_ms(lambda: predict(one)))


def latency_ms(call: Callable[[], object], repeats: int = 20) -> float:
    """Median duration of a call in milliseconds, after three that are not counted."""
    durations = []
    for _ in range(3 + repeats):
        start = time.perf_counter()
        call()
        durations.append(1000 * (time.perf_counter() - start))
    return median(durations[3:])
