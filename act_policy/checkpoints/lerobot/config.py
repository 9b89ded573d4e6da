"""LeRobot's config.json: its fields, and what they mean for our network."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from act_policy.checkpoints.files import read_json
from act_policy.checkpoints.lerobot.statistics import PolicyFeature
from act_policy.checkpoints.lerobot.weights import NO_VAE_LATENT_SIZE
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.model.config import ACTConfig
from act_policy.types import ACTION_KEY, ENVIRONMENT_STATE_KEY, IMAGE_PREFIX, STATE_KEY, Camera

CONFIG_FILE = "config.json"
SINGLE_IMAGE_KEY = "observation.image"
MODES = dict.fromkeys(("VISUAL", "STATE", "ACTION", "ENV"), "MEAN_STD")
"""Every kind of feature by mean and deviation, as in the policies that we write."""

_DEFAULTS: dict[str, Any] = {
    "n_obs_steps": 1,
    "chunk_size": 100,
    "n_action_steps": 100,
    "normalization_mapping": {"VISUAL": "MEAN_STD", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"},
    "vision_backbone": "resnet18",
    "replace_final_stride_with_dilation": False,
    "pre_norm": False,
    "dim_model": 512,
    "n_heads": 8,
    "dim_feedforward": 3200,
    "feedforward_activation": "relu",
    "n_encoder_layers": 4,
    "n_decoder_layers": 1,
    "use_vae": True,
    "latent_dim": 32,
    "n_vae_encoder_layers": 4,
    "temporal_ensemble_coeff": None,
    "dropout": 0.1,
}
"""The values that LeRobot gives to fields missing in config.json."""

SIZES = {
    "chunk_size": "chunk_length",
    "dim_model": "width",
    "n_heads": "heads",
    "dim_feedforward": "feedforward_width",
    "n_encoder_layers": "encoder_layers",
    "n_decoder_layers": "decoder_layers",
    "pre_norm": "pre_norm",
    "feedforward_activation": "activation",
    "dropout": "dropout",
    "vision_backbone": "backbone",
}
_WITHOUT_EFFECT: dict[str, Any] = {
    "device": "cpu",
    "use_amp": False,
    "push_to_hub": False,
    "repo_id": None,
    "private": None,
    "tags": None,
    "license": None,
    "pretrained_backbone_weights": None,  # or loading would download them
    "kl_weight": 10.0,
    "optimizer_lr": 1e-5,
    "optimizer_weight_decay": 1e-4,
    "optimizer_lr_backbone": 1e-5,
}
"""Fields of training and bookkeeping, which every LeRobot since 0.3 knows, as we write them."""

_LATER = {"use_peft", "pretrained_path", "pretrained_revision"}


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json, with LeRobot's defaults, and refuse what our network cannot do."""
    plain = read_json(folder / CONFIG_FILE)
    if plain.get("type") != "act":
        raise UserError(f"{CONFIG_FILE} has type {plain.get('type')!r}; only 'act' can be read")
    features = {"type", "input_features", "output_features"}
    known = features | set(_DEFAULTS) | set(_WITHOUT_EFFECT) | _LATER
    if unknown := sorted(set(plain) - known):
        raise UserError(f"{CONFIG_FILE} has unknown fields {', '.join(unknown)}")
    described = {**_DEFAULTS, **plain}
    problems = [
        f"{name}={described.get(name)!r} ({why})"
        for name, works, why in (
            ("n_obs_steps", described["n_obs_steps"] == 1, "LeRobot's ACT takes 1"),
            (
                "replace_final_stride_with_dilation",
                not described["replace_final_stride_with_dilation"],
                "our ResNet has no dilation",
            ),
            (
                "feedforward_activation",
                described["feedforward_activation"] != "glu",
                "glu halves its input, which LeRobot's own layers do not fit: it cannot run there",
            ),
            ("use_vae", isinstance(described["use_vae"], bool), "expected true or false"),
            ("use_peft", not described.get("use_peft"), "merge the adapter into the weights first"),
        )
        if not works
    ]
    if problems:
        raise UserError(f"{CONFIG_FILE}: cannot use {'; '.join(problems)}")
    return described


def read_execution(described: Mapping[str, Any]) -> Execution:
    """Return how LeRobot executes the chunks: n_action_steps and temporal_ensemble_coeff."""
    steps, coefficient = described["n_action_steps"], described["temporal_ensemble_coeff"]
    if coefficient is not None:
        return Execution(None, coefficient, f"{CONFIG_FILE}: temporal_ensemble_coeff")
    if steps >= described["chunk_size"]:
        return Execution()
    return Execution(steps, None, f"{CONFIG_FILE}: n_action_steps")


