"""A policy that swings, and the schemas of the fake robots."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from act_policy.types import Camera, Schema

CHUNK_LENGTH = 60
RATE = 30.0
CAMERAS = (Camera("front", 96, 128), Camera("wrist", 96, 128))
ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
SO101_NAMES = tuple(f"{joint}.pos" for joint in ARM)
LEKIWI_NAMES = (*(f"arm_{joint}.pos" for joint in ARM), "x.vel", "y.vel", "theta.vel")


def schema_of(names: Sequence[str], units: Sequence[str], rate: float = RATE) -> Schema:
    """A schema whose actions have the state's names."""
    return Schema(CAMERAS, tuple(names), tuple(units), tuple(names), tuple(units), rate)


SO101 = schema_of(SO101_NAMES, ("deg",) * 5 + ("%",))
LEKIWI = schema_of(LEKIWI_NAMES, ("",) * 9)  # LeRobot's datasets have no units


def write_sine_policy(
    path: Path,
    schema: Schema,
    amplitude: float = 20.0,
    demonstrated: float | None = None,
    levels: bool = False,
) -> Path:
    """Every chunk is one period of a sine, whatever is seen: 2 s, up first.

    The gripper swings about 50. A chunk that is asked for after half a period (`execute_steps` 30)
    begins where the earlier one is. Where an image is all white, the chunk is no number.

    Args:
        path: the ONNX file.
        schema: of the policy.
        amplitude: in degrees; a hundredth of it for velocities.
        demonstrated: amplitude of the demonstrations, by default the same.
        levels: whether it knows the light of the demonstrations, that of the fake arm.
    """
    size = schema.action_size
    names = np.array(schema.action_names)
    centre = np.where(np.char.endswith(names, "gripper.pos"), 50.0, 0.0)
    reach = np.where(np.char.endswith(names, ".vel"), amplitude / 100, amplitude)
    phase = 2 * np.pi * np.arange(CHUNK_LENGTH)[:, None] / CHUNK_LENGTH
    chunk = centre + reach * np.sin(phase)
    usual = reach if demonstrated is None else reach * demonstrated / amplitude
    low, high = (centre - usual).tolist(), (centre + usual).tolist()
    ends = {"min": low, "max": high, "mean": centre.tolist(), "std": (usual / 2).tolist()}
    statistics: dict[str, Any] = {"state": ends, "action": ends, "environment_state": None}
    if levels:
        statistics["image_levels"] = {
            "front": {"mean": [0.28, 0.34], "deviation": [0.05, 0.1], "warmth": [0.06, 0.1]},
            "wrist": {"mean": [0.51, 0.58], "deviation": [0.05, 0.1], "warmth": [-0.1, -0.06]},
        }
    metadata = {
        "format_version": "1",
        "schema": json.dumps(schema.to_dict()),
        "chunk_length": str(CHUNK_LENGTH),
        "statistics": json.dumps({**statistics, "step_count": 600, "std_floor": 0.01}),
    }
    images = [f"observation.images.{camera.name}" for camera in schema.cameras]
    nodes = []
    for i, image in enumerate(images):
        nodes += [
            helper.make_node("Cast", [image], [f"pixels{i}"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", [f"pixels{i}", "image_axes"], [f"m{i}"], keepdims=0),
        ]
    nodes += [
        helper.make_node("ReduceMean", ["observation.state", "state_axis"], ["m"], keepdims=0),
        helper.make_node("Sum", [*(f"m{i}" for i in range(len(images))), "m"], ["seen"]),
        helper.make_node("Mul", ["m0", "half"], ["steep"]),
        helper.make_node("Exp", ["steep"], ["whiteness"]),  # infinite where all is white
        helper.make_node("Add", ["seen", "whiteness"], ["all"]),
        helper.make_node("Mul", ["all", "zero"], ["nothing"]),
        helper.make_node("Unsqueeze", ["nothing", "last_axes"], ["nothing_b11"]),
        helper.make_node("Add", ["chunk", "nothing_b11"], ["action"]),
    ]
    tensors = [
        helper.make_tensor("image_axes", TensorProto.INT64, [3], [1, 2, 3]),
        helper.make_tensor("state_axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("last_axes", TensorProto.INT64, [2], [1, 2]),
        helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]),
        helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5]),
        helper.make_tensor("chunk", TensorProto.FLOAT, [1, CHUNK_LENGTH, size], chunk.ravel()),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, ["b", c.height, c.width, 3])
        for name, c in zip(images, schema.cameras, strict=True)
    ]
    state = ["b", schema.state_size]
    inputs.append(helper.make_tensor_value_info("observation.state", TensorProto.FLOAT, state))
    shape = ["b", CHUNK_LENGTH, size]
    outputs = [helper.make_tensor_value_info("action", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "policy", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path
