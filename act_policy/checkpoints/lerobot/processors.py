"""Normalisation in a LeRobot checkpoint: in the weights up to 0.3, in processors since 0.4."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from act_policy.checkpoints.files import read_json, read_tensors, to_json
from act_policy.checkpoints.lerobot.config import CONFIG_FILE, MODES
from act_policy.checkpoints.lerobot.statistics import (
    EPS,
    Normalisation,
    PolicyFeature,
    from_statistics,
)
from act_policy.errors import UserError
from act_policy.statistics import Statistics
from act_policy.types import ACTION_KEY, IMAGE_PREFIX

PREPROCESSOR_FILE, POSTPROCESSOR_FILE = "policy_preprocessor.json", "policy_postprocessor.json"
RENAMING = "rename_observations_processor"
NORMALIZER_FILE = "policy_preprocessor_step_3_normalizer_processor.safetensors"
UNNORMALIZER_FILE = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"


def from_weights(
    described: Mapping[str, Any], features: Mapping[str, PolicyFeature], weights: dict[str, Tensor]
) -> Normalisation:
    """Take LeRobot 0.3's statistics out of the weights."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for key in features:
        buffer = f"buffer_{key.replace('.', '_')}"
        targets = ("unnormalize_outputs", "normalize_targets")
        modules = targets if key == ACTION_KEY else ("normalize_inputs",)
        for module in modules:
            for name in [n for n in weights if n.rpartition(".")[0] == f"{module}.{buffer}"]:
                value = weights.pop(name).double().numpy()
                statistic = name.rpartition(".")[2]
                earlier = found.setdefault(key, {}).setdefault(statistic, value)
                if not np.array_equal(earlier, value):
                    raise UserError(f"{key}.{statistic} differs between {' and '.join(modules)}")
    modes = _modes(described["normalization_mapping"], features)
    return Normalisation(modes, found, widened=True)


def from_processors(folder: Path, features: Mapping[str, PolicyFeature]) -> Normalisation:
    """Read LeRobot 0.4's processor files; steps that change anything else are refused."""
    before = _normalizer(folder, PREPROCESSOR_FILE, "normalizer_processor")
    after = _normalizer(folder, POSTPROCESSOR_FILE, "unnormalizer_processor")
    modes, values = _modes(before["norm_map"], features), _values(before, folder)
    action_modes, action_values = _modes(after["norm_map"], features), _values(after, folder)
    only = before.get("normalize_observation_keys")
    for key, feature in features.items():
        step = after if key == ACTION_KEY else before
        described = step["features"].get(key)
        if described is None or tuple(described["shape"]) != feature.shape:
            raise UserError(f"{key}: the processors do not normalise what {CONFIG_FILE} describes")
        if only is not None and key != ACTION_KEY and key not in only:
            modes[key] = "IDENTITY"
    if before["eps"] != after["eps"] or modes[ACTION_KEY] != action_modes[ACTION_KEY]:
        raise UserError(f"{PREPROCESSOR_FILE} and {POSTPROCESSOR_FILE} normalise differently")
    there, back = (found.get(ACTION_KEY, {}) for found in (values, action_values))
    if differ := [n for n in back if n in there and not np.array_equal(there[n], back[n])]:
        raise UserError(
            f"{ACTION_KEY}: {', '.join(differ)} differ between {PREPROCESSOR_FILE} and "
            f"{POSTPROCESSOR_FILE}"
        )
    return Normalisation(modes, {**values, ACTION_KEY: back}, float(before["eps"]))


def read_renaming(folder: Path, cameras: Iterable[str]) -> dict[str, str]:
    """Return for each camera's feature the one that the preprocessor makes it of, if another.

    LeRobot renames what a robot or a dataset gives before anything else (`rename_map`).

    Raises:
        UserError: two features would become one.
    """
    if not (folder / PREPROCESSOR_FILE).is_file():
        return {}
    found: dict[str, str] = {}
    for step in read_json(folder / PREPROCESSOR_FILE).get("steps", []):
        if (step.get("registry_name") or step.get("class")) != RENAMING:
            continue
        for given, feature in ((step.get("config") or {}).get("rename_map") or {}).items():
            if feature in cameras and given != feature:
                if feature in found:
                    raise UserError(
                        f"{PREPROCESSOR_FILE}: rename_map makes {feature} of both "
                        f"{found[feature]} and {given}"
                    )
                found[feature] = given
    return found


