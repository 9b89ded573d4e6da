"""OnnxPolicy on a small hand-made graph: action = mean of the image + state, repeated."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from act_policy import Observation, Schema, UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.execution import Execution
from act_policy.types import Camera

SCHEMA = Schema(
    cameras=(Camera("front", 2, 3),),
    state_names=("x", "y"),
    state_units=("m", "m"),
    action_names=("x", "y"),
    action_units=("m", "m"),
    rate=10.0,
)
DESCRIBED = {"format_version": "1", "schema": json.dumps(SCHEMA.to_dict())}


def write_policy(path: Path, metadata: dict[str, str], camera: str = "front") -> Path:
    """A chunk of 4 rows, each row = state + mean(image)."""
    nodes = [
        helper.make_node("Cast", [f"observation.images.{camera}"], ["image"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "one"], ["mean_b1"]),
        helper.make_node("Add", ["mean_b1", "observation.state"], ["row"]),
        helper.make_node("Unsqueeze", ["row", "one"], ["row_b1a"]),
        helper.make_node("Tile", ["row_b1a", "repeats"], ["action"]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [
            helper.make_tensor_value_info(
                f"observation.images.{camera}", TensorProto.UINT8, ["b", 2, 3, 3]
            ),
            helper.make_tensor_value_info("observation.state", TensorProto.FLOAT, ["b", 2]),
        ],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["b", 4, 2])],
        [
            helper.make_tensor("axes", TensorProto.INT64, [3], [1, 2, 3]),
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
            helper.make_tensor("repeats", TensorProto.INT64, [3], [1, 4, 1]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


@pytest.fixture
def policy(tmp_path: Path) -> OnnxPolicy:
    metadata = {**DESCRIBED, "chunk_length": "4"}
    metadata["demonstration_seeds"] = "[3, 4]"
    metadata["execution"] = json.dumps({"execute_steps": 2, "reason": "tuned"})
    return OnnxPolicy(write_policy(tmp_path / "policy.onnx", metadata), threads=1)


def test_a_single_observation_and_a_batch(policy: OnnxPolicy) -> None:
    image, state = np.full((2, 3, 3), 7, np.uint8), np.array([0.5, -0.5], np.float32)
    single = policy.predict_chunk(Observation({"front": image}, state))
    np.testing.assert_allclose(single, np.tile([[7.5, 6.5]], (4, 1)))
    batch = policy.predict_chunk(
        {
            "observation.images.front": np.stack([image, image * 2, image * 0]),
            "observation.state": np.stack([state] * 3),
        }
    )
    assert batch.shape == (3, 4, 2)
    np.testing.assert_allclose(batch[:, 0, 0], [7.5, 14.5, 0.5])


def test_the_executor_runs_it(policy: OnnxPolicy) -> None:
    assert policy.chunk_length == 4
    assert policy.schema == SCHEMA
    assert policy.demonstration_seeds == (3, 4)
    assert policy.execution == Execution(2, reason="tuned")
    executor = ChunkExecutor(policy)
    assert executor.execute_steps == 2
    observation = Observation({"front": np.zeros((2, 3, 3), np.uint8)}, np.zeros(2, np.float32))
    assert executor.select_action(observation).shape == (2,)


def test_an_observation_of_another_shape_is_refused(policy: OnnxPolicy) -> None:
    observation = Observation({"front": np.zeros((4, 3, 3), np.uint8)}, np.zeros(2, np.float32))
    with pytest.raises(UserError, match=r"observation\.images\.front"):
        policy.predict_chunk(observation)


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        OnnxPolicy(tmp_path / "none.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"not a graph")
    with pytest.raises(UserError, match=r"broken\.onnx: onnxruntime \S+ cannot load it"):
        OnnxPolicy(tmp_path / "broken.onnx")
    newer = write_policy(tmp_path / "newer.onnx", DESCRIBED)
    model = onnx.load(newer)
    model.ir_version = 99
    onnx.save(model, newer)
    with pytest.raises(UserError, match=r"IR version: 99.*exported again with opset=17"):
        OnnxPolicy(newer)
    with pytest.raises(UserError, match="metadata has no schema"):
        OnnxPolicy(write_policy(tmp_path / "foreign.onnx", {"author": "another"}))
    for version in ({}, {"format_version": "2"}):
        later = {"schema": DESCRIBED["schema"], **version}
        with pytest.raises(UserError, match=r"later\.onnx has format version .*, .* reads 1;"):
            OnnxPolicy(write_policy(tmp_path / "later.onnx", later))
    other = write_policy(tmp_path / "other.onnx", DESCRIBED, camera="side")
    with pytest.raises(UserError, match=r"inputs .*side.*expected .*front"):
        OnnxPolicy(other)


def test_another_runtime(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "policy.onnx", DESCRIBED)
    with pytest.raises(UserError, match="runtime=tensorrt: expected onnxruntime or openvino"):
        OnnxPolicy(path, runtime="tensorrt")
    pytest.importorskip("openvino")
    policy = OnnxPolicy(path, threads=1, runtime="openvino")
    image, state = np.full((2, 3, 3), 7, np.uint8), np.array([0.5, -0.5], np.float32)
    first = policy.predict_chunk(Observation({"front": image}, state))
    policy.predict_chunk(Observation({"front": image * 0}, state))
    np.testing.assert_allclose(first, np.tile([[7.5, 6.5]], (4, 1)), atol=0.05)


def test_torch_is_not_imported(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "policy.onnx", DESCRIBED)
    code = (
        "import sys; import numpy as np\n"
        "from act_policy import Observation\n"
        "from act_policy.control.policies.onnx_policy import OnnxPolicy\n"
        f"policy = OnnxPolicy({str(path)!r}, threads=1)\n"
        "images = {'front': np.zeros((2, 3, 3), np.uint8)}\n"
        "policy.predict_chunk(Observation(images, np.zeros(2, np.float32)))\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
