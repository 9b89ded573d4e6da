"""One ONNX file that is the whole policy: raw observation in, physical actions out.

inputs    observation.images.<camera>     uint8   (b, h, w, 3)
          observation.state               float32 (b, s)
          observation.environment_state   float32 (b, e), where the schema has one
          task                            int64   (b,), where the policy knows several tasks: the
                                          index in the schema's `tasks`, which are words
          action_prefix                   float32 (b, p, a), where the policy knows about committed
                                          actions; NaN where none is. Left out, nothing is
output    action                          float32 (b, k, a), physical units
metadata  format_version, schema (JSON), chunk_length, prefix_length, demonstration_seeds (JSON),
          precision, statistics (JSON), execution (JSON)
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch

from act_policy.control.policies.onnx_policy import ONNX_FORMAT_VERSION, input_names
from act_policy.errors import UserError
from act_policy.export.folding import FoldedPolicy, trace_inputs
from act_policy.model.policy import ACTPolicy
from act_policy.types import ACTION_KEY, PREFIX_KEY

OLDEST_OPSET, NEWEST_OPSET = 17, 20
"""Opset 17, with IR version 8, runs on onnxruntime from 1.12 on."""


def export_onnx(policy: ACTPolicy, path: Path, opset: int = OLDEST_OPSET) -> None:
    """Write the file; the batch size stays free, everything else is fixed by the schema.

    Its IR version is the oldest that has the opset: runtimes refuse those newer than they are.

    Raises:
        UserError: an operator of the network does not exist in the opset.
    """
    example, shapes = trace_inputs(policy)
    names = input_names(policy.schema)
    with silence():
        program = torch.onnx.export(
            FoldedPolicy(policy).eval(),
            example,
            input_names=[*names, PREFIX_KEY] if policy.prefix_length else names,
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
            "prefix_length": str(policy.prefix_length),
            "demonstration_seeds": json.dumps(list(policy.demonstration_seeds)),
            "statistics": json.dumps(policy.statistics.to_dict()),
            "execution": json.dumps(policy.execution.to_dict()),
            "precision": "fp32",
        }
    )
    program.save(str(path), external_data=False)
    if policy.prefix_length:
        model = onnx.load(path)
        _give_prefix_a_default(model, policy.prefix_length, policy.schema.action_size)
        onnx.save(model, path)


def _give_prefix_a_default(model: onnx.ModelProto, length: int, action_size: int) -> None:
    """Let callers leave the prefix out: nothing is committed then.

    A default has a fixed shape, so it is one row of the batch, and is repeated for the others.
    """
    graph, expanded = model.graph, f"{PREFIX_KEY}_of_each"
    for node in graph.node:
        node.input[:] = [expanded if name == PREFIX_KEY else name for name in node.input]
    (prefix,) = (value for value in graph.input if value.name == PREFIX_KEY)
    prefix.type.tensor_type.shape.dim[0].dim_param = "prefixes"
    free = np.full((1, length, action_size), np.nan, np.float32)
    rows = np.array([length, action_size], np.int64)
    graph.initializer.extend(
        [
            onnx.numpy_helper.from_array(free, PREFIX_KEY),
            onnx.numpy_helper.from_array(rows, f"{PREFIX_KEY}_rows"),
        ]
    )
    make = onnx.helper.make_node
    first = [
        make("Shape", [graph.input[0].name], ["batch"], "batch", start=0, end=1),
        make("Concat", ["batch", f"{PREFIX_KEY}_rows"], ["prefix_shape"], "prefix_shape", axis=0),
        make("Expand", [PREFIX_KEY, "prefix_shape"], [expanded], expanded),
    ]
    nodes = [*first, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


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
