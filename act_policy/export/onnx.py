"""One ONNX file that is the whole policy: raw observation in, physical actions out.

inputs    observation.images.<camera>     uint8   (b, h, w, 3)
          observation.state               float32 (b, s)
          observation.environment_state   float32 (b, e), where the schema has one
output    action                          float32 (b, k, a), physical units
metadata  format_version, schema (JSON), chunk_length, demonstration_seeds (JSON), precision,
          statistics (JSON)
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from act_policy.control.policies.onnx_policy import ONNX_FORMAT_VERSION, input_names
from act_policy.export.folding import FoldedPolicy, trace_inputs
from act_policy.model.policy import ACTPolicy
from act_policy.types import ACTION_KEY


def export_onnx(policy: ACTPolicy, path: Path) -> None:
    """Write the file; the batch size stays free, everything else is fixed by the schema."""
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
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    program.model.metadata_props.update(
        {
            "format_version": ONNX_FORMAT_VERSION,
            "schema": json.dumps(policy.schema.to_dict()),
            "chunk_length": str(policy.chunk_length),
            "demonstration_seeds": json.dumps(list(policy.demonstration_seeds)),
            "statistics": json.dumps(policy.statistics.to_dict()),
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
