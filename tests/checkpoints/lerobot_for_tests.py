"""Changes to the files of a checkpoint of LeRobot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

EXPRESSIBLE = {
    "backbone_stages": 4,
    "backbone_width": 1.0,
    "backbone_norm": "frozen_batch",
    "camera_embedding": False,
}
PREPROCESSOR = "policy_preprocessor.json"
STATISTICS = "policy_preprocessor_step_3_normalizer_processor.safetensors"


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON or safetensors file; the other name of the same file keeps what it has."""
    if path.suffix == ".json":
        plain = json.loads(path.read_text())
        changed = change(plain)
        path.unlink()
        path.write_text(json.dumps(plain if changed is None else changed))
    else:
        tensors = load_file(path)
        change(tensors)
        path.unlink()
        save_file(tensors, path)


def step(plain: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in plain["steps"] if s["registry_name"] == name)
    return found


def both_processors(folder: Path, change: Callable[[Any], Any]) -> None:
    for file in (STATISTICS, "policy_postprocessor_step_0_unnormalizer_processor.safetensors"):
        rewrite(folder / file, change)


def change_config(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / "config.json", lambda plain: {**plain, **fields})


def change_weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / "model.safetensors", change)


def change_features(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(plain: dict[str, Any]) -> None:
        change(plain["input_features"])

    return lambda folder: rewrite(folder / "config.json", changed)


def change_step(
    name: str, change: Callable[[dict[str, Any]], Any], file: str = PREPROCESSOR
) -> Callable[[Path], None]:
    return lambda folder: rewrite(
        folder / file, lambda plain: change(step(plain, name)["config"]) and None
    )


def change_statistics(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    return lambda folder: both_processors(folder, change)
