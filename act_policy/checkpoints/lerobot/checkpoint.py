"""LeRobot's ACT checkpoints, in and out.

    config.json                                  features, sizes, options
    model.safetensors                            weights; up to LeRobot 0.3 statistics as well
    policy_preprocessor.json, ..postprocessor    since 0.4: normalisation, with a file of statistics

n_action_steps and temporal_ensemble_coeff are the policy's execution here.

Sources: lerobot 0.3.3 and 0.4.4, policies/act, policies/normalize.py and processor.
"""

from dataclasses import asdict, replace
from pathlib import Path

from safetensors.torch import save_file

from act_policy.checkpoints.files import read_json, read_tensors, to_json
from act_policy.checkpoints.lerobot.config import (
    CONFIG_FILE,
    SIZES,
    camera_name,
    describe_config,
    inexpressible,
    read_config,
    read_execution,
    read_features,
    say,
)
from act_policy.checkpoints.lerobot.processors import (
    POSTPROCESSOR_FILE,
    PREPROCESSOR_FILE,
    from_processors,
    from_weights,
    read_renaming,
    write_processors,
)
from act_policy.checkpoints.lerobot.statistics import to_statistics
from act_policy.checkpoints.lerobot.weights import from_lerobot, to_lerobot
from act_policy.data.schemas import SchemaSource, read_schema
from act_policy.errors import UserError, located
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.types import ACTION_KEY, ENVIRONMENT_STATE_KEY, STATE_KEY, Schema

WEIGHTS_FILE = "model.safetensors"
SCHEMA_FILE = "schema.json"
"""Our own file beside LeRobot's: names, units and rate. LeRobot ignores it."""

ASSUMED_RATE = 30.0
"""LeRobot's default recording rate in steps per second; a checkpoint does not say its own."""


def load_lerobot(folder: Path, schema: SchemaSource | None = None) -> ACTPolicy:
    """Load a LeRobot ACT checkpoint (its `pretrained_model` folder).

    Args:
        folder: holds config.json and model.safetensors.
        schema: names, units and rate, which LeRobot does not save; None reads the schema.json that
            our own export puts there, or numbers the joints and assumes 30 steps per second.

    Raises:
        UserError: something is unknown, missing, of another shape, or not in our network.
    """
    with located(f"LeRobot checkpoint {folder}"):
        described = read_config(folder)
        features, cameras = read_features(folder, described)
        for key, given in read_renaming(folder, cameras).items():
            # the policy is given what the robot calls `given`
            name = camera_name(given) or given
            say(folder, f"renames {given} to {key} (rename_map): the camera is called {name} here")
            cameras[key] = replace(cameras[key], name=name)
        weights = read_tensors(folder / WEIGHTS_FILE)
        if (folder / PREPROCESSOR_FILE).is_file() or (folder / POSTPROCESSOR_FILE).is_file():
            normalisation = from_processors(folder, features)
        else:
            normalisation = from_weights(described, features, weights)
        if unknown := sorted(name for name in weights if not name.startswith("model.")):
            raise UserError(f"unknown tensors {', '.join(unknown)}")
        names = {key: camera.name for key, camera in cameras.items()}
        statistics = to_statistics(normalisation, features, names)
        vae = described["use_vae"]
        environment_state = features.get(ENVIRONMENT_STATE_KEY)
        # From plain values, so that what JSON may hold in place of a number is refused by name.
        config = ACTConfig.from_dict(
            {
                "cameras": [asdict(camera) for camera in cameras.values()],
                "state_size": features[STATE_KEY].size if STATE_KEY in features else 0,
                "action_size": features[ACTION_KEY].size,
                "environment_state_size": environment_state.size if environment_state else 0,
                "latent_size": described["latent_dim"] if vae else 0,
                "latent_layers": described["n_vae_encoder_layers"] if vae else 0,
                **{ours: described[theirs] for theirs, ours in SIZES.items()},
            }
        )
        policy = ACTPolicy(config, _schema(folder, config, schema), statistics)
        theirs = {name.removeprefix("model."): tensor for name, tensor in weights.items()}
        policy.execution = read_execution(described)
        policy.act.load_state_dict(from_lerobot(config, theirs, described["latent_dim"]))
        return policy.eval()


def save_lerobot(policy: ACTPolicy, folder: Path) -> None:
    """Write a checkpoint that LeRobot 0.4 and later loads; config.json is written last.

    Raises:
        UserError: LeRobot's ACT cannot express this network; the message names every such field.
    """
    config = policy.config
    problems = inexpressible(config)
    if relative := policy.statistics.relative_actions:
        problems.append(f"actions relative to the state ({', '.join(relative)})")
    if config.prefix_length:
        problems.append(
            f"committed actions (prefix_length={config.prefix_length}), of which its network and "
            "its robot's loop know nothing"
        )
    if config.task_count:
        problems.append(f"{config.task_count} tasks: its network has no token for a task")
    if problems:
        raise UserError(f"format lerobot: LeRobot's ACT cannot express {', '.join(problems)}")
    weights = {
        f"model.{name}": tensor.detach().cpu().contiguous()
        for name, tensor in to_lerobot(config, policy.act.state_dict()).items()
    }
    described = describe_config(config, policy.execution)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / WEIGHTS_FILE)
    write_processors(
        folder, policy.statistics, described["input_features"], described["output_features"]
    )
    schema = policy.schema.to_dict()
    schema["task"] = schema.pop("environment")  # its name in such checkpoints from the beginning
    for file, plain in ((SCHEMA_FILE, schema), (CONFIG_FILE, described)):
        (folder / file).write_bytes(to_json(plain))


def _schema(folder: Path, config: ACTConfig, source: SchemaSource | None) -> Schema:
    if source is None and (folder / SCHEMA_FILE).is_file():
        source = read_json(folder / SCHEMA_FILE)
    if source is not None:
        return read_schema(source, config.cameras)
    say(
        folder,
        f"names neither joints nor rate: they are numbered, and {ASSUMED_RATE:g} steps per second "
        "are assumed; say them with source.schema=FILE.json",
    )
    return numbered_schema(config, ASSUMED_RATE)


def numbered_schema(config: ACTConfig, rate: float) -> Schema:
    """Make a schema whose dimensions have numbers for names, and no units."""
    return Schema(
        cameras=config.cameras,
        state_names=tuple(f"state_{i}" for i in range(config.state_size)),
        state_units=("",) * config.state_size,
        action_names=tuple(f"action_{i}" for i in range(config.action_size)),
        action_units=("",) * config.action_size,
        rate=rate,
        environment_state_names=tuple(
            f"environment_state_{i}" for i in range(config.environment_state_size)
        ),
    )
