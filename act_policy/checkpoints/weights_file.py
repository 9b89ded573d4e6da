"""Which file in a folder holds a policy's weights; no torch, so that the choice costs nothing."""

import hashlib
from pathlib import Path

BUNDLE_WEIGHTS = "model.safetensors"
ONNX_FILE = "policy.onnx"
WEIGHTS_FILES = (BUNDLE_WEIGHTS, "checkpoints/best.ckpt", "checkpoints/last.ckpt")


def find_weights(folder: Path) -> Path | None:
    """The weights of a bundle, else a run's best checkpoint, else its last; None without any."""
    found = (folder / name for name in WEIGHTS_FILES if (folder / name).is_file())
    return next(found, None)


def sha256_of(file: Path) -> str:
    """A file's identity, by its content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
