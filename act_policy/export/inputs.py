"""Example inputs with which the exporters trace a policy."""

from typing import Any

import torch
from torch import Tensor

from act_policy.types import Schema

LARGEST_BATCH = 2**16


def trace_inputs(schema: Schema, batch: int = 2) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """Make zeros of every input's shape and dtype, and the `dynamic_shapes`: the batch is free."""
    images = [
        torch.zeros(batch, camera.height, camera.width, 3, dtype=torch.uint8)
        for camera in schema.cameras
    ]
    sizes = [schema.state_size]
    if schema.environment_state_names:
        sizes.append(len(schema.environment_state_names))
    inputs = (*images, *(torch.zeros(batch, size) for size in sizes))
    free = torch.export.Dim("b", min=1, max=LARGEST_BATCH)
    return inputs, {"inputs": tuple({0: free} for _ in inputs)}
