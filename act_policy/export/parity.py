"""Compare the actions of an exported policy with the original's, on random raw observations."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics
from act_policy.types import Observation

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

    largest_error: in physical units; largest_error_in_std: in standard deviations of each action;
    mean_error_in_std: over all actions.
    latency_ms: median milliseconds for one observation.
    """

    largest_error: float
    largest_error_in_std: float
    mean_error_in_std: float
    latency_ms: float


def random_observation(
    policy: ACTPolicy, batch: int, generator: np.random.Generator
) -> Observation[np.ndarray]:
    """Draw noise images, and vectors over the whole range that training saw.

    Of each sample of a policy that knows about them, any number of actions is committed. One that
    knows several tasks is asked for any.
    """

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
    environment_state, state = policy.statistics.environment_state, vector(policy.statistics.state)
    others = None if environment_state is None else vector(environment_state)
    prefix = task = None
    if length := policy.prefix_length:
        rows = [vector(policy.statistics.action) for _ in range(length)]
        count = generator.integers(0, length + 1, (batch, 1, 1))
        free = np.arange(length)[None, :, None] >= count
        prefix = np.where(free, np.nan, np.stack(rows, axis=1))
    if policy.schema.chooses_task:
        task = generator.integers(0, len(policy.schema.tasks), batch)
    return Observation(images, state, others, prefix, task)


def measure_parity(
    policy: ACTPolicy,
    predict: Predict,
    name: str,
    tolerance: float = TOLERANCE,
    observations: Sequence[Observation[np.ndarray]] | None = None,
) -> Parity:
    """Compare on batches of observations, random ones of every batch size unless given.

    Raises:
        ParityError: an output differs by more than tolerance standard deviations of its dimension.
    """
    generator = np.random.default_rng(0)
    if observations is None:
        observations = [random_observation(policy, batch, generator) for batch in BATCH_SIZES]
    scale = policy.statistics.scale(policy.statistics.action)
    by_batch = []
    for observation in observations:
        expected, found = policy.predict_chunk(observation), predict(observation)
        if found.shape != expected.shape:
            raise ParityError(f"{name}: output {found.shape}, not {expected.shape}")
        by_batch.append(np.abs(found.astype(np.float64) - expected).reshape(-1, len(scale)))
    errors = np.concatenate(by_batch)
    errors_in_std = errors / scale
    worst = int(errors_in_std.max(axis=0).argmax())
    largest_in_std = float(errors_in_std[:, worst].max())
    if not largest_in_std <= tolerance:  # written so that a NaN fails too
        raise ParityError(
            f"{name}: action {policy.schema.action_names[worst]} differs by {largest_in_std:.2e} "
            f"standard deviations from the original; at most {tolerance:.2g} is allowed"
        )
    one = random_observation(policy, 1, generator)
    return Parity(
        largest_error=float(errors.max()),
        largest_error_in_std=largest_in_std,
        mean_error_in_std=float(errors_in_std.mean()),
        latency_ms=latency_ms(lambda: predict(one)),
    )


def latency_ms(call: Callable[[], object], repeats: int = 20) -> float:
    """Measure the median duration of a call in milliseconds, after three uncounted ones."""
    durations = []
    for _ in range(3 + repeats):
        start = time.perf_counter()
        call()
        durations.append(1000 * (time.perf_counter() - start))
    return median(durations[3:])
