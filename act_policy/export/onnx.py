"""One ONNX file that is the whole policy: raw observation in, physical actions out.

inputs    observation.images.<camera>     uint8   (b, h, w, 3)
          observation.state               float32 (b, s)
          observation.environment_state   float32 (b, e), where the schema has one
output    action                          float32 (b, k, a), physical units
metadata  format_version, schema (JSON), chunk_length, demonstration_seeds (JSON), precision,
          statistics (JSON), execution (JSON)
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import torch

from act_policy.control.policies.onnx_policy import ONNX_FORMAT_VERSION, input_names
from act_policy.errors import UserError
from act_policy.export.folding import FoldedPolicy, trace_inputs
from act_policy.model.policy import ACTPolicy
from act_policy.types import ACTION_KEY

OLDEST_OPSET, NEWEST_OPSET = 17, 20
"""Opset 17, with IR version 8, runs on onnxruntime from 1.12 on."""


def export_onnx(policy: ACTPolicy, path: Path, opset: int = OLDEST_OPSET) -> None:
    """Write the file; the batch size stays free, everything else is fixed by the schema.

    Its IR version is the oldest that has the opset: runtimes refuse those newer than they are.

    Raises:
        UserError: an operator of the network does not exist in the opset.
    """
    example, shapes = trace_inputs(policy.schema)
    with silence():
        program = torch.onnx.export(
            FoldedPolicy(policy).eval(),
            example,
            input_names=input_names(policy.schema),
            output_names=[ACTION_KEY],
            dynamic_shapes=shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
            opset_version=opset,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    reached = program.model.opset_imports[""]
    if reached != opset:  # torch keeps the opset from which it could not convert
        raise UserError(
            f"opset={opset}: this network cannot be expressed in it; choose opset={reached}"
        )
    program.model.ir_version = onnx.helper.find_min_ir_version_for(
        [onnx.helper.make_opsetid("", opset)]
    )
    program.model.metadata_props.update(
        {
            "format_version": ONNX_FORMAT_VERSION,
            "schema": json.dumps(policy.schema.to_dict()),
            "chunk_length": str(policy.chunk_length),
            "demonstration_seeds": json.dumps(list(policy.demonstration_seeds)),
            "statistics": json.dumps(policy.statistics.to_dict()),
            "execution": json.dumps(policy.execution.to_dict()),
            "precision": "fp32",
        }
    )
    program.save(str(path), external_data=False)


@contextmanager
def silence() -> Iterator[None]:
    """Within the context libraries give only errors; the rest is for their own developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
