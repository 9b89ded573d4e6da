"""Positional inputs of an exported policy: the schema's cameras, then the vectors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from act_policy.types import (
    ENVIRONMENT_STATE_KEY,
    IMAGE_PREFIX,
    STATE_KEY,
    Observation,
    Schema,
)


def input_names(schema: Schema) -> list[str]:
    """Names of the inputs, in their order."""
    names = [f"{IMAGE_PREFIX}{camera}" for camera in schema.camera_names]
    names.append(STATE_KEY)
    if schema.environment_state_names:
        names.append(ENVIRONMENT_STATE_KEY)
    return names


def example_inputs(schema: Schema, batch: int = 2) -> tuple[Tensor, ...]:
    """Zeros of every input's shape and dtype, for an exporter to trace with."""
    images = [
        torch.zeros(batch, camera.height, camera.width, 3, dtype=torch.uint8)
        for camera in schema.cameras
    ]
    sizes = [schema.state_size]
    if schema.environment_state_names:
        sizes.append(len(schema.environment_state_names))
    return (*images, *(torch.zeros(batch, size) for size in sizes))


def batched_inputs(
    schema: Schema, observation: Observation[np.ndarray] | Mapping[str, Any]
) -> tuple[list[np.ndarray], bool]:
    """Check an observation; return the inputs with a batch axis, and whether it had none.

    Raises:
        UserError: the observation is not what the schema says.
    """
    observation = schema.check(observation)
    row = [np.ascontiguousarray(observation.images[name]) for name in schema.camera_names]
    row.append(observation.state)
    if observation.environment_state is not None:
        row.append(observation.environment_state)
    single = np.ndim(observation.state) == 1
    return ([array[None] for array in row] if single else row), single
