"""Other people's software is asked in its own Python, and its answer is kept as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.model.policy import ACTPolicy
from tests.parity.physicalai.cases import observation_of
from tests.paths import ROOT


def ask(command: Sequence[str | Path], **environment: str) -> dict[str, Any]:
    """Run a command; its answer is JSON on the last line of its output."""
    answer: dict[str, Any] = json.loads(call(command, **environment).splitlines()[-1])
    return answer


def call(command: Sequence[str | Path], **environment: str) -> str:
    """Run a command in the repository; what it printed. Its errors end this process."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def keep(record: dict[str, Any], path: Path, indent: int | None = None) -> None:
    """Write a record, and say how large it is."""
    separators = (",", ":") if indent is None else None
    path.write_text(json.dumps(record, indent=indent, separators=separators) + "\n")
    print(f"wrote {path}, {path.stat().st_size // 1024} kB")


def save_observation(policy: ACTPolicy, path: Path) -> None:
    """Write the raw observation of a case: camera names to images, and `state`."""
    observation = observation_of(policy)
    np.savez(path, state=observation.state, **observation.images)


def largest_error(policy: ACTPolicy, actions: Any) -> float:
    """Difference from what the policy predicts there, in standard deviations of each action."""
    expected = policy.predict_chunk(observation_of(policy))
    scale = policy.statistics.scale(policy.statistics.action)
    return float((np.abs(np.array(actions) - expected) / scale).max())
