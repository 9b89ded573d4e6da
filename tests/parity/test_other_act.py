"""Weights of LeRobot and of the original ACT, put into our network, give their numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from tests.parity.lerobot.checkpoints import load_sample, sample_observation
from tests.tolerance import RESNET18, network_rounding

LEROBOT, ORIGINAL = "lerobot_act_0_4_4", "act_original"
TOLERANCE = network_rounding(RESNET18)


@pytest.fixture(scope="module")
def lerobot(
    samples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ACTPolicy, dict[str, torch.Tensor]]:
    policy = load_sample(samples, LEROBOT, tmp_path_factory.mktemp("lerobot"))
    return policy, load_file(samples / f"{LEROBOT}.golden.safetensors")


def test_lerobot_chunk(samples: Path, lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]]) -> None:
    policy, golden = lerobot
    chunk = policy.predict_chunk(sample_observation(samples, LEROBOT))
    np.testing.assert_allclose(chunk, golden["out/action_chunk"].numpy(), atol=TOLERANCE, rtol=0)


def test_lerobot_losses(samples: Path, lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]]) -> None:
    """The posterior is theirs too: the L1 with the latent at its mean, and the KL."""
    policy, golden = lerobot
    observation = sample_observation(samples, LEROBOT)
    normalised = policy.normalizer.observation(observation)
    actions = policy.normalizer.actions(golden["in/action"], observation.state)
    policy.eval()
    with torch.no_grad():
        output = policy.act(normalised.images, normalised.state, actions=actions, latent="mean")
    mean, log_variance = output.latent_mean, output.latent_log_variance
    assert mean is not None
    assert log_variance is not None
    kl = (-0.5 * (1 + log_variance - mean**2 - log_variance.exp())).sum(-1).mean()
    l1 = (output.actions - actions).abs().mean()
    torch.testing.assert_close(l1, golden["out/l1_loss"], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(kl, golden["out/kld_loss"], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(l1 + 10 * kl, golden["out/loss"], atol=11 * TOLERANCE, rtol=0)


def test_lerobot_cannot_tell_cameras_apart_and_we_can(
    samples: Path,
    lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]],
) -> None:
    policy, _ = lerobot
    observation = sample_observation(samples, LEROBOT)
    swapped = observation._replace(
        images={"top": observation.images["wrist"], "wrist": observation.images["top"]}
    )
    chunk = policy.predict_chunk(observation)
    assert np.abs(policy.predict_chunk(swapped) - chunk).max() < TOLERANCE
    torch.manual_seed(0)
    fields = {**policy.config.to_dict(), "camera_embedding": True}
    ours = ACTPolicy(ACTConfig.from_dict(fields), policy.schema, policy.statistics)
    ours.load_state_dict(policy.state_dict(), strict=False)
    chunk = ours.predict_chunk(observation)
    assert np.abs(ours.predict_chunk(swapped) - chunk).max() > 1e-2


def test_original_chunk(samples: Path, tmp_path: Path) -> None:
    policy = load_sample(samples, ORIGINAL, tmp_path)
    golden = load_file(samples / f"{ORIGINAL}.golden.safetensors")
    chunk = policy.predict_chunk(sample_observation(samples, ORIGINAL))
    np.testing.assert_allclose(chunk, golden["out/action_chunk"].numpy(), atol=TOLERANCE, rtol=0)
