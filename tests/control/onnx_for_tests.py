"""A policy for tests as an ONNX file: `python -m tests.control.onnx_for_tests FILE.onnx`.

Its chunk repeats the joints it is shown, drawn a little towards 0: a calm arm.
"""

import json
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from act_policy.types import Camera, Schema

SCHEMA = Schema(
    cameras=(Camera("front", 48, 64),),
    state_names=("shoulder.pos", "elbow.pos", "gripper.pos"),
    state_units=("rad", "rad", "0..1"),
    action_names=("shoulder.pos", "elbow.pos", "gripper.pos"),
    action_units=("rad", "rad", "0..1"),
    rate=20.0,
)
CHUNK_LENGTH = 20
LOW, HIGH = [-1.0, -1.0, 0.0], [1.0, 0.5, 1.0]


def write_calm_policy(path: Path, schema: Schema = SCHEMA, statistics: bool = True) -> Path:
    camera = schema.cameras[0]
    size, several = schema.state_size, schema.chooses_task
    bounds = {"min": LOW, "max": HIGH, "mean": [0.0] * size, "std": [0.3] * size}
    metadata = {
        "format_version": "1",
        "schema": json.dumps(schema.to_dict()),
        "chunk_length": str(CHUNK_LENGTH),
    }
    if statistics:
        metadata["statistics"] = json.dumps(
            {
                "state": bounds,
                "action": bounds,
                "environment_state": None,
                "step_count": 100,
                "std_floor": 0.01,
            }
        )
    image = f"observation.images.{camera.name}"
    graph = helper.make_graph(
        [
            helper.make_node("Cast", [image], ["pixels"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["pixels", "image_axes"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
            helper.make_node("Unsqueeze", ["nothing", "one"], ["nothing_b1"]),
            helper.make_node("Mul", ["observation.state", "calm"], ["row"]),
            helper.make_node("Add", ["row", "nothing_b1"], ["row_seen"]),
            helper.make_node("Unsqueeze", ["row_seen", "one"], ["row_b1a"]),
            helper.make_node("Tile", ["row_b1a", "repeats"], ["action"]),
        ],
        "policy",
        [
            helper.make_tensor_value_info(
                image, TensorProto.UINT8, ["b", camera.height, camera.width, 3]
            ),
            helper.make_tensor_value_info("observation.state", TensorProto.FLOAT, ["b", size]),
            *([helper.make_tensor_value_info("task", TensorProto.INT64, ["b"])] if several else []),
        ],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["b", CHUNK_LENGTH, size])],
        [
            helper.make_tensor("image_axes", TensorProto.INT64, [3], [1, 2, 3]),
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
            helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]),
            helper.make_tensor("calm", TensorProto.FLOAT, [1], [0.98]),
            helper.make_tensor("repeats", TensorProto.INT64, [3], [1, CHUNK_LENGTH, 1]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


if __name__ == "__main__":
    write_calm_policy(Path(sys.argv[1]))
