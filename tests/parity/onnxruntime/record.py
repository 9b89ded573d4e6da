"""Run our ONNX files on an old onnxruntime, such as a Jetson's; keep what it predicted.

    .venv/bin/python -m tests.parity.onnxruntime.record PYTHON_THAT_HAS_ONNXRUNTIME

Writes tests/parity/onnxruntime/onnxruntime_VERSION.json, which test_old_runtime.py expects.
The environments:

    python3.11 -m venv ENV && ENV/bin/pip install onnxruntime==1.17.3 'numpy<2'
    python3.11 -m venv ENV && ENV/bin/pip install onnxruntime==1.16.3 'numpy<2'
"""

import sys
import tempfile
from pathlib import Path

from act_policy.export.export import ONNX_FILES, ExportConfig, write_formats
from act_policy.export.precision import PRECISIONS
from tests.parity.peers import ask, keep, largest_error, save_observation
from tests.parity.physicalai.cases import policies
from tests.paths import ROOT


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, policy in policies().items():
            (folder / case).mkdir()
            write_formats(policy, folder / case, ExportConfig(("onnx",), PRECISIONS))
            save_observation(policy, folder / case / "input.npz")
        peer = Path(__file__).with_name("peer.py")
        answer = ask([python, peer, folder], PYTHONPATH=str(ROOT))
    for case, policy in policies().items():
        for precision, file in ONNX_FILES.items():
            found = answer[case][file]
            error = largest_error(policy, found["actions"])
            print(f"{case:<16}{precision:<8}largest difference {error:.1e} standard deviations")
            found["largest_error_in_std"] = error
    version = answer["onnxruntime"].replace(".", "_")
    keep(answer, Path(__file__).with_name(f"onnxruntime_{version}.json"), indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
