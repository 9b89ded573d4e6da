"""One ONNX file that is the whole policy: raw observation in, physical actions out.

inputs    observation.images.<camera>     uint8   (b, h, w, 3)
          observation.state               float32 (b, s)
          observation.environment_state   float32 (b, e), where the schema has one
output    action                          float32 (b, k, a), physical units
metadata  format_version, schema (JSON), chunk_length, demonstration_seeds (JSON), statistics (JSON)
"""

import copy
import json
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from act_policy.control.onnx_policy import ONNX_FORMAT_VERSION
from act_policy.model.checkpoint import statistics_to_dict
from act_policy.model.policy import ACTPolicy
from act_policy.types import (
    ACTION_KEY,
    ENVIRONMENT_STATE_KEY,
    IMAGE_PREFIX,
    STATE_KEY,
    Observation,
)


class _PositionalPolicy(nn.Module):
    """The policy with its inputs in a row, as an exporter wants them."""

    def __init__(self, policy: ACTPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *inputs: Tensor) -> Tensor:
        names = self.policy.schema.camera_names
        images, vectors = inputs[: len(names)], inputs[len(names) :]
        observation = Observation(dict(zip(names, images, strict=True)), *vectors)
        actions: Tensor = self.policy(observation)
        return actions


def input_names(policy: ACTPolicy) -> list[str]:
    """Names of the inputs: the cameras in the schema's order, then the vectors."""
    names = [f"{IMAGE_PREFIX}{camera}" for camera in policy.schema.camera_names]
    vectors = [
        STATE_KEY,
        *([ENVIRONMENT_STATE_KEY] if policy.config.environment_state_size else []),
    ]
    return names + vectors


def export_onnx(policy: ACTPolicy, path: Path) -> None:
    """Write the file; the batch size stays free, everything else is fixed by the schema."""
    policy = copy.deepcopy(policy).cpu().eval()
    names = input_names(policy)
    example: list[Tensor] = [
        torch.zeros(2, camera.height, camera.width, 3, dtype=torch.uint8)
        for camera in policy.schema.cameras
    ]
    example.append(torch.zeros(2, policy.config.state_size))
    if policy.config.environment_state_size:
        example.append(torch.zeros(2, policy.config.environment_state_size))
    batch = torch.export.Dim("b", min=1, max=2**16)
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            # The exporter tells its own developers about its inner workings.
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _PositionalPolicy(policy).eval(),
                tuple(example),
                input_names=names,
                output_names=[ACTION_KEY],
                dynamic_shapes={"inputs": tuple({0: batch} for _ in example)},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    program.model.metadata_props.update(
        {
            "format_version": ONNX_FORMAT_VERSION,
            "schema": json.dumps(policy.schema.to_dict()),
            "chunk_length": str(policy.chunk_length),
            "demonstration_seeds": json.dumps(list(policy.demonstration_seeds)),
            "statistics": json.dumps(statistics_to_dict(policy.statistics)),
        }
    )
    program.save(str(path), external_data=False)
