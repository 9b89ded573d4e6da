"""A policy on disk: a bundle folder, or two entries of a training checkpoint.

bundle folder       config.json         {"format_version", "act": ACTConfig, "statistics",
                                        "demonstration_seeds", "execution", "sha256" of the
                                        other two}
                    schema.json         Schema
                    model.safetensors   state dict of ACTPolicy
Lightning .ckpt     "act_policy"        {"format_version", "act", "statistics",
                                        "demonstration_seeds", "execution", "schema"}
                    "policy_weights"    state dict of ACTPolicy to act with (EMA if it was on)

What was tuned after the training, a run holds beside its checkpoints: see `execution_file`.
"""

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor

from act_policy.checkpoints.execution_file import read_run_execution
from act_policy.checkpoints.files import read_checkpoint, read_json, read_tensors, to_json
from act_policy.checkpoints.locate import (
    BUNDLE_CONFIG,
    BUNDLE_WEIGHTS,
    OWN_WEIGHTS,
    find_first,
    sha256_of,
)
from act_policy.errors import UserError, located
from act_policy.execution import Execution
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import Statistics
from act_policy.system.atomic import atomic_file
from act_policy.types import Schema

FORMAT_VERSION = 1
CHECKPOINT_KEY = "act_policy"
WEIGHTS_KEY = "policy_weights"
SCHEMA_FILE = "schema.json"


class SavedPolicy(NamedTuple):
    """A policy as read from files, before it is built.

    weights: ACTPolicy's state dict.
    demonstration_seeds: of the initial states it was shown; evaluation refuses to use them.
    execution: how its chunks are executed by default.
    """

    config: ACTConfig
    schema: Schema
    statistics: Statistics
    weights: Mapping[str, Tensor]
    demonstration_seeds: tuple[int, ...] = ()
    execution: Execution = Execution()


def to_checkpoint(policy: ACTPolicy) -> dict[str, Any]:
    """Make the two entries of a training checkpoint from which the policy is loaded."""
    return {
        CHECKPOINT_KEY: {**_description(policy), "schema": policy.schema.to_dict()},
        WEIGHTS_KEY: policy.state_dict(),
    }


def write_bundle(folder: Path, policy: ACTPolicy) -> None:
    """Write the three files; each appears whole or not at all, the one that binds them last."""
    weights = {key: tensor.cpu().contiguous() for key, tensor in policy.state_dict().items()}
    contents = {BUNDLE_WEIGHTS: save(weights), SCHEMA_FILE: to_json(policy.schema.to_dict())}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents[BUNDLE_CONFIG] = to_json({**_description(policy), "sha256": sums})
    with ExitStack() as files:  # which closes the last that was opened first
        for name in reversed(contents):
            file = files.enter_context(atomic_file(folder / name))
            file.write(contents[name])
            file.flush()  # a full disk shows before anything is replaced


def load_policy(path: Path) -> ACTPolicy:
    """Load what `read_policy` reads, on the CPU and in evaluation mode.

    Nothing is downloaded and no code in the file is run.

    Raises:
        UserError: the path holds no policy, or one that does not fit its own description.
    """
    saved = read_policy(path)
    policy = ACTPolicy(saved.config, saved.schema, saved.statistics)
    policy.demonstration_seeds = saved.demonstration_seeds
    policy.execution = saved.execution
    expected = {key: tensor.clone() for key, tensor in policy.normalizer.state_dict().items()}
    try:
        policy.load_state_dict(dict(saved.weights))
    except RuntimeError as error:
        raise UserError(f"{path}: the weights do not fit the config: {error}") from None
    for key, tensor in expected.items():
        if not torch.equal(policy.normalizer.get_buffer(key), tensor):
            raise UserError(
                f"{path}: the normaliser's {key} in the weights differs from the statistics "
                "beside them; the files do not belong together"
            )
    return policy.eval()


def read_policy(path: Path) -> SavedPolicy:
    """Read a bundle folder, a run folder (its best checkpoint, else its last) or a .ckpt file.

    Raises:
        UserError: nothing there, unreadable, or not written by this project.
    """
    if path.is_dir():
        if (file := find_first(path, OWN_WEIGHTS)) is None:
            raise UserError(f"{path} holds no policy; expected one of {', '.join(OWN_WEIGHTS)}")
        return _read_bundle(path) if file.name == BUNDLE_WEIGHTS else _read_checkpoint(file)
    if not path.is_file():
        raise UserError(f"{path} does not exist; expected a run folder, a checkpoint or a bundle")
    return _read_checkpoint(path)


def _description(policy: ACTPolicy) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "act": policy.config.to_dict(),
        "statistics": policy.statistics.to_dict(),
        "demonstration_seeds": list(policy.demonstration_seeds),
        "execution": policy.execution.to_dict(),
    }


def _parse(where: Path, described: Any, schema: Any, weights: Any) -> SavedPolicy:
    if not isinstance(described, Mapping) or "format_version" not in described:
        raise UserError(f"{where} was not written by act_policy: it has no format_version")
    if described["format_version"] != FORMAT_VERSION:
        raise UserError(
            f"{where} has format version {described['format_version']}, this act_policy reads "
            f"{FORMAT_VERSION}; use the act_policy that wrote it"
        )
    for name, part in (("act", described.get("act")), ("schema", schema)):
        if not isinstance(part, Mapping):
            raise UserError(f"{where}: the part {name!r} is missing")
    with located(where):
        return SavedPolicy(
            ACTConfig.from_dict(described["act"]),
            Schema.from_dict(schema),
            Statistics.from_dict(described.get("statistics") or {}),
            weights,
            tuple(int(seed) for seed in described.get("demonstration_seeds", ())),
            Execution.from_dict(described.get("execution")),
        )


def _read_bundle(folder: Path) -> SavedPolicy:
    weights = read_tensors(folder / BUNDLE_WEIGHTS)
    description = read_json(folder / BUNDLE_CONFIG)
    saved = _parse(folder, description, read_json(folder / SCHEMA_FILE), weights)
    sums = description.get("sha256") or {}
    for name in (BUNDLE_WEIGHTS, SCHEMA_FILE):
        if sha256_of(folder / name) != sums.get(name):
            raise UserError(
                f"{folder / name} is not the one that {BUNDLE_CONFIG} was written with; "
                "export again"
            )
    return saved


def _read_checkpoint(path: Path) -> SavedPolicy:
    checkpoint = read_checkpoint(path)
    if CHECKPOINT_KEY not in checkpoint:
        raise UserError(f"{path} was not written by act_policy: it has no {CHECKPOINT_KEY!r}")
    described = checkpoint[CHECKPOINT_KEY]
    schema = described.get("schema") if isinstance(described, Mapping) else None
    saved = _parse(path, described, schema, checkpoint.get(WEIGHTS_KEY) or {})
    tuned = read_run_execution(path)
    return saved if tuned is None else saved._replace(execution=tuned)
