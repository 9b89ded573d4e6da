"""A small policy with two cameras of different sizes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera, Observation, Schema

SMALL: dict[str, Any] = {
    "chunk_length": 5,
    "width": 16,
    "heads": 2,
    "feedforward_width": 24,
    "encoder_layers": 1,
    "latent_size": 4,
    "latent_layers": 1,
    "backbone_stages": 2,
    "backbone_width": 0.25,
    "backbone_norm": "group",
}

LONGEST_PATH = 2000
"""Terms summed from image to action: five convolutions of 147 to 288, then sums of 16 to 36."""


@pytest.fixture
def schema() -> Schema:
    return Schema(
        cameras=(Camera("top", 32, 48), Camera("wrist", 24, 24)),
        state_names=("x", "y", "gripper"),
        state_units=("m", "m", "1"),
        action_names=("dx", "dy"),
        action_units=("m", "m"),
        rate=10.0,
    )


@pytest.fixture
def statistics() -> Statistics:
    state = FieldStatistics(
        mean=np.array([0.5, -2.0, 0.3]),
        std=np.array([0.1, 50.0, 0.0]),
        min=np.array([0.2, -90.0, 0.3]),
        max=np.array([0.8, 90.0, 0.3]),
    )
    action = FieldStatistics(
        mean=np.array([1.0, 30.0]),
        std=np.array([0.5, 20.0]),
        min=np.array([-1.0, -20.0]),
        max=np.array([2.0, 90.0]),
    )
    return Statistics(state, action, step_count=123)


@pytest.fixture
def make_policy(schema: Schema, statistics: Statistics) -> Callable[..., ACTPolicy]:
    """Build the small policy with some fields changed; the weights are those of seed 0."""

    def make(**fields: Any) -> ACTPolicy:
        torch.manual_seed(0)
        config = ACTConfig.for_schema(schema, **{**SMALL, **fields})
        return ACTPolicy(config, schema, statistics).eval()

    return make


@pytest.fixture
def observation() -> Observation[np.ndarray]:
    """A batch of three."""
    generator = np.random.default_rng(0)
    return Observation(
        {
            "top": generator.integers(0, 256, (3, 32, 48, 3), dtype=np.uint8),
            "wrist": generator.integers(0, 256, (3, 24, 24, 3), dtype=np.uint8),
        },
        generator.normal([0.5, -2.0, 0.3], [0.1, 50.0, 0.01], (3, 3)).astype(np.float32),
    )
