"""A policy without a state is exported without that input, and predicts the same everywhere."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy.control.policies.onnx_policy import OnnxPolicy, batched_inputs
from act_policy.export.folding import FoldedPolicy, trace_inputs
from act_policy.export.parity import random_observation
from act_policy.export.pt2 import Pt2Policy
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, Schema
from tests.export.export_for_tests import run_script
from tests.policy_for_tests import LONGEST_PATH, smallest_policy
from tests.tolerance import network_rounding

SCHEMA = Schema(
    cameras=(Camera("top", 24, 32), Camera("wrist", 24, 24)),
    state_names=(),
    state_units=(),
    action_names=("x", "y"),
    action_units=("m", "m"),
    rate=10.0,
)


def test_folding_leaves_the_state_out() -> None:
    policy = smallest_policy(SCHEMA)
    observation = random_observation(policy, 3, np.random.default_rng(0))
    inputs, _ = batched_inputs(SCHEMA, observation)
    assert len(inputs) == len(trace_inputs(policy)[0]) == 2
    found = FoldedPolicy(policy).eval()(*map(torch.tensor, inputs)).detach().numpy()
    expected = policy.predict_chunk(observation)
    tolerance = network_rounding(LONGEST_PATH, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.slow
def test_every_format_predicts_from_images_alone(tmp_path: Path) -> None:
    policy = smallest_policy(SCHEMA, latent_size=4, latent_layers=1)
    policy.save(tmp_path / "saved")
    out = tmp_path / "out"
    run_script(f"checkpoint={tmp_path / 'saved'}", f"out={out}", "format=[bundle,onnx,pt2]")
    assert set(json.loads((out / "parity.json").read_text())["formats"]) == {
        *("bundle", "onnx", "pt2")
    }
    observation = random_observation(policy, 3, np.random.default_rng(0))
    assert observation.state.shape == (3, 0)
    expected = policy.predict_chunk(observation)
    tolerance = network_rounding(LONGEST_PATH, np.abs(expected).max())
    onnx = OnnxPolicy(out / "policy.onnx")
    assert onnx._inputs == ["observation.images.top", "observation.images.wrist"]
    for loaded in (ACTPolicy.load(out), onnx, Pt2Policy(out / "policy.pt2")):
        assert loaded.schema == SCHEMA
        found = loaded.predict_chunk(observation)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        by_key = {f"observation.images.{n}": i[0] for n, i in observation.images.items()}
        one = loaded.predict_chunk(by_key | {"observation.state": np.ones(5)})
        np.testing.assert_allclose(one, expected[0], rtol=0, atol=tolerance)
