"""Let the runtime physicalai load our policy packages; keep what it predicted.

    .venv/bin/python -m tests.parity.physicalai.record PYTHON_THAT_HAS_PHYSICALAI

Writes tests/parity/physicalai/physicalai_0_3_0.json, which test_policy_package.py expects.
The environment:

    python3.11 -m venv ENV && ENV/bin/pip install physicalai==0.3.0
"""

import sys
import tempfile
from pathlib import Path

from act_policy.export.export import ExportConfig, write_formats
from tests.parity.peers import ask, keep, largest_error, save_observation
from tests.parity.physicalai.cases import RECORD, policies


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, policy in policies().items():
            (folder / "made" / case).mkdir(parents=True)
            write_formats(policy, folder / "made" / case, ExportConfig(("policy_package",)))
            (folder / "made" / case / "policy_package").rename(folder / case)
            save_observation(policy, folder / f"{case}.npz")
        answer = ask([python, Path(__file__).with_name("peer.py"), folder])
    for case, policy in policies().items():
        error = largest_error(policy, answer[case]["actions"])
        print(f"{case:<16}largest difference {error:.1e} standard deviations")
        answer[case]["largest_error_in_std"] = error
    keep(answer, RECORD, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
