"""Which kind of policy a path is, and which file holds its weights; needs no torch."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from act_policy.errors import UserError

BUNDLE_WEIGHTS, BUNDLE_CONFIG = "model.safetensors", "config.json"
ONNX_FILE = "policy.onnx"
OWN_WEIGHTS = (BUNDLE_WEIGHTS, "checkpoints/best.ckpt", "checkpoints/last.ckpt")
"""Of a bundle, else a run's best checkpoint, else its last."""

ORIGINAL_STATISTICS_FILE = "dataset_stats.pkl"
ORIGINAL_WEIGHTS_FILES = ("policy_best.ckpt", "policy_last.ckpt")


def find_weights(path: Path) -> Path:
    """Return the file that holds the weights; its content is the policy's identity.

    Raises:
        UserError: nothing there is a policy.
    """
    if str(path).startswith(("ws:/", "wss:/")):  # pathlib makes one slash of two
        raise UserError(
            f"checkpoint={path}: the weights of a policy server are not here to be read or judged; "
            "give the checkpoint that it serves"
        )
    if path.is_file():
        return path
    if not path.exists():
        raise UserError(f"checkpoint={path} does not exist")
    folder = find_lerobot_folder(path) or path
    names = (*OWN_WEIGHTS, *ORIGINAL_WEIGHTS_FILES, ONNX_FILE)
    if (file := find_first(folder, names)) is None:
        raise UserError(f"checkpoint={path} holds no policy; expected one of {', '.join(names)}")
    return file


def find_first(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that the folder holds; None without any."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_run(path: Path) -> Path | None:
    """Return the run that a checkpoint belongs to; None for a bundle or an ONNX file."""
    file = find_weights(path)
    return file.parent.parent if file.parent.name == "checkpoints" else None


def find_lerobot_folder(path: Path) -> Path | None:
    """Return the folder of a LeRobot run or checkpoint that holds the policy; None for others."""
    run = path / "checkpoints"
    steps = sorted(run.glob("[0-9]*"), key=lambda step: step.name.zfill(20), reverse=True)
    # `last`, then the latest: a copy may have lost the link
    places = [folder / "pretrained_model" for folder in (path, run / "last", *steps)]
    return next(filter(_is_lerobot, [path, *places]), None)


def is_original_act(path: Path) -> bool:
    """Tell whether a folder, or a file in it, is the original ACT's."""
    folder = path if path.is_dir() else path.parent
    return path.exists() and (folder / ORIGINAL_STATISTICS_FILE).is_file()


def identity(path: Path) -> dict[str, Any]:
    """Return path, file and sha256 of the weights: a result names the weights it is of."""
    file = find_weights(path)
    return {"path": str(path), "file": file.name, "sha256": sha256_of(file)}


def sha256_of(file: Path) -> str:
    """Hash a file's content, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_lerobot(folder: Path) -> bool:
    """LeRobot's config.json has a type and no format_version."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "type" in config and "format_version" not in config
