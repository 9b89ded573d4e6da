"""Let LeRobot record a dataset with a depth camera, small files and streaming encoding; keep it.

    .venv/bin/python -m tests.parity.lerobot_dataset.record_theirs PYTHON_THAT_HAS_LEROBOT

Writes beside this file what test_theirs.py expects, with LeRobot 0.6 or later:

    theirs_VERSION/         the dataset
    theirs_VERSION.npz      each camera's images, as LeRobot decodes them
    theirs_VERSION.json     what LeRobot says of it, and what it gives for every step
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from tests.parity.lerobot_dataset.cases import RECORDS, offline
from tests.parity.peers import ask, keep


def main(python: str) -> None:
    peer = [python, "-m", "tests.parity.lerobot_dataset.peer"]
    with tempfile.TemporaryDirectory() as name:
        made, images = Path(name) / "theirs", Path(name) / "theirs.npz"
        ask([*peer, json.dumps({"write": str(made)})], **offline(name))
        request = json.dumps({"read": [str(made)], "decoded": str(images)})
        record = ask([*peer, request], **offline(name))
        out = RECORDS / f"theirs_{record['lerobot'].replace('.', '_')}"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out, ignore=shutil.ignore_patterns(".cache", "images"))
        shutil.copyfile(images, out.with_suffix(".npz"))
    keep(record, out.with_suffix(".json"))


if __name__ == "__main__":
    main(sys.argv[1])
