"""A policy that knows about committed actions, in every format: told, and told nothing."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.control.policies.onnx_policy import OnnxPolicy, batched_inputs, input_names
from act_policy.errors import UserError
from act_policy.export.parity import measure_parity, random_observation
from act_policy.export.policy_package import PackagePolicy
from act_policy.export.pt2 import Pt2Policy
from act_policy.model.policy import ACTPolicy
from tests.export.export_for_tests import export_everything, make_policy

LENGTH = 3


@pytest.fixture(scope="module")
def policy() -> ACTPolicy:
    return make_policy(positions=True, prefix_length=LENGTH, prefix_as="both")


@pytest.fixture(scope="module")
def exported(policy: ACTPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    result = export_everything(policy, folder)
    assert result.returncode == 0, result.stderr
    return folder / "out"


def test_random_observations_have_every_number_of_committed_actions(policy: ACTPolicy) -> None:
    prefix = random_observation(policy, 200, np.random.default_rng(0)).prefix
    assert prefix is not None
    counts = (~np.isnan(prefix).any(-1)).sum(-1)
    assert set(counts) == set(range(LENGTH + 1))


@pytest.mark.slow
def test_every_format_follows_committed_actions(policy: ACTPolicy, exported: Path) -> None:
    made = {
        "bundle": ACTPolicy.load(exported),
        "onnx": OnnxPolicy(exported / "policy.onnx"),
        "pt2": Pt2Policy(exported / "policy.pt2"),
        "package": PackagePolicy(exported / "policy_package"),
    }
    for name, one in made.items():
        assert one.prefix_length == LENGTH
        measure_parity(policy, one.predict_chunk, name)
    for name in ("policy_fp16.onnx", "policy_int8.onnx"):
        reduced = OnnxPolicy(exported / name)
        assert reduced.prefix_length == LENGTH
        measure_parity(policy, reduced.predict_chunk, name, tolerance=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
def test_who_tells_nothing_gets_the_plain_chunk(
    policy: ACTPolicy, exported: Path, batch: int
) -> None:
    observation = random_observation(policy, batch, np.random.default_rng(0))
    observation = observation._replace(prefix=None)
    expected = policy.predict_chunk(observation)
    scale = policy.statistics.scale(policy.statistics.action)
    found = {
        "pt2": Pt2Policy(exported / "policy.pt2").predict_chunk(observation),
        "package": PackagePolicy(exported / "policy_package").predict_chunk(observation),
    }
    session = onnxruntime.InferenceSession(
        exported / "policy.onnx", providers=["CPUExecutionProvider"]
    )
    names = input_names(policy.schema)
    assert [node.name for node in session.get_inputs()] == names
    inputs, _ = batched_inputs(policy.schema, observation)
    found["onnx"] = session.run(["action"], dict(zip(names, inputs, strict=True)))[0]
    for name, chunk in found.items():
        assert np.abs((chunk - expected) / scale).max() < 1e-4, name


def test_lerobot_cannot_express_it(policy: ACTPolicy, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"committed actions \(prefix_length=3\)"):
        save_lerobot(policy, tmp_path)
    assert not list(tmp_path.iterdir())
