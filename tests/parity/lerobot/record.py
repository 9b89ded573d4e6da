"""Let LeRobot write policies for us, and load those that we export; keep what it said.

    .venv/bin/python -m tests.parity.lerobot.record PYTHON_THAT_HAS_LEROBOT

Writes tests/parity/lerobot/lerobot_0_4_4.json, which test_checkpoints.py expects: no test needs
LeRobot. Policies: those of cases.py, the samples, and ours with a trained batch norm.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import tests.paths
from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.checkpoints.open import open_network
from act_policy.types import Observation
from tests.parity.lerobot.cases import CASES
from tests.parity.lerobot.checkpoints import (
    RECORD,
    SAMPLES,
    case_observation,
    folder_digest,
    load_sample,
    ours_with_batch_norm,
    random_batch,
    sample_observation,
)
from tests.parity.peers import ask, keep


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = [python, "-m", "tests.parity.lerobot.peer"]
        theirs = ask([*peer, json.dumps({"make": list(CASES), "folder": str(folder / "made")})])
        policies = {case: open_network(folder / "made" / case) for case in CASES}
        observations = {case: case_observation(case) for case in CASES}
        for sample in SAMPLES:
            policies[sample] = load_sample(tests.paths.SAMPLES, sample, folder)
            observations[sample] = sample_observation(tests.paths.SAMPLES, sample)
        policies["batch_norm"] = ours_with_batch_norm()
        observations["batch_norm"] = random_batch(policies["batch_norm"])
        out = folder / "exported"
        for case, policy in policies.items():
            save_lerobot(policy, out / case)
            save_file(keys(observations[case]), out / f"{case}.observation.safetensors")
        loaded = ask([*peer, json.dumps({"load": list(policies), "folder": str(out)})])
        record: dict[str, Any] = {"lerobot": theirs.pop("lerobot"), "written": theirs, "loaded": {}}
        for case, policy in policies.items():
            actions = np.array(loaded[case]["actions"])
            error = float(np.abs(policy.predict_chunk(observations[case]) - actions).max())
            print(f"{case:<28}largest difference {error:.1e} of {np.abs(actions).max():.1f}")
            record["loaded"][case] = {
                "checkpoint": folder_digest(out / case),
                "largest_error": error,
                **loaded[case],
            }
    keep(record, RECORD)


def keys(observation: Observation[Any]) -> dict[str, torch.Tensor]:
    """Under LeRobot's names, images with the channels first."""
    found = {
        f"observation.images.{name}": torch.as_tensor(image).permute(0, 3, 1, 2).contiguous()
        for name, image in observation.images.items()
    }
    found["observation.state"] = torch.as_tensor(observation.state)
    if observation.environment_state is not None:
        found["observation.environment_state"] = torch.as_tensor(observation.environment_state)
    return found


if __name__ == "__main__":
    main(sys.argv[1])
