"""ACTConfig refuses what cannot be, and every field that it has changes something."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.errors import UserError
from act_policy.model.config import SCHEMA_FIELDS, ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, Observation, Schema

OTHER_VALUES: dict[str, Any] = {
    "chunk_length": 6,
    "width": 24,
    "heads": 4,
    "feedforward_width": 25,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "latent_size": 5,
    "latent_layers": 2,
    "pre_norm": True,
    "activation": "gelu",
    "dropout": 0.3,
    "backbone": "resnet34",
    "backbone_stages": 3,
    "backbone_width": 0.5,
    "backbone_norm": "frozen_batch",
    "camera_embedding": True,
}


def training_outputs(policy: ACTPolicy, observation: Observation[np.ndarray]) -> list[Any]:
    """Actions and posterior in training mode, and the shapes of all weights."""
    torch.manual_seed(1)
    tensors = Observation(
        {name: torch.tensor(image) for name, image in observation.images.items()},
        torch.tensor(observation.state),
    )
    normalised = policy.normalizer.observation(tensors)
    actions = torch.linspace(-1, 1, 6 * policy.chunk_length).reshape(3, -1, 2)
    output = policy.train().act(normalised.images, normalised.state, actions=actions)
    return [
        output.actions.detach().numpy().tolist(),
        None if output.latent_mean is None else output.latent_mean.tolist(),
    ]


def test_every_field_is_tried() -> None:
    from_schema = set(SCHEMA_FIELDS)
    of_committed_actions = {"prefix_length", "prefix_as"}  # which test_prefix.py tries
    tried = set(OTHER_VALUES) | from_schema | of_committed_actions
    assert tried == {field.name for field in fields(ACTConfig)}


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_every_field_changes_the_output(
    name: str,
    make_policy: Callable[..., ACTPolicy],
    observation: Observation[np.ndarray],
) -> None:
    assert OTHER_VALUES[name] != getattr(make_policy().config, name)
    before = training_outputs(make_policy(), observation)
    assert before == training_outputs(make_policy(), observation)
    assert before != training_outputs(make_policy(**{name: OTHER_VALUES[name]}), observation)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heads": 3}, r"width 16 .* 3 heads"),
        ({"width": 18, "heads": 2}, "multiple of 4"),
        ({"width": "64"}, "width='64': expected a whole number"),
        ({"chunk_length": 0}, "chunk_length=0"),
        ({"chunk_length": True}, "chunk_length=True"),
        ({"encoder_layers": 0}, "encoder_layers=0"),
        ({"decoder_layers": -1}, "decoder_layers=-1"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": "some"}, "dropout=some: expected a number"),
        ({"backbone": "resnet20"}, "resnet18, resnet34 or resnet50"),
        ({"backbone_stages": 5}, "1 to 4"),
        ({"backbone_width": 0.3}, "multiple of 0.25"),
        ({"backbone_width": 0.0}, "multiple of 0.25"),
        ({"backbone_norm": "layer"}, "frozen_batch, batch or group"),
        ({"activation": "swish"}, "relu or gelu"),
        ({"pre_norm": 1}, "pre_norm=1: expected true or false"),
        ({"latent_size": 0}, "latent_size 0 with latent_layers 1"),
        ({"latent_layers": 0}, "latent_size 4 with latent_layers 0"),
    ],
)
def test_impossible_values_are_refused(
    wrong: dict[str, Any], message: str, make_policy: Callable[..., ACTPolicy]
) -> None:
    config = make_policy().config
    # Set past the constructor, whose argument types the test session's import hook checks first.
    for name, value in wrong.items():
        object.__setattr__(config, name, value)
    with pytest.raises(UserError, match=message):
        config.__post_init__()


def test_fields_are_checked_when_made(make_policy: Callable[..., ACTPolicy]) -> None:
    with pytest.raises(UserError, match="unknown fields latent_sise; known are action_size, act"):
        make_policy(latent_sise=4)
    with pytest.raises(UserError, match=r"width 16 .* 3 heads"):
        make_policy(heads=3)
    with pytest.raises(UserError, match="activation"):
        make_policy(activation="swish")


def test_round_trip(make_policy: Callable[..., ACTPolicy]) -> None:
    config = make_policy(camera_embedding=True).config
    assert ACTConfig.from_dict(config.to_dict()) == config
    with pytest.raises(UserError, match="'cameras' is missing"):
        ACTConfig.from_dict({"state_size": 3, "action_size": 2})
    with pytest.raises(UserError, match="cameras is empty"):
        ACTConfig(cameras=(), state_size=1, action_size=1)


def test_another_schema_is_refused(make_policy: Callable[..., ACTPolicy], schema: Schema) -> None:
    config = make_policy().config
    config.check_schema(schema)
    swapped = Schema(**{**vars(schema), "cameras": schema.cameras[::-1]})
    resized = Schema(
        **{**vars(schema), "cameras": (Camera("top", 48, 48), Camera("wrist", 24, 24))}
    )
    for other in (swapped, resized):
        with pytest.raises(UserError, match=r"cameras: the network has .*top.*the schema .*top"):
            config.check_schema(other)


def test_defaults_are_what_the_original_computes() -> None:
    config = ACTConfig(cameras=(Camera("top", 480, 640),), state_size=14, action_size=14)
    assert (config.width, config.feedforward_width, config.chunk_length) == (512, 3200, 100)
    assert (config.encoder_layers, config.decoder_layers, config.latent_size) == (4, 1, 32)
    assert (config.backbone, config.backbone_norm) == ("resnet18", "frozen_batch")
    assert not config.camera_embedding
    assert not config.pre_norm
