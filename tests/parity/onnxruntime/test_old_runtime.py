"""Old onnxruntimes with numpy 1 ran our ONNX files, and predicted what the policy predicts.

onnxruntime_VERSION.json holds their answers (record.py), by OnnxPolicy in environments with nothing
but numpy and onnxruntime. That today's files have the opset and IR version of those is
tests/export/test_export.py's to check.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy.export.export import MAX_ERROR, ONNX_FILES
from tests.parity.peers import largest_error
from tests.parity.physicalai.cases import observation_of, policies
from tests.tolerance import RESNET18, network_rounding

RECORDS = sorted(Path(__file__).parent.glob("onnxruntime_*.json"))
RECORDED: dict[str, dict[str, Any]] = {p.stem: json.loads(p.read_text()) for p in RECORDS}
POLICIES = policies()


def test_the_environments_were_old_ones() -> None:
    versions = {record["onnxruntime"].rpartition(".")[0] for record in RECORDED.values()}
    assert versions == {"1.16", "1.17"}
    assert all(record["numpy"].startswith("1.") for record in RECORDED.values())


@pytest.mark.parametrize("runtime", RECORDED)
@pytest.mark.parametrize("case", POLICIES)
def test_an_old_runtime_predicted_what_the_policy_predicts(runtime: str, case: str) -> None:
    policy = POLICIES[case]
    scale = policy.statistics.scale(policy.statistics.action)
    expected = policy.predict_chunk(observation_of(policy))
    rounding = network_rounding(RESNET18, np.max(np.abs(expected) / scale))
    for precision, file in ONNX_FILES.items():
        error = largest_error(policy, RECORDED[runtime][case][file]["actions"])
        assert error <= (rounding if precision == "fp32" else MAX_ERROR)