def read_features(
    folder: Path, described: Mapping[str, Any]
) -> tuple[dict[str, PolicyFeature], dict[str, Camera]]:
    """Return the features that the network reads or predicts, and the cameras among them.

    The cameras' order is that of input_features.
    """
    features: dict[str, PolicyFeature] = {}
    cameras: dict[str, Camera] = {}
    problems: list[str] = []
    inputs, outputs = described.get("input_features"), described.get("output_features")
    if not isinstance(inputs, Mapping) or not isinstance(outputs, Mapping):
        raise UserError(f"{CONFIG_FILE} lacks input_features or output_features")
    for key, plain in (*inputs.items(), *outputs.items()):
        try:
            feature = PolicyFeature(plain["type"], tuple(int(size) for size in plain["shape"]))
        except (KeyError, TypeError, ValueError):
            problems.append(f"{key}: {plain!r} is not a feature with type and shape")
            continue
        if feature.kind == "STATE" and key.startswith("observation.") and key != STATE_KEY:
            say(folder, f"has the feature {key}, which LeRobot's ACT does not read either")
            continue
        name = camera_name(key) if feature.kind == "VISUAL" else None
        if name and len(feature.shape) == 3 and feature.shape[0] == 3:
            cameras[key] = Camera(name, *feature.shape[1:])
        elif (key, feature.kind) not in (
            (STATE_KEY, "STATE"),
            (ENVIRONMENT_STATE_KEY, "ENV"),
            (ACTION_KEY, "ACTION"),
        ) or len(feature.shape) != 1:
            problems.append(f"{key}: {feature.kind} {list(feature.shape)} is nothing ACT can use")
        features[key] = feature
    if ACTION_KEY not in features:
        problems.append(f"{ACTION_KEY} is missing")
    if not cameras:
        problems.append(f"no camera: {IMAGE_PREFIX}<name> of type VISUAL")
    if problems:
        raise UserError(f"{CONFIG_FILE}: features: {'; '.join(problems)}")
    return features, cameras


def camera_name(key: str) -> str | None:
    """Return the name of the camera that a feature is; None for anything else."""
    if key == SINGLE_IMAGE_KEY:
        return "image"
    return key.removeprefix(IMAGE_PREFIX) if key.startswith(IMAGE_PREFIX) else None


def say(folder: Path, what: str) -> None:
    """Tell the user what an import leaves behind or assumes."""
    logging.getLogger(__name__).warning("LeRobot checkpoint %s %s", folder, what)


def inexpressible(config: ACTConfig) -> list[str]:
    """List the fields of a network that LeRobot's ACT does not have, with their values."""
    theirs = {
        "camera_embedding": (False,),
        "backbone_stages": (4,),
        "backbone_width": (1.0,),
        "backbone_norm": ("frozen_batch", "batch"),
    }
    ours = {name: getattr(config, name) for name in theirs}
    return [f"{name}={value}" for name, value in ours.items() if value not in theirs[name]]


def describe_config(config: ACTConfig, execution: Execution) -> dict[str, Any]:
    """Write a network as config.json, in the fields that every LeRobot since 0.3 knows."""
    inputs: dict[str, Any] = {}
    if config.state_size:
        inputs[STATE_KEY] = {"type": "STATE", "shape": [config.state_size]}
    if config.environment_state_size:
        inputs[ENVIRONMENT_STATE_KEY] = {"type": "ENV", "shape": [config.environment_state_size]}
    for camera in config.cameras:
        shape = [3, camera.height, camera.width]
        inputs[IMAGE_PREFIX + camera.name] = {"type": "VISUAL", "shape": shape}
    plain = {
        "type": "act",
        "input_features": inputs,
        "output_features": {ACTION_KEY: {"type": "ACTION", "shape": [config.action_size]}},
        **_DEFAULTS,
        **{theirs: getattr(config, ours) for theirs, ours in SIZES.items()},
        "n_action_steps": execution.execute_steps or config.chunk_length,
        "normalization_mapping": MODES,
        "use_vae": config.latent_size > 0,
        "latent_dim": config.latent_size or NO_VAE_LATENT_SIZE,
        "n_vae_encoder_layers": config.latent_layers or _DEFAULTS["n_vae_encoder_layers"],
        **_WITHOUT_EFFECT,
    }
    if execution.ensemble_coefficient is not None:  # which LeRobot allows with one step only
        plain["n_action_steps"] = 1
        plain["temporal_ensemble_coeff"] = execution.ensemble_coefficient
    return plain