def _normalizer(folder: Path, file: str, name: str) -> dict[str, Any]:
    """Return the one step that normalises, its settings and state_file in one dictionary."""
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    for step in read_json(folder / file).get("steps", []):
        kind, config = step.get("registry_name") or step.get("class"), step.get("config") or {}
        if kind == name:
            found.append({**config, "state_file": step.get("state_file")})
        elif kind == RENAMING and file == PREPROCESSOR_FILE:
            continue  # see `read_renaming`
        elif not _changes_nothing(kind, config):
            problems.append(f"step {kind} {json.dumps(config)} is not known to us")
    if len(found) != 1:
        problems.append(f"expected one {name}, found {len(found)}")
    elif missing := [key for key in ("eps", "features", "norm_map") if key not in found[0]]:
        problems.append(f"{name} lacks {', '.join(missing)}")
    elif not found[0]["eps"] > 0:
        problems.append(f"{name} has eps {found[0]['eps']}; expected a positive number")
    if problems:
        raise UserError(f"{file}: {'; '.join(problems)}")
    return found[0]


def _changes_nothing(kind: str, config: Mapping[str, Any]) -> bool:
    """Tell whether a step leaves the numbers and their names as they are."""
    if kind == RENAMING:
        return not config.get("rename_map")
    if kind == "device_processor":
        return config.get("float_dtype") in (None, "float32")
    return kind == "to_batch_processor"


def _values(step: Mapping[str, Any], folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Read the statistics of a step; they may be of more features than the policy has."""
    file = step["state_file"]
    if file is None:
        return {}
    if Path(file).name != file:
        raise UserError(f"state_file {file!r} lies outside the checkpoint")
    values: dict[str, dict[str, np.ndarray]] = {}
    for name, tensor in read_tensors(folder / file).items():
        key, _, statistic = name.rpartition(".")
        values.setdefault(key, {})[statistic] = tensor.double().numpy()
    return values


def _modes(mapping: Mapping[str, str], features: Mapping[str, PolicyFeature]) -> dict[str, str]:
    """Give every feature its mode; LeRobot leaves alone what the mapping does not name."""
    return {key: mapping.get(feature.kind, "IDENTITY") for key, feature in features.items()}


def write_processors(
    folder: Path, statistics: Statistics, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    """Write both processors and their statistics, as LeRobot 0.4 makes them for ACT.

    inputs, outputs: features as config.json has them.
    """
    cameras = [key.removeprefix(IMAGE_PREFIX) for key in inputs if key.startswith(IMAGE_PREFIX)]
    flat = {
        f"{key}.{name}": torch.tensor(value)
        for key, field in from_statistics(statistics, cameras).items()
        for name, value in field.items()
    }

    def step(name: str, config: dict[str, Any], state_file: str | None = None) -> dict[str, Any]:
        plain: dict[str, Any] = {"registry_name": name, "config": config}
        return plain if state_file is None else {**plain, "state_file": state_file}

    def normalise(features: dict[str, Any]) -> dict[str, Any]:
        return {"eps": EPS, "features": features, "norm_map": MODES}

    device = step("device_processor", {"device": "cpu", "float_dtype": None})
    before = [
        step(RENAMING, {"rename_map": {}}),
        step("to_batch_processor", {}),
        device,
        step("normalizer_processor", normalise({**inputs, **outputs}), NORMALIZER_FILE),
    ]
    after = [step("unnormalizer_processor", normalise({**outputs}), UNNORMALIZER_FILE), device]
    for file, steps in ((PREPROCESSOR_FILE, before), (POSTPROCESSOR_FILE, after)):
        (folder / file).write_bytes(to_json({"name": Path(file).stem, "steps": steps}))
    for file in (NORMALIZER_FILE, UNNORMALIZER_FILE):
        save_file(flat, folder / file)
