"""Smaller and faster ONNX files, at the price of an error in the actions that is measured.

fp16    half-precision weights and arithmetic: half the file, fast on GPUs. The pixels' and the
        joints' normalisation and the last step to physical units stay fp32: where a joint stands at
        90 degrees, half precision is no finer than 0.06.
int8    8-bit products: a quarter of the file. Convolutions by ranges seen on observations (static),
        matrix products by each input's own range (dynamic). The first convolution and the last
        product stay fp32: they cost little, and an error in them most. Weights have 7 bits:
        processors without VNNI (x86 up to AVX2) add two products of an unsigned and a signed byte
        in 16 bits, and 2 * 255 * 127 does not fit.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import onnx

from act_policy.control.policies.onnx_policy import batched_inputs, input_names
from act_policy.export.onnx import silence
from act_policy.types import ACTION_KEY, TASK_KEY, Observation, Schema

Precision = Literal["fp32", "fp16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

_ELEMENTWISE = (
    *("Cast", "Add", "Sub", "Mul", "Div", "Where"),
    # values move, and stay
    *("Transpose", "Reshape", "Unsqueeze", "Gather", "GatherElements", "Slice"),
    *("Expand", "Concat", "IsNaN"),
)


def to_fp16(source: Path, target: Path) -> None:
    """Convert an exported policy.onnx; inputs and outputs keep their types."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(source)
    kept, _ = _nodes_outside(model)
    converted = convert_float_to_float16(model, keep_io_types=True, node_block_list=kept)
    _save(converted, target, "fp16")


def to_int8(
    source: Path,
    target: Path,
    schema: Schema,
    observations: Iterable[Observation[np.ndarray]],
) -> None:
    """Quantise an exported policy.onnx; the observations show the ranges of the feature maps."""
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static

    _, ends = _nodes_outside(onnx.load(source))
    convolutions = target.with_suffix(".convolutions.onnx")
    options: dict[str, Any] = {
        "nodes_to_exclude": ends,
        "per_channel": True,
        "weight_type": QuantType.QInt8,
        "reduce_range": True,
    }
    try:
        with silence():
            quantize_static(
                source,
                convolutions,
                _Calibration(schema, observations),
                op_types_to_quantize=["Conv"],
                activation_type=QuantType.QUInt8,
                **options,
            )
            quantize_dynamic(
                convolutions,
                target,
                op_types_to_quantize=["MatMul"],
                extra_options={"MatMulConstBOnly": True},
                **options,
            )
    finally:
        convolutions.unlink(missing_ok=True)
    _save(onnx.load(target), target, "int8")


class _Calibration:
    """Observations as onnxruntime's calibration reads them, one after the other."""

    def __init__(self, schema: Schema, observations: Iterable[Observation[np.ndarray]]) -> None:
        names = input_names(schema)
        self._rows: Iterator[dict[str, Any]] = (
            # the feature maps do not depend on committed actions, which have a default
            dict(zip(names, batched_inputs(schema, one._replace(prefix=None))[0], strict=True))
            for one in observations
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self._rows, None)


def _nodes_outside(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    """Name the nodes in physical units, before and after the network, and the network's ends.

    Its ends read the normalised inputs, or write the normalised actions.
    """
    # in physical units, and all that is computed from them by element
    before = {value.name for value in model.graph.input} - {TASK_KEY}
    for node in model.graph.node:  # in topological order
        if node.op_type in _ELEMENTWISE and before & set(node.input):
            before.update(node.output)
    after = {ACTION_KEY}  # and all that it is computed from by element
    for node in reversed(model.graph.node):
        if node.op_type in _ELEMENTWISE and after & set(node.output):
            after.update(node.input)
    physical: list[str] = []
    ends: list[str] = []
    for node in model.graph.node:
        is_elementwise = node.op_type in _ELEMENTWISE
        if before & set(node.output if is_elementwise else node.input) or after & set(node.output):
            (physical if is_elementwise else ends).append(node.name)
    return physical, ends


def _save(model: onnx.ModelProto, path: Path, precision: Precision) -> None:
    for entry in model.metadata_props:
        if entry.key == "precision":
            entry.value = precision
    onnx.save(model, path)
