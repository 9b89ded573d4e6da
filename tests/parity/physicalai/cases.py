"""Policies whose weights follow from names, for policy packages: one camera, and two."""

from pathlib import Path

import numpy as np

from act_policy.export.parity import random_observation
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera, Observation, Schema
from tests.parity.lerobot import cases
from tests.parity.lerobot.checkpoints import ours_with_batch_norm

RECORD = Path(__file__).with_name("physicalai_0_3_0.json")


def two_cameras() -> ACTPolicy:
    """Two cameras of one size, told apart; pre-norm, a latent, two decoder layers."""
    schema = Schema(
        (Camera("wrist", 32, 48), Camera("top", 32, 48)),
        ("shoulder", "elbow", "gripper"),
        ("deg", "deg", "0..100"),
        ("shoulder", "elbow", "gripper"),
        ("deg", "deg", "0..100"),
        rate=30.0,
    )
    config = ACTConfig.for_schema(
        schema,
        chunk_length=5,
        width=16,
        heads=4,
        feedforward_width=24,
        encoder_layers=2,
        decoder_layers=2,
        pre_norm=True,
        activation="gelu",
        latent_size=4,
        latent_layers=1,
        backbone_stages=2,
        backbone_width=0.25,
        backbone_norm="group",
        camera_embedding=True,
    )
    field = FieldStatistics(
        *(np.array(row) for row in ([10, -40.0, 50], [30, 20.0, 40], [-90, -90.0, 0], [90, 0, 100]))
    )
    policy = ACTPolicy(config, schema, Statistics(field, field, step_count=10))
    for name, tensor in policy.act.state_dict().items():
        tensor.copy_(tensor.new_tensor(cases.weight(name, tuple(tensor.shape))))
    return policy.eval()


def policies() -> dict[str, ACTPolicy]:
    return {"one_camera": ours_with_batch_norm(), "two_cameras": two_cameras()}


def observation_of(policy: ACTPolicy) -> Observation[np.ndarray]:
    """One raw observation, without a batch axis."""
    batch = random_observation(policy, 1, np.random.default_rng(0))
    return Observation({name: image[0] for name, image in batch.images.items()}, batch.state[0])
