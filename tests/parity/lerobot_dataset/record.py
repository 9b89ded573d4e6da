"""Let LeRobot and rerun open the datasets that we write; keep what they said.

    .venv/bin/python -m tests.parity.lerobot_dataset.record PYTHON_THAT_HAS_LEROBOT [RERUN]

Writes tests/parity/lerobot_dataset/lerobot_dataset_0_4_4.json, which test_written.py expects: no
test needs LeRobot. RERUN is the `rerun` of a `pip install rerun-sdk`; its own reader of LeRobot
folders then runs without a window.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.parity.lerobot_dataset.cases import CASES, RECORD, write_case
from tests.paths import ROOT


def main(python: str, rerun: str | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folders = [write_case(case, Path(name)) for case in CASES]
        record: dict[str, Any] = json.loads(
            call(
                [python, "-m", "tests.parity.lerobot_dataset.peer", *map(str, folders)], name
            ).splitlines()[-1]
        )
        if rerun is not None:
            said = call([rerun, "--version"], name)
            record["rerun"] = {"version": said.split()[1]}
            for folder in folders:
                record["rerun"][folder.name] = read_by_rerun(rerun, folder, name)
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"wrote {RECORD}, {RECORD.stat().st_size // 1024} kB")


def read_by_rerun(rerun: str, folder: Path, home: str) -> dict[str, int]:
    """How many values rerun has of each feature, over all episodes."""
    recording = f"{folder}.rrd"
    call([rerun, "--save", recording, str(folder)], home)
    printed = call([rerun, "rrd", "print", recording], home)
    counts: dict[str, int] = {}
    line = r"with (\d+) rows.* - /(\S+) - data columns: \[(Scalars:scalars|\S+:(?:sample|blob))"
    for rows, feature, _ in re.findall(line, printed):
        counts[feature] = counts.get(feature, 0) + int(rows)
    return counts


def call(command: list[str], home: str) -> str:
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "HOME": home}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | offline
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if sys.argv[2:] else None)
