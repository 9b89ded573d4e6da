"""Files of checkpoints: JSON, safetensors and torch's archives. No code in them is run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from act_policy.errors import UserError


def read_json(path: Path) -> dict[str, Any]:
    """Read an object; UserError if there is none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not isinstance(plain, dict):
        raise UserError(f"{path} does not hold a JSON object")
    return plain


def to_json(plain: Mapping[str, Any]) -> bytes:
    """Write an object, to be read by people as well."""
    return (json.dumps(plain, indent=2) + "\n").encode()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; UserError if there is none."""
    try:
        found: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    return found


def read_checkpoint(path: Path, mmap: bool = True) -> Mapping[str, Any]:
    """Read a dictionary that torch saved.

    mmap: tensors stay on disk until they are used; files of torch before 1.6 do not allow it.
    """
    try:
        found: object = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # an archive may be broken in any way
        raise UserError(f"{path} cannot be read as a checkpoint: {error}") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{path} is not a checkpoint: it holds no dictionary")
    return found


def read_state_dict(path: Path) -> Mapping[str, Tensor]:
    """Read a state dict (names to tensors) from a safetensors file or torch's."""
    is_safe = path.suffix == ".safetensors"
    found = read_tensors(path) if is_safe else read_checkpoint(path, mmap=False)
    if not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{path} is not a state dict (names to tensors)")
    return found


def list_misfits(found: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """List the tensors that are missing, unknown or of another shape than expected."""
    shapes = {name: tuple(found[name].shape) for name in sorted(found)}
    return [
        *(f"missing {name} {shape}" for name, shape in expected.items() if name not in shapes),
        *(f"unknown {name} {shape}" for name, shape in shapes.items() if name not in expected),
        *(
            f"{name} is {shapes[name]} instead of {shape}"
            for name, shape in expected.items()
            if shapes.get(name, shape) != shape
        ),
    ]
