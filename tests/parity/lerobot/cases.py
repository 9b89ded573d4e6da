"""Policies that LeRobot can run, made the same in two environments: numpy only.

Weights and observations follow from names, by uniform numbers, which every platform draws alike.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

BATCH, STATE, ACTION, ENVIRONMENT_STATE = 2, 5, 3, 4
CAMERAS = {"observation.images.wrist": (40, 56), "observation.images.top": (32, 48)}
CONSTANT = np.float32(0.3)
"""The first joint never moves."""

SMALL: dict[str, Any] = {
    "chunk_size": 4,
    "n_action_steps": 4,
    "dim_model": 16,
    "n_heads": 2,
    "dim_feedforward": 24,
    "n_encoder_layers": 1,
    "n_decoder_layers": 1,
    "latent_dim": 4,
    "n_vae_encoder_layers": 1,
    "dropout": 0.0,
    "pretrained_backbone_weights": None,
    "device": "cpu",
}


def modes(visual: str, state: str, action: str, **more: str) -> dict[str, str]:
    return {"VISUAL": visual, "STATE": state, "ACTION": action, **more}


CASES: dict[str, dict[str, Any]] = {
    "pre_norm_gelu_deep": {
        "pre_norm": True,
        "feedforward_activation": "gelu",
        "n_encoder_layers": 2,
        "n_decoder_layers": 3,
        "n_vae_encoder_layers": 2,
        "normalization_mapping": modes("MEAN_STD", "MEAN_STD", "MEAN_STD"),
    },
    "no_vae_environment_state": {
        "use_vae": False,
        "latent_dim": 7,
        "environment_state": True,
        "normalization_mapping": modes("MIN_MAX", "QUANTILE10", "QUANTILE10", ENV="MIN_MAX"),
    },
    # LeRobot's default mapping does not name ENV: it stays as it is.
    "identity": {
        "environment_state": True,
        "normalization_mapping": modes("IDENTITY", "IDENTITY", "IDENTITY"),
    },
    "single_image": {
        "single_image": True,
        "normalization_mapping": modes("QUANTILES", "QUANTILES", "MIN_MAX"),
    },
    "resnet34_min_max": {
        "vision_backbone": "resnet34",
        "normalization_mapping": modes("MEAN_STD", "MIN_MAX", "QUANTILES"),
    },
    "resnet50": {
        "vision_backbone": "resnet50",
        "normalization_mapping": modes("MEAN_STD", "MEAN_STD", "MEAN_STD"),
    },
}


def config(case: str) -> dict[str, Any]:
    """Fields of LeRobot's ACTConfig, without the features."""
    own = {k: v for k, v in CASES[case].items() if k not in ("environment_state", "single_image")}
    return {**SMALL, **own}


def features(case: str) -> dict[str, tuple[str, list[int]]]:
    """Key -> kind and shape, the action last."""
    cameras = {"observation.image": (32, 48)} if CASES[case].get("single_image") else CAMERAS
    found: dict[str, tuple[str, list[int]]] = {"observation.state": ("STATE", [STATE])}
    found |= {key: ("VISUAL", [3, *size]) for key, size in cameras.items()}
    if CASES[case].get("environment_state"):
        found["observation.environment_state"] = ("ENV", [ENVIRONMENT_STATE])
    return {**found, "action": ("ACTION", [ACTION])}


def uniform(name: str, shape: Iterable[int], low: float, high: float) -> np.ndarray:
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return generator.uniform(low, high, tuple(shape)).astype(np.float32)


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A weight that keeps the signal's size, so that every layer matters."""
    if name.endswith("running_var"):
        return uniform(name, shape, 0.5, 1.5)
    if len(shape) == 1:
        return uniform(name, shape, -0.1, 0.1) + np.float32(name.endswith("weight"))
    if "embed" in name:
        return uniform(name, shape, -1, 1)
    limit = math.sqrt(3 / math.prod(shape[1:]))
    return uniform(name, shape, -limit, limit)


def statistics(case: str) -> dict[str, dict[str, np.ndarray]]:
    """Of every feature, everything that LeRobot's datasets know."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, (kind, shape) in features(case).items():
        size = (3, 1, 1) if kind == "VISUAL" else tuple(shape)
        centre = uniform(f"{key} mean", size, 0.2, 0.8)
        spread = uniform(f"{key} std", size, 0.2, 0.4)
        mode = CASES[case]["normalization_mapping"].get(kind)
        if kind in ("STATE", "ACTION") and (kind == "STATE" or mode == "MEAN_STD"):
            centre[0], spread[0] = CONSTANT, 0
        found[key] = {"mean": centre, "std": spread}
        for name, factor in (("min", -3), ("q01", -2), ("q10", -1), ("q90", 1), ("q99", 2)):
            found[key][name] = centre + np.float32(factor) * spread
        found[key]["max"] = centre + np.float32(3) * spread
    return found


def batch(case: str) -> dict[str, np.ndarray]:
    """Raw observations (images uint8 CHW), actions and their padding."""
    found: dict[str, np.ndarray] = {}
    for key, (kind, shape) in features(case).items():
        if kind == "VISUAL":
            pixels = uniform(key, (BATCH, *shape), 0, 256)
            found[key] = pixels.astype(np.uint8)
        elif kind == "ACTION":
            found[key] = uniform(key, (BATCH, SMALL["chunk_size"], ACTION), -1, 1)
        else:
            found[key] = uniform(key, (BATCH, *shape), -1, 1)
    found["observation.state"][:, 0] = CONSTANT
    found["action_is_pad"] = np.zeros((BATCH, SMALL["chunk_size"]), dtype=bool)
    found["action_is_pad"][1, -1] = True
    return found


def digest_of_shapes(shapes: dict[str, tuple[int, ...]]) -> str:
    """What tensors there are, in 64 characters."""
    lines = [f"{name} {list(shape)}" for name, shape in sorted(shapes.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def digest_of_folder(folder: Path, tensors: dict[str, dict[str, np.ndarray]]) -> str:
    """What a checkpoint says, in 64 characters; tensors: file -> name -> array.

    Left out is the table of sines, in whose last digit platforms may differ.
    """
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.json")):
        plain = json.dumps(json.loads(path.read_text()), sort_keys=True)
        found.update(f"{path.name}\n{plain}\n".encode())
    for file, arrays in sorted(tensors.items()):
        for name, array in sorted(arrays.items()):
            if not name.endswith("vae_encoder_pos_enc"):
                found.update(f"{file} {name} {array.dtype} {array.shape}\n".encode())
                found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
