"""Shared by the suites: the clock, the network under test, the request to a peer."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
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


def default_cameras(environment: str) -> dict[str, list[int]]:
    """Return the camera and image size used to measure an environment."""
    return {"top": [120, 160]} if "/Aloha" in environment else {"topview": [84, 84]}


def ask_peer(config: Any, settings: Any, **more: Any) -> Row:
    """Run peer.py in the peer's Python with the same sizes and more fields; return its row."""
    from omegaconf import OmegaConf

    request = {**OmegaConf.to_container(config), **more}
    if settings is not None:
        request["network"] = lerobot_fields(settings.model)
        request["batch_size"] = settings.data.batch_size
    script = Path(__file__).with_name("peer.py")
    done = subprocess.run(
        [config.peer, str(script), json.dumps(request)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise UserError(f"peer={config.peer} failed:\n{done.stderr[-3000:]}")
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def lerobot_fields(model: Any) -> dict[str, Any]:
    """Return the network's sizes as LeRobot's ACTConfig names them; its defaults if no latent."""
    from act_policy.checkpoints.lerobot.config import SIZES

    return {theirs: model[ours] for theirs, ours in SIZES.items()} | {
        "n_action_steps": model.chunk_length,
        "use_vae": model.latent_size > 0,
        "latent_dim": model.latent_size or 32,
        "n_vae_encoder_layers": model.latent_layers or 4,
    }


def make_policy(config: Any, settings: Any) -> Any:
    """Make the network with random weights."""
    from act_policy.model.act import ACTConfig
    from act_policy.model.policy import ACTPolicy

    schema = make_schema(config)
    return ACTPolicy(ACTConfig.for_schema(schema, **settings.model), schema, make_statistics())


def make_schema(config: Any) -> Any:
    """Describe a robot of four dimensions with the requested cameras."""
    from act_policy.types import Camera, Schema

    names = ("x", "y", "z", "gripper")
    return Schema(
        cameras=tuple(Camera(name, *size) for name, size in config.cameras.items()),
        state_names=names,
        state_units=("m",) * 4,
        action_names=names,
        action_units=("m",) * 4,
        rate=80.0,
    )


def make_statistics() -> Any:
    """Return statistics with mean 0 and standard deviation 1."""
    import numpy as np

    from act_policy.types import FieldStatistics, Statistics

    field = FieldStatistics(np.zeros(4), np.ones(4), -np.ones(4), np.ones(4))
    return Statistics(field, field, 1)


def random_batch(schema: Any, chunk_length: int, size: int, seed: int) -> Any:
    """Return a random batch like those of the data module."""
    import torch

    from act_policy.data.loading.batches import Batch
    from act_policy.types import Observation

    generator = torch.Generator().manual_seed(seed)
    images = {
        camera.name: torch.randint(
            0, 256, (size, camera.height, camera.width, 3), dtype=torch.uint8, generator=generator
        )
        for camera in schema.cameras
    }
    state = torch.randn(size, schema.state_size, generator=generator)
    actions = torch.randn(size, chunk_length, schema.action_size, generator=generator)
    is_pad = torch.zeros(size, chunk_length, dtype=torch.bool)
    zeros = torch.zeros(size, dtype=torch.long)
    return Batch(Observation(images, state), actions, is_pad, zeros, zeros)


def time_calls(config: Any, call: Callable[[], Any], whole: int = 1) -> float:
    """Return seconds per call, the median of repeats of a multiple of `whole` calls each."""
    for _ in range(3 * whole):
        call()
    means = []
    for _ in range(config.repeats):
        began, calls = time.perf_counter(), 0
        while calls == 0 or calls % whole or time.perf_counter() - began < config.seconds:
            call()
            calls += 1
        means.append((time.perf_counter() - began) / calls)
    return median(means)
