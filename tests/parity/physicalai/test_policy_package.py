"""Policy packages say what the runtime physicalai 0.3.0 said when it ran them.

physicalai_0_3_0.json holds its answers (record.py): it loaded these packages with
`InferenceModel(folder)` and predicted from the raw observation of its own runtime.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy.export.policy_package import PackagePolicy, describe, package_names
from tests.parity.physicalai.cases import RECORD, observation_of, policies
from tests.paths import ROOT
from tests.tolerance import RESNET18, network_rounding

RECORDED: dict[str, Any] = json.loads(RECORD.read_text())
POLICIES = policies()


@pytest.mark.parametrize("case", POLICIES)
def test_the_runtime_predicted_what_the_policy_predicts(case: str) -> None:
    policy, recorded = POLICIES[case], RECORDED[case]
    scale = policy.statistics.scale(policy.statistics.action)
    expected = policy.predict_chunk(observation_of(policy))
    tolerance = network_rounding(RESNET18, np.max(np.abs(expected) / scale))
    assert (np.abs(np.array(recorded["actions"]) - expected) / scale).max() <= tolerance
    # What it read from the package is what we write.
    schema = policy.schema
    assert sorted(package_names(schema).values()) == sorted(recorded["inputs"])
    manifest = describe(schema, policy.chunk_length)
    assert manifest["model"]["runner"]["init_args"]["chunk_size"] == recorded["chunk_size"]
    (robot,) = manifest["hardware"]["robots"]
    assert robot["action"]["order"] == recorded["action_names"]
    assert [c["name"] for c in manifest["hardware"]["cameras"]] == recorded["cameras"]


@pytest.mark.slow
@pytest.mark.parametrize("case", POLICIES)
def test_the_package_that_is_exported_today(case: str, tmp_path: Path) -> None:
    policy, recorded = POLICIES[case], RECORDED[case]
    policy.save(tmp_path / "bundle")
    config = [f"checkpoint={tmp_path / 'bundle'}", "format=policy_package"]
    done = subprocess.run(
        [sys.executable, "scripts/export_policy.py", *config, f"out={tmp_path / 'out'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    package = PackagePolicy(tmp_path / "out" / "policy_package")
    scale = policy.statistics.scale(policy.statistics.action)
    chunk = package.predict_chunk(observation_of(policy))
    tolerance = network_rounding(RESNET18, np.max(np.abs(chunk) / scale))
    assert (np.abs(chunk - np.array(recorded["actions"])) / scale).max() <= tolerance
