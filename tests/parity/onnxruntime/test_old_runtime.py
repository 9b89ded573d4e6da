"""onnxruntime 1.17.3 with numpy 1.26 ran our ONNX files, and predicted what the policy predicts.

onnxruntime_1_17_3.json holds its answers (record.py), by OnnxPolicy in an environment with nothing
but numpy and onnxruntime. That today's files have the opset and IR version of those is
tests/export/test_export.py's to check.
"""

import json
from typing import Any

import numpy as np
import pytest

from act_policy.export.export import MAX_ERROR, ONNX_FILES
from tests.parity.onnxruntime.record import RECORD
from tests.parity.physicalai.cases import observation_of, policies
from tests.tolerance import RESNET18, network_rounding

RECORDED: dict[str, Any] = json.loads(RECORD.read_text())
POLICIES = policies()


def test_the_environment_was_an_old_one() -> None:
    assert RECORDED["onnxruntime"].startswith("1.17.")
    assert RECORDED["numpy"].startswith("1.")


@pytest.mark.parametrize("case", POLICIES)
def test_an_old_runtime_predicted_what_the_policy_predicts(case: str) -> None:
    policy = POLICIES[case]
    scale = policy.statistics.scale(policy.statistics.action)
    expected = policy.predict_chunk(observation_of(policy))
    rounding = network_rounding(RESNET18, np.max(np.abs(expected) / scale))
    for precision, file in ONNX_FILES.items():
        found = np.array(RECORDED[case][file]["actions"])
        error = (np.abs(found - expected) / scale).max()
        assert error <= (rounding if precision == "fp32" else MAX_ERROR)
