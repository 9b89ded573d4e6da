"""Run our ONNX files on an old onnxruntime, such as a Jetson's; keep what it predicted.

    .venv/bin/python -m tests.parity.onnxruntime.record PYTHON_THAT_HAS_ONNXRUNTIME

Writes tests/parity/onnxruntime/onnxruntime_1_17_3.json, which test_old_runtime.py expects.
The environment:

    python3.11 -m venv ENV && ENV/bin/pip install onnxruntime==1.17.3 'numpy<2'
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from act_policy.export.export import ONNX_FILES, ExportConfig, write_formats
from act_policy.export.precision import PRECISIONS
from tests.parity.physicalai.cases import observation_of, policies
from tests.paths import ROOT

RECORD = Path(__file__).with_name("onnxruntime_1_17_3.json")


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, policy in policies().items():
            (folder / case).mkdir()
            write_formats(policy, folder / case, ExportConfig(("onnx",), PRECISIONS))
            observation = observation_of(policy)
            np.savez(folder / case / "input.npz", state=observation.state, **observation.images)
        peer = Path(__file__).with_name("peer.py")
        done = subprocess.run(
            [python, str(peer), str(folder)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        if done.returncode:
            sys.exit(done.stderr)
        answer = json.loads(done.stdout.splitlines()[-1])
    for case, policy in policies().items():
        expected = policy.predict_chunk(observation_of(policy))
        scale = policy.statistics.scale(policy.statistics.action)
        for precision, file in ONNX_FILES.items():
            found = answer[case][file]
            error = float((np.abs(np.array(found["actions"]) - expected) / scale).max())
            print(f"{case:<16}{precision:<8}largest difference {error:.1e} standard deviations")
            found["largest_error_in_std"] = error
    RECORD.write_text(json.dumps(answer, indent=1) + "\n")
    print(f"wrote {RECORD}")


if __name__ == "__main__":
    main(sys.argv[1])
