"""The smallest policy that still has every part, with random weights."""

from typing import Any

import numpy as np
import torch

from act_policy import ACTPolicy, Schema
from act_policy.model.config import ACTConfig
from act_policy.statistics import FieldStatistics, Statistics

SMALLEST: dict[str, Any] = {
    "chunk_length": 4,
    "width": 16,
    "heads": 2,
    "feedforward_width": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "latent_size": 0,
    "latent_layers": 0,
    "backbone_stages": 1,
    "backbone_width": 0.25,
    "backbone_norm": "group",
}
LONGEST_PATH = 1000
"""Terms summed from image to action: five convolutions of 144, then sums of 16 to 32."""


def smallest_policy(
    schema: Schema, statistics: Statistics | None = None, **fields: Any
) -> ACTPolicy:
    """Weights of seed 0; statistics, when none are given, of mean 0 and deviation 1."""
    torch.manual_seed(0)
    if statistics is None:
        state, action = (_zero_to_one(size) for size in (schema.state_size, schema.action_size))
        statistics = Statistics(state, action, step_count=1)
    config = ACTConfig.for_schema(schema, **SMALLEST | fields)
    return ACTPolicy(config, schema, statistics).eval()


def _zero_to_one(size: int) -> FieldStatistics:
    zeros, ones = np.zeros(size), np.ones(size)
    return FieldStatistics(zeros, ones, -ones, ones)
