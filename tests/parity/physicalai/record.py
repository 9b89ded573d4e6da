"""Let the runtime physicalai load our policy packages; keep what it predicted.

    .venv/bin/python -m tests.parity.physicalai.record PYTHON_THAT_HAS_PHYSICALAI

Writes tests/parity/physicalai/physicalai_0_3_0.json, which test_policy_package.py expects.
The environment:

    python3.11 -m venv ENV && ENV/bin/pip install physicalai==0.3.0
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from act_policy.export.export import ExportConfig, write_formats
from tests.parity.physicalai.cases import RECORD, observation_of, policies


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, policy in policies().items():
            (folder / "made" / case).mkdir(parents=True)
            write_formats(policy, folder / "made" / case, ExportConfig(("policy_package",)))
            (folder / "made" / case / "policy_package").rename(folder / case)
            observation = observation_of(policy)
            np.savez(folder / f"{case}.npz", state=observation.state, **observation.images)
        peer = Path(__file__).with_name("peer.py")
        done = subprocess.run([python, str(peer), str(folder)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        answer = json.loads(done.stdout.splitlines()[-1])
    for case, policy in policies().items():
        expected = policy.predict_chunk(observation_of(policy))
        scale = policy.statistics.scale(policy.statistics.action)
        error = float((np.abs(np.array(answer[case]["actions"]) - expected) / scale).max())
        print(f"{case:<16}largest difference {error:.1e} standard deviations")
        answer[case]["largest_error_in_std"] = error
    RECORD.write_text(json.dumps(answer, indent=1) + "\n")
    print(f"wrote {RECORD}")


if __name__ == "__main__":
    main(sys.argv[1])
