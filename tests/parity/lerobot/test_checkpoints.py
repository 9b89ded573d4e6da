"""Checkpoints that other software wrote say the same here, and ours the same there.

lerobot_0_4_4.json holds what LeRobot 0.4.4 said: of policies it wrote, with every option it has,
and of those that we exported and it loaded (record.py). What we export now must be the
checkpoint that it loaded then, bit by bit.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.checkpoints.open import open_network
from act_policy.model.policy import ACTPolicy
from act_policy.types import Observation
from tests.parity.lerobot import cases
from tests.parity.lerobot.checkpoints import (
    RECORD,
    SAMPLES,
    case_observation,
    folder_digest,
    load_sample,
    ours_with_batch_norm,
    random_batch,
    sample_observation,
    write_case,
)
from tests.tolerance import RESNET18, network_rounding

RECORDED: dict[str, Any] = json.loads(RECORD.read_text())
TOLERANCE = network_rounding(RESNET18)


def losses(
    policy: ACTPolicy, observation: Observation[Tensor], actions: Tensor, is_pad: Tensor
) -> tuple[float, float | None]:
    """LeRobot 0.4's: padded rows count as zeros; the latent is at its mean."""
    normalised = policy.normalizer.observation(observation)
    target = policy.normalizer.actions(actions, observation.state)
    with torch.no_grad():
        output = policy.act(
            normalised.images,
            normalised.state,
            normalised.environment_state,
            target,
            is_pad,
            latent="mean",
        )
    l1 = ((output.actions - target).abs() * ~is_pad[..., None]).mean().item()
    if output.latent_mean is None or output.latent_log_variance is None:
        return l1, None
    mean, log_variance = output.latent_mean, output.latent_log_variance
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp())
    return l1, divergence.sum(-1).mean().item()


def check_export(policy: ACTPolicy, name: str, observation: Observation[Any], folder: Path) -> None:
    """What we export is what LeRobot loaded, and back here it is the same policy."""
    save_lerobot(policy, folder)
    recorded = RECORDED["loaded"][name]
    assert folder_digest(folder) == recorded["checkpoint"]
    found = policy.predict_chunk(observation)
    scale = policy.statistics.scale(policy.statistics.action).clip(min=1.0)
    assert (np.abs(found - np.array(recorded["actions"])) / scale).max() < TOLERANCE
    again = open_network(folder)
    assert again.config == policy.config
    assert again.schema == policy.schema
    for key, tensor in policy.state_dict().items():
        # A range is written as mean and deviation in float32: equal to the last bit or so.
        torch.testing.assert_close(again.state_dict()[key], tensor, atol=1e-7, rtol=3e-7)
        if key.startswith("act."):
            assert torch.equal(again.state_dict()[key], tensor)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if "resnet" in case else [])
        for case in cases.CASES
    ],
)
def test_every_option_of_lerobot(case: str, tmp_path: Path) -> None:
    recorded = RECORDED["written"][case]
    policy = open_network(write_case(case, recorded, tmp_path / case))
    observation = case_observation(case)
    chunk = policy.predict_chunk(observation)
    np.testing.assert_allclose(chunk, np.array(recorded["actions"]), atol=TOLERANCE, rtol=0)
    batch = {key: torch.tensor(value) for key, value in cases.batch(case).items()}
    l1, kl = losses(policy, observation, batch["action"], batch["action_is_pad"])
    assert l1 == pytest.approx(recorded["l1_loss"], abs=TOLERANCE)
    assert kl == (
        pytest.approx(recorded["kld_loss"], abs=TOLERANCE) if "kld_loss" in recorded else None
    )
    check_export(policy, case, observation, tmp_path / "exported")


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples(sample: str, samples: Path, tmp_path: Path) -> None:
    policy = load_sample(samples, sample, tmp_path)
    observation = sample_observation(samples, sample)
    golden = load_file(samples / f"{sample}.golden.safetensors")
    chunk = policy.predict_chunk(observation)
    np.testing.assert_allclose(chunk, golden["out/action_chunk"].numpy(), atol=TOLERANCE, rtol=0)
    if "out/l1_loss" in golden:
        actions = golden["in/action"]
        l1, kl = losses(
            policy, observation, actions, torch.zeros(actions.shape[:2], dtype=torch.bool)
        )
        assert kl is not None
        assert l1 == pytest.approx(golden["out/l1_loss"].item(), abs=TOLERANCE)
        assert kl == pytest.approx(golden["out/kld_loss"].item(), abs=TOLERANCE)
        assert l1 + 10 * kl == pytest.approx(golden["out/loss"].item(), abs=TOLERANCE)
    check_export(policy, sample, observation, tmp_path / "exported")


def test_a_policy_of_ours_with_batch_norm_and_a_floor(tmp_path: Path) -> None:
    policy = ours_with_batch_norm()
    save_lerobot(policy, tmp_path)
    recorded = RECORDED["loaded"]["batch_norm"]
    assert folder_digest(tmp_path) == recorded["checkpoint"]
    found = policy.predict_chunk(random_batch(policy))
    # twelve degrees of standard deviation
    np.testing.assert_allclose(found, np.array(recorded["actions"]), atol=12 * TOLERANCE, rtol=0)
    again = open_network(tmp_path).predict_chunk(random_batch(policy))
    np.testing.assert_allclose(again, found, atol=12 * TOLERANCE, rtol=0)
