"""Write a policy in the formats asked for, each proven equal to the original first."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.control.onnx_policy import OnnxPolicy
from act_policy.errors import UserError
from act_policy.export import lerobot_files
from act_policy.export.lerobot import load_lerobot, save_lerobot
from act_policy.export.onnx import export_onnx
from act_policy.export.parity import (
    BATCH_SIZES,
    TOLERANCE,
    Parity,
    latency_ms,
    measure_parity,
    random_observation,
)
from act_policy.model.checkpoint import CONFIG_FILE
from act_policy.model.policy import ACTPolicy
from act_policy.model.weights_file import ONNX_FILE

FORMATS = ("bundle", "onnx", "lerobot")
LEROBOT_FOLDER, PARITY_FILE = "lerobot", "parity.json"
MARKS = {
    "bundle": CONFIG_FILE,
    "onnx": ONNX_FILE,
    "lerobot": f"{LEROBOT_FOLDER}/{lerobot_files.CONFIG_FILE}",
}
"""The file by which each format is known to be in a folder."""


def check_formats(formats: Sequence[str]) -> None:
    """Raise UserError unless each format is known and at least one is asked for."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise UserError(f"format is {list(formats)}; expected some of {', '.join(FORMATS)}")


def export_policy(policy: ACTPolicy, folder: Path, formats: Sequence[str]) -> dict[str, Any]:
    """Write the formats and parity.json, and return what parity.json says.

    Everything is made and verified in a hidden folder beside the files it will replace; only when
    all formats agree with the policy is anything moved into place.

    Raises:
        UserError: a format is unknown, or the folder cannot be written or holds another export.
        ParityError: a format does not predict what the policy predicts.
    """
    check_formats(formats)
    for name, mark in MARKS.items():
        if name not in formats and (folder / mark).exists():
            raise UserError(
                f"out={folder} holds an exported {name} ({mark}), which would then be of another "
                f"policy; name {name} in format= too, or give another out="
            )
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    except OSError as error:
        raise UserError(f"out: {folder} cannot be written: {error}") from None
    try:
        measured: dict[str, Parity] = {}
        if "bundle" in formats:
            policy.save(work)
            measured["bundle"] = measure_parity(
                policy, ACTPolicy.load(work).predict_chunk, "bundle"
            )
        if "lerobot" in formats:
            save_lerobot(policy, work / LEROBOT_FOLDER)
            measured["lerobot"] = measure_parity(
                policy, load_lerobot(work / LEROBOT_FOLDER).predict_chunk, "lerobot"
            )
        if "onnx" in formats:
            export_onnx(policy, work / ONNX_FILE)
            measured["onnx"] = measure_parity(
                policy, OnnxPolicy(work / ONNX_FILE).predict_chunk, "onnx"
            )
        one = random_observation(policy, 1, np.random.default_rng(0))
        report = {
            "tolerance_in_std": TOLERANCE,
            "batch_sizes": list(BATCH_SIZES),
            "action_names": list(policy.schema.action_names),
            "eager_latency_ms": latency_ms(lambda: policy.predict_chunk(one)),
            "formats": {name: parity._asdict() for name, parity in measured.items()},
        }
        (work / PARITY_FILE).write_text(json.dumps(report, indent=2) + "\n")
        made = [path.relative_to(work) for path in work.rglob("*") if path.is_file()]
        for path in sorted(made, key=lambda path: path.name == PARITY_FILE):
            (folder / path).parent.mkdir(exist_ok=True)
            os.replace(work / path, folder / path)
    except OSError as error:
        raise UserError(f"out: {folder} cannot be written: {error}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not existed and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return report
