"""Which file a policy is, and how it is loaded: ONNX, or whatever `export.load` knows."""

from pathlib import Path
from typing import Any

from act_policy.checkpoints.kinds import ORIGINAL_WEIGHTS_FILES, Source, resolve
from act_policy.checkpoints.weights_file import ONNX_FILE, WEIGHTS_FILES, find_weights, sha256_of
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError


def load_policy(path: Path, source: Source | None = None) -> ChunkPolicy:
    """Load a policy of any kind for inference on the CPU; source is what it may not say.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    if (file := weights_file(path)).suffix == ".onnx":
        from act_policy.control.policies.onnx_policy import OnnxPolicy

        return OnnxPolicy(file, threads=1)
    from act_policy.checkpoints import open as load  # only now: an ONNX file needs no torch

    return load.load_policy(path, source)


def weights_file(path: Path) -> Path:
    """Return the file that holds the weights; its content is the policy's identity.

    Raises:
        UserError: nothing there is a policy.
    """
    if path.is_file():
        return path
    if not path.exists():
        raise UserError(f"checkpoint={path} does not exist")
    path = resolve(path)
    if (file := find_weights(path)) is not None:
        return file
    others = (*ORIGINAL_WEIGHTS_FILES, ONNX_FILE)
    for name in others:
        if (path / name).is_file():
            return path / name
    names = ", ".join((*WEIGHTS_FILES, *others))
    raise UserError(f"checkpoint={path} holds no policy; expected one of {names} in it")


def run_folder(path: Path) -> Path | None:
    """Return the run that a checkpoint belongs to, or None for a bundle or an ONNX file."""
    file = weights_file(path)
    return file.parent.parent if file.parent.name == "checkpoints" else None


def identity(path: Path) -> dict[str, Any]:
    """Say which weights were judged, so that a result can be told from a later one's."""
    file = weights_file(path)
    return {"path": str(path), "file": file.name, "sha256": sha256_of(file)}
