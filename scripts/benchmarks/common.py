"""Shared by the suites: the network under test and its input, the request to a peer."""

import json
import subprocess
from pathlib import Path
from typing import Any

from act_policy.errors import UserError

Row = dict[str, Any]
"""The software, its measured value and unit, and further details."""


def training_config(config: Any) -> Any:
    """Compose the configuration that train.py would use for the recipe; no data."""
    from omegaconf import OmegaConf

    from act_policy.cli.entry import compose_config

    choices = [f"experiment={config.recipe}", "data.path=none"]
    if config.network is not None:
        choices.append(f"model={config.network}")
    if config.batch_size is not None:
        choices.append(f"data.batch_size={config.batch_size}")
    settings = compose_config("train", choices)
    OmegaConf.set_struct(settings, False)
    return settings


def as_lerobot(settings: Any) -> Any:
    """Give the recipe's network the shape of LeRobot's ACT: the whole ResNet."""
    alike = settings.copy()
    alike.model.update(
        {
            "backbone_stages": 4,
            "backbone_width": 1.0,
            "backbone_norm": "frozen_batch",
            "camera_embedding": False,
        }
    )
    return alike


def ask_peer(config: Any, settings: Any, **more: Any) -> Row:
    """Run peer.py in the peer's Python with the same sizes and more fields; return its row."""
    from omegaconf import OmegaConf

    from act_policy.checkpoints.lerobot.config import SIZES

    request = {**OmegaConf.to_container(config), **more}
    if settings is not None:
        model = settings.model
        request["batch_size"] = settings.data.batch_size
        request["network"] = {theirs: model[ours] for theirs, ours in SIZES.items()} | {
            "n_action_steps": model.chunk_length,
            "use_vae": model.latent_size > 0,
            "latent_dim": model.latent_size or 32,  # LeRobot's defaults, where there is no latent
            "n_vae_encoder_layers": model.latent_layers or 4,
        }
    script = Path(__file__).with_name("peer.py")
    done = subprocess.run(
        [config.peer, str(script), json.dumps(request)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise UserError(f"peer={config.peer} failed:\n{done.stderr[-3000:]}")
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def make_policy(config: Any, settings: Any) -> Any:
    """Make the network with random weights, for a robot of four joints with the requested cameras.

    Its statistics have mean 0 and standard deviation 1.
    """
    import numpy as np

    from act_policy.model.config import ACTConfig
    from act_policy.model.policy import ACTPolicy
    from act_policy.statistics import FieldStatistics, Statistics
    from act_policy.types import Camera, Schema

    names = ("x", "y", "z", "gripper")
    schema = Schema(
        cameras=tuple(Camera(name, *size) for name, size in config.cameras.items()),
        state_names=names,
        state_units=("m",) * 4,
        action_names=names,
        action_units=("m",) * 4,
        rate=80.0,
    )
    field = FieldStatistics(np.zeros(4), np.ones(4), -np.ones(4), np.ones(4))
    return ACTPolicy(
        ACTConfig.for_schema(schema, **settings.model), schema, Statistics(field, field, 1)
    )


def random_observation(schema: Any, seed: int = 0, batch: tuple[int, ...] = ()) -> Any:
    """Return one raw observation of noise, or a batch of them."""
    import numpy as np

    from act_policy.types import Observation

    rng = np.random.default_rng(seed)
    images = {
        camera.name: rng.integers(0, 256, (*batch, camera.height, camera.width, 3), np.uint8)
        for camera in schema.cameras
    }
    state = rng.normal(size=(*batch, schema.state_size)).astype(np.float32)
    return Observation(images, state)
