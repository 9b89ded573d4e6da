"""A policy that knows several tasks, in every format that can be asked for one."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.control.policies.onnx_policy import OnnxPolicy, batched_inputs, input_names
from act_policy.errors import UserError
from act_policy.export.export import ExportConfig, export_policy
from act_policy.export.parity import measure_parity, random_observation
from act_policy.export.policy_package import write_package
from act_policy.export.pt2 import Pt2Policy
from act_policy.model.policy import ACTPolicy
from tests.export.export_for_tests import make_policy

TASKS = ("open it", "close it", "leave it")


@pytest.fixture(scope="module")
def policy() -> ACTPolicy:
    return make_policy(tasks=TASKS, prefix_length=2)


def test_random_observations_ask_for_every_task(policy: ACTPolicy) -> None:
    task = random_observation(policy, 200, np.random.default_rng(0)).task
    assert set(task.tolist()) == {0, 1, 2}


def test_its_inputs_end_with_the_task_before_what_may_be_left_out(policy: ACTPolicy) -> None:
    assert input_names(policy.schema)[-1] == "task"
    one = random_observation(policy, 1, np.random.default_rng(0)).map(lambda x: x[0])
    inputs, single = batched_inputs(policy.schema, one._replace(task="close it"), 2)
    assert single
    assert (inputs[-2].dtype, inputs[-2].tolist()) == (np.int64, [1])


def test_a_bundle_keeps_the_words(policy: ACTPolicy, tmp_path: Path) -> None:
    policy.save(tmp_path)
    loaded = ACTPolicy.load(tmp_path)
    assert loaded.schema.tasks == TASKS
    measure_parity(policy, loaded.predict_chunk, "bundle")


def test_others_cannot_express_it(policy: ACTPolicy, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="3 tasks: its network has no token for a task"):
        save_lerobot(policy, tmp_path)
    with pytest.raises(UserError, match="policy_package: the policy is told one of 3 tasks"):
        write_package(policy, tmp_path / "policy.onnx", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_every_format_is_asked_by_name(policy: ACTPolicy, tmp_path: Path) -> None:
    config = ExportConfig(["bundle", "onnx", "pt2"], ["fp32", "fp16", "int8"], max_error=0.2)
    export_policy(policy, tmp_path, config)
    one = random_observation(policy, 1, np.random.default_rng(0)).map(lambda x: x[0])
    scale = policy.statistics.scale(policy.statistics.action)
    file = tmp_path / "policy.onnx"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [node.name for node in session.get_inputs()] == input_names(policy.schema)
    for exported in (OnnxPolicy(file), Pt2Policy(tmp_path / "policy.pt2")):
        assert exported.schema.tasks == TASKS
        chunks = []
        for task in TASKS:
            asked = one._replace(task=task)
            chunks.append(exported.predict_chunk(asked))
            assert np.abs((chunks[-1] - policy.predict_chunk(asked)) / scale).max() < 1e-4
        assert np.abs((chunks[0] - chunks[1]) / scale).max() > 1e-3
        with pytest.raises(UserError, match="'shut it' is unknown"):
            exported.predict_chunk(one._replace(task="shut it"))
