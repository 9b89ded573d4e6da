"""Write a policy in the formats asked for, each proven equal to the original first."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.checkpoints.lerobot.checkpoint import load_lerobot, save_lerobot
from act_policy.checkpoints.lerobot.config import CONFIG_FILE as LEROBOT_CONFIG_FILE
from act_policy.checkpoints.locate import BUNDLE_CONFIG, ONNX_FILE
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.data.selection.demonstrations import RunReading
from act_policy.errors import UserError, writing
from act_policy.export.observations import Observations, demonstrated_observations
from act_policy.export.onnx import NEWEST_OPSET, OLDEST_OPSET, export_onnx
from act_policy.export.parity import (
    BATCH_SIZES,
    TOLERANCE,
    Parity,
    ParityError,
    Predict,
    latency_ms,
    measure_parity,
    random_observation,
)
from act_policy.export.policy_package import MANIFEST_FILE, PackagePolicy, write_package
from act_policy.export.precision import PRECISIONS, Precision, to_fp16, to_int8
from act_policy.export.pt2 import Pt2Policy, export_pt2
from act_policy.model.policy import ACTPolicy
from act_policy.types import stack_observations

FORMATS = ("bundle", "onnx", "pt2", "lerobot", "policy_package")
LEROBOT_FOLDER, PACKAGE_FOLDER = "lerobot", "policy_package"
PT2_FILE, PARITY_FILE = "policy.pt2", "parity.json"
ONNX_FILES: dict[Precision, str] = {
    "fp32": ONNX_FILE,
    "fp16": "policy_fp16.onnx",
    "int8": "policy_int8.onnx",
}
MAX_ERROR = 0.1
"""Largest error of fp16 and int8 by default, in standard deviations of each action."""

OBSERVATIONS = 32
"""Number of observations that calibrate, and of further ones that are compared."""


@dataclass(frozen=True)
class ExportConfig:
    """The formats and precisions to write, and how precise they have to be.

    precisions: of format onnx; those below fp32 may differ by max_error standard deviations of
    each action dimension.
    opset: of the ONNX files.
    observations: folder of demonstrations whose observations calibrate and measure those below
    fp32; None takes random ones.
    reading: how the policy's run read its demonstrations; None where there is no run.
    """

    formats: Sequence[str]
    precisions: Sequence[str] = ("fp32",)
    max_error: float = MAX_ERROR
    observations: str | None = None
    reading: RunReading | None = None
    opset: int = OLDEST_OPSET

    def __post_init__(self) -> None:
        for name, chosen, known in (
            ("format", self.formats, FORMATS),
            ("precision", self.precisions, PRECISIONS),
        ):
            if not chosen or set(chosen) - set(known):
                raise UserError(f"{name} is {list(chosen)}; expected some of {', '.join(known)}")
        if set(self.precisions) != {"fp32"} and "onnx" not in self.formats:
            raise UserError(
                f"precision={list(self.precisions)} is of format onnx; name onnx in format= too"
            )
        if self.observations is not None and set(self.onnx_precisions) <= {"fp32"}:
            raise UserError(
                f"observations={self.observations}: only fp16 and int8 are calibrated with them; "
                "ask for one with precision=, or leave them out"
            )
        if self.opset not in range(OLDEST_OPSET, NEWEST_OPSET + 1):
            raise UserError(
                f"opset is {self.opset}; expected {OLDEST_OPSET} to {NEWEST_OPSET}: the operators "
                f"of the network need {OLDEST_OPSET}"
            )
        if not self.max_error > 0:
            raise UserError(
                f"max_error is {self.max_error}; expected a positive number of standard deviations"
            )

    @property
    def onnx_precisions(self) -> list[Precision]:
        """Those of the ONNX files to write, the most precise first."""
        chosen = self.precisions if "onnx" in self.formats else ()
        return [precision for precision in PRECISIONS if precision in chosen]


def _onnx_name(precision: str) -> str:
    return "onnx" if precision == "fp32" else f"onnx_{precision}"


FORMAT_FILES = {
    "bundle": BUNDLE_CONFIG,
    **{_onnx_name(precision): file for precision, file in ONNX_FILES.items()},
    "pt2": PT2_FILE,
    "lerobot": f"{LEROBOT_FOLDER}/{LEROBOT_CONFIG_FILE}",
    "policy_package": f"{PACKAGE_FOLDER}/{MANIFEST_FILE}",
}
"""The file by which a folder shows that it holds a format."""


def export_policy(policy: ACTPolicy, folder: Path, config: ExportConfig) -> dict[str, Any]:
    """Write the formats and parity.json, and return the content of parity.json.

    Everything is made and verified in a hidden folder beside the files it will replace; only when
    all formats agree with the policy is anything moved into place.

    Raises:
        UserError: the folder cannot be written or holds another export, or the network cannot be
            expressed in a format, or a precision below fp32 differs by more than max_error.
        ParityError: a format does not predict what the policy predicts.
    """
    written = {*config.formats} - {"onnx"} | {_onnx_name(p) for p in config.onnx_precisions}
    for name, file in FORMAT_FILES.items():
        if name not in written and (folder / file).exists():
            format_name = name.partition("_")[0] if name.startswith("onnx") else name
            raise UserError(
                f"out={folder} holds an exported {format_name} ({file}), which would then be of "
                f"another policy; name it in format= (and precision=) too, or give another out="
            )
    existed = folder.exists()
    with writing(f"out={folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
        try:
            measured = write_formats(policy, work, config)
            one = random_observation(policy, 1, np.random.default_rng(0))
            report = {
                "tolerance_in_std": TOLERANCE,
                "max_error_in_std": config.max_error,
                "observations": config.observations or "random",
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
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if not existed and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return report


def write_formats(policy: ACTPolicy, folder: Path, config: ExportConfig) -> dict[str, Parity]:
    """Write every format into an empty folder and measure what was written.

    Raises:
        UserError, ParityError: as `export_policy`.
    """
    written: dict[str, Predict] = {}
    if "bundle" in config.formats:
        policy.save(folder)
        written["bundle"] = ACTPolicy.load(folder).predict_chunk
    if "lerobot" in config.formats:
        save_lerobot(policy, folder / LEROBOT_FOLDER)
        written["lerobot"] = load_lerobot(folder / LEROBOT_FOLDER).predict_chunk
    if "pt2" in config.formats:
        export_pt2(policy, folder / PT2_FILE)
        written["pt2"] = Pt2Policy(folder / PT2_FILE).predict_chunk
    fp32 = folder / ONNX_FILE
    if {"onnx", "policy_package"} & set(config.formats):
        export_onnx(policy, fp32, config.opset)
    if "policy_package" in config.formats:
        write_package(policy, fp32, folder / PACKAGE_FOLDER)
        written["policy_package"] = PackagePolicy(folder / PACKAGE_FOLDER).predict_chunk
    if "fp32" in config.onnx_precisions:
        written["onnx"] = OnnxPolicy(fp32).predict_chunk
    measured = {name: measure_parity(policy, predict, name) for name, predict in written.items()}
    for precision in config.onnx_precisions:
        if precision != "fp32":
            measured[_onnx_name(precision)] = _reduced(policy, fp32, precision, config)
    if "fp32" not in config.onnx_precisions:
        fp32.unlink(missing_ok=True)
    return measured


def _reduced(policy: ACTPolicy, fp32: Path, precision: Precision, config: ExportConfig) -> Parity:
    """Convert policy.onnx to fewer bits, and measure; refused above max_error."""
    generator = np.random.default_rng(1)
    calibrating: Observations
    if config.observations is None:
        calibrating = [random_observation(policy, 1, generator) for _ in range(OBSERVATIONS)]
        comparing = None
    else:
        found = demonstrated_observations(
            config.observations, policy.schema, 2 * OBSERVATIONS, config.reading
        )
        calibrating, comparing = found[::2], [stack_observations(found[1::2] or found)]
    file = fp32.with_name(ONNX_FILES[precision])
    if precision == "fp16":
        to_fp16(fp32, file)
    else:
        to_int8(fp32, file, policy.schema, calibrating)
    try:
        return measure_parity(
            policy,
            OnnxPolicy(file).predict_chunk,
            _onnx_name(precision),
            config.max_error,
            comparing,
        )
    except ParityError as error:
        raise UserError(
            f"precision={precision} is refused, nothing was written: {error}; leave {precision} "
            "out of precision=, or accept more with max_error="
        ) from None
