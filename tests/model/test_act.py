"""ACT: token layout, latent, cameras, depth."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.model.act import ACT, ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, Observation, Schema
from tests.model.conftest import LONGEST_PATH
from tests.tolerance import network_rounding


def images_of(config: ACTConfig, batch: int = 3) -> dict[str, torch.Tensor]:
    return {c.name: torch.randn(batch, 3, c.height, c.width) for c in config.cameras}


def test_token_layout(make_policy: Callable[..., ACTPolicy]) -> None:
    """Without encoder blocks the tokens stand there as they were made, in the stated order."""
    act = make_policy().act
    act.encoder.layers = torch.nn.ModuleList()
    images, state, z = images_of(act.config), torch.randn(3, 3), torch.randn(3, 4)
    tokens, positions = act.encode(images, state, None, z)
    top, wrist = 4 * 6, 3 * 3
    assert tokens.shape == (3, 2 + top + wrist, 16)
    torch.testing.assert_close(tokens[:, 0], act.latent_projection(z))
    torch.testing.assert_close(tokens[:, 1], act.state_projection(state))
    torch.testing.assert_close(tokens[:, 2 : 2 + top], act.image_encoder(images["top"]))
    torch.testing.assert_close(tokens[:, 2 + top :], act.image_encoder(images["wrist"]))
    torch.testing.assert_close(positions[:2], act.vector_positions)
    torch.testing.assert_close(positions[2:], act.map_positions)


def test_describe_says_what_forward_does(make_policy: Callable[..., ACTPolicy]) -> None:
    act = make_policy().act
    text = act.describe()
    expected = [
        ("latent", "(b, 1, 16)"),
        ("state", "(b, 1, 16)"),
        ("camera top", "(b, 24, 16)"),
        ("camera wrist", "(b, 9, 16)"),
        ("memory", "(b, 35, 16)"),
        ("queries", "(b, 5, 16)"),
        ("actions", "(b, 5, 2)"),
        ("cls, state, actions", "(b, 7, 16)"),
    ]
    lines = [line.strip() for line in text.splitlines()]
    for name, shape in expected:
        assert any(line.startswith(name) and line.endswith(shape) for line in lines), name
    memory, _ = act.encode(images_of(act.config), torch.randn(3, 3), None, torch.zeros(3, 4))
    assert memory.shape == (3, 35, 16)
    count = sum(p.numel() for p in act.parameters() if p.requires_grad)
    assert f"{count:,} trainable parameters" in text
    assert "no CVAE" in make_policy(latent_size=0, latent_layers=0).act.describe()


def test_actions_change_nothing_at_inference(make_policy: Callable[..., ACTPolicy]) -> None:
    act = make_policy().act
    images, state = images_of(act.config), torch.randn(3, 3)
    alone = act(images, state)
    for actions in (torch.zeros(3, 5, 2), torch.randn(3, 5, 2)):
        given = act(images, state, actions=actions)
        assert torch.equal(given.actions, alone.actions)
        assert given.latent_mean is None


def test_where_z_comes_from(make_policy: Callable[..., ACTPolicy]) -> None:
    act = make_policy(dropout=0.0).act
    images, state, actions = images_of(act.config), torch.randn(3, 3), torch.randn(3, 5, 2)

    def run(latent: Any = "auto", given: torch.Tensor | None = actions) -> torch.Tensor:
        result: torch.Tensor = act(images, state, actions=given, latent=latent).actions
        return result

    act.train()
    assert not torch.equal(run(), run())  # sampled
    assert torch.equal(run("mean"), run("mean"))
    assert not torch.equal(run("mean"), run("zero"))
    assert torch.equal(run(given=None), run("zero"))
    act.eval()
    assert torch.equal(run(), run("zero"))
    assert not torch.equal(run("sample"), run("mean"))
    with pytest.raises(ValueError, match="needs the demonstrated actions"):
        run("mean", None)
    without = make_policy(latent_size=0, latent_layers=0).act.train()
    output = without(images, state, actions=actions)
    assert output.latent_mean is None
    assert output.latent_log_variance is None


def test_padded_actions_are_never_read(make_policy: Callable[..., ACTPolicy]) -> None:
    act = make_policy().act
    images, state, actions = images_of(act.config), torch.randn(3, 3), torch.randn(3, 5, 2)
    is_pad = torch.arange(5)[None] >= torch.tensor([5, 2, 0])[:, None]

    def run(actions: torch.Tensor, is_pad: torch.Tensor | None) -> Any:
        return act(images, state, actions=actions, is_pad=is_pad, latent="mean")

    before = run(actions, is_pad)
    changed = torch.where(is_pad[:, :, None], torch.full_like(actions, 1e4), actions)
    for left, right in zip(before, run(changed, is_pad), strict=True):
        torch.testing.assert_close(left, right)
    assert torch.isfinite(before.actions).all()
    unmasked = run(actions, None)
    torch.testing.assert_close(unmasked.latent_mean[0], before.latent_mean[0])
    assert (unmasked.latent_mean[1] - before.latent_mean[1]).abs().max() > 1e-3


@pytest.mark.parametrize("pre_norm", [False, True])
def test_every_parameter_of_every_layer_gets_gradients(
    pre_norm: bool, make_policy: Callable[..., ACTPolicy]
) -> None:
    act = make_policy(
        decoder_layers=7, encoder_layers=2, pre_norm=pre_norm, camera_embedding=True, dropout=0.0
    ).act.train()
    output = act(images_of(act.config), torch.randn(3, 3), actions=torch.randn(3, 5, 2))
    (output.actions.sum() + output.latent_mean.sum() + output.latent_log_variance.sum()).backward()
    for name, parameter in act.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        # The first layer's queries are zeros: nothing but its biases reaches its own values.
        unreachable = name.startswith("decoder.0.self_attention") and name.endswith(
            ("v_proj.weight", "q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias")
        )
        # In pre-norm its norm sees zeros as well, which no weight changes.
        unreachable |= pre_norm and name == "decoder.0.norm1.weight"
        # A bias of the keys shifts all scores of a query alike, which the softmax forgets.
        unreachable |= name.endswith("k_proj.bias")
        assert unreachable or parameter.grad.abs().max() > 0, name


def test_decoder_depth_is_real(make_policy: Callable[..., ACTPolicy]) -> None:
    act = make_policy(decoder_layers=7).act
    images, state = images_of(act.config), torch.randn(3, 3)
    before = act(images, state).actions
    for layer in act.decoder:
        with torch.no_grad():
            kept = layer.ffn.contract.bias.clone()
            layer.ffn.contract.bias += torch.randn_like(kept)
            assert (act(images, state).actions - before).abs().max() > 1e-3
            layer.ffn.contract.bias.copy_(kept)
    torch.testing.assert_close(act(images, state).actions, before)


def two_equal_cameras(camera_embedding: bool) -> ACT:
    torch.manual_seed(0)
    return ACT(
        ACTConfig(
            cameras=(Camera("left", 32, 32), Camera("right", 32, 32)),
            state_size=3,
            action_size=2,
            chunk_length=5,
            width=16,
            heads=2,
            feedforward_width=24,
            encoder_layers=1,
            latent_size=0,
            latent_layers=0,
            backbone_stages=2,
            backbone_width=0.25,
            backbone_norm="group",
            camera_embedding=camera_embedding,
        )
    ).eval()


def test_swapped_cameras_are_noticed_with_the_embedding_alone() -> None:
    torch.manual_seed(3)
    left, right, state = torch.randn(1, 3, 32, 32), torch.randn(1, 3, 32, 32), torch.randn(1, 3)
    for camera_embedding in (False, True):
        act = two_equal_cameras(camera_embedding)
        as_is = act({"left": left, "right": right}, state).actions
        swapped = act({"left": right, "right": left}, state).actions
        difference = (as_is - swapped).abs().max()
        assert (difference > 1e-3) == camera_embedding


def test_cameras_are_bound_by_name_not_by_order() -> None:
    act = two_equal_cameras(True)
    left, right, state = torch.randn(1, 3, 32, 32), torch.randn(1, 3, 32, 32), torch.randn(1, 3)
    as_is = act({"left": left, "right": right}, state).actions
    assert torch.equal(act({"right": right, "left": left}, state).actions, as_is)


def test_equal_cameras_pass_in_one_batch_and_come_back_in_order() -> None:
    act = two_equal_cameras(False)
    images = {"left": torch.randn(2, 3, 32, 32), "right": torch.randn(2, 3, 32, 32)}
    calls: list[torch.Size] = []
    act.image_encoder.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0].shape))
    together = act.encode_images(images)
    assert calls == [(4, 3, 32, 32)]
    for name, tokens in zip(("left", "right"), together, strict=True):
        alone = act.image_encoder(images[name])
        tolerance = network_rounding(LONGEST_PATH, alone.abs().max().item())
        torch.testing.assert_close(tokens, alone, atol=tolerance, rtol=0)


def test_another_image_size_is_refused() -> None:
    act = two_equal_cameras(False)
    images = {"left": torch.randn(1, 3, 32, 32), "right": torch.randn(1, 3, 32, 48)}
    with pytest.raises(ValueError, match="camera right"):
        act(images, torch.randn(1, 3))


def test_environment_state(
    make_policy: Callable[..., ACTPolicy], schema: Schema, observation: Observation[np.ndarray]
) -> None:
    config = dataclasses.replace(make_policy().config, environment_state_size=2)
    torch.manual_seed(0)
    act = ACT(config).eval()
    images, state, cube = images_of(config), torch.randn(3, 3), torch.randn(3, 2)
    output = act(images, state, cube).actions
    assert (act(images, state, cube + 1).actions - output).abs().max() > 1e-3
    memory, _ = act.encode(images, state, cube, torch.zeros(3, 4))
    assert memory.shape == (3, 36, 16)
    assert "environment state" in act.describe()
    with pytest.raises(ValueError, match="environment state"):
        act(images, state)
