"""Let LeRobot and rerun open the datasets that we write; keep what they said.

    .venv/bin/python -m tests.parity.lerobot_dataset.record PYTHON_THAT_HAS_LEROBOT [RERUN]

Writes tests/parity/lerobot_dataset/lerobot_dataset_VERSION.json, which test_written.py expects: no
test needs LeRobot. RERUN is the `rerun` of a `pip install rerun-sdk`; its own reader of LeRobot
folders then runs without a window.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from tests.parity.lerobot_dataset.cases import CASES, RECORDS, offline, write_case
from tests.parity.peers import ask, call, keep


def main(python: str, rerun: str | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folders = [write_case(case, Path(name)) for case in CASES]
        request = json.dumps({"read": [str(folder) for folder in folders]})
        peer = [python, "-m", "tests.parity.lerobot_dataset.peer", request]
        record = ask(peer, **offline(name))
        if rerun is not None:
            said = call([rerun, "--version"], **offline(name))
            record["rerun"] = {"version": said.split()[1]}
            for folder in folders:
                record["rerun"][folder.name] = read_by_rerun(rerun, folder, name)
    keep(record, RECORDS / f"lerobot_dataset_{record['lerobot'].replace('.', '_')}.json")


def read_by_rerun(rerun: str, folder: Path, home: str) -> dict[str, int]:
    """How many values rerun has of each feature, over all episodes."""
    recording = f"{folder}.rrd"
    call([rerun, "--save", recording, folder], **offline(home))
    printed = call([rerun, "rrd", "print", recording], **offline(home))
    counts: dict[str, int] = {}
    line = r"with (\d+) rows.* - /(\S+) - data columns: \[(Scalars:scalars|\S+:(?:sample|blob))"
    for rows, feature, _ in re.findall(line, printed):
        counts[feature] = counts.get(feature, 0) + int(rows)
    return counts


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if sys.argv[2:] else None)
