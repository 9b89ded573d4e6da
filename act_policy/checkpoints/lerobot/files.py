"""Files of a LeRobot checkpoint, and how they are opened."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from act_policy.errors import UserError

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
PREPROCESSOR_FILE, POSTPROCESSOR_FILE = "policy_preprocessor.json", "policy_postprocessor.json"
NORMALIZER_FILE = "policy_preprocessor_step_3_normalizer_processor.safetensors"
UNNORMALIZER_FILE = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
SCHEMA_FILE = "schema.json"
"""Our own file beside LeRobot's: names, units and rate. LeRobot ignores it."""


def read_json(path: Path) -> dict[str, Any]:
    """Read an object; UserError if there is none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(plain, dict):
        raise UserError(f"{path.name} does not hold a JSON object")
    return plain


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; UserError if there is none."""
    try:
        found: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path.name} cannot be read: {error}") from None
    return found
