"""L1 over valid elements and KL; padding has no effect."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from act_policy.training.losses import action_l1, gaussian_kl
from tests.examples import FEW


def sample(seed: int, b: int = 3, k: int = 5, a: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    predicted = torch.randn(b, k, a, generator=generator, requires_grad=True)
    target = torch.randn(b, k, a, generator=generator)
    return predicted, target, torch.rand(b, k, generator=generator) < 0.6


def gradient(predicted: Tensor, target: Tensor, is_pad: Tensor) -> tuple[Tensor, Tensor]:
    loss = action_l1(predicted, target, is_pad)
    return loss.detach(), torch.autograd.grad(loss, predicted)[0]


def test_l1_equals_a_calculation_by_hand() -> None:
    predicted = torch.tensor([[[1.0, 2.0], [0.0, 0.0], [9.0, 9.0]]])
    target = torch.tensor([[[0.0, 4.0], [1.0, 1.0], [0.0, 0.0]]])
    is_pad = torch.tensor([[False, False, True]])
    assert float(action_l1(predicted, target, is_pad)) == (1 + 2 + 1 + 1) / 4


@FEW
@given(seed=st.integers(0, 1000))
def test_l1_is_the_mean_over_valid_elements(seed: int) -> None:
    predicted, target, is_pad = sample(seed)
    loss = action_l1(predicted, target, is_pad)
    errors = (predicted - target).abs()[~is_pad]
    expected = errors.mean() if len(errors) else torch.tensor(0.0)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("junk", [0.0, 1e30, math.nan, math.inf])
def test_padded_targets_change_neither_loss_nor_gradients(junk: float) -> None:
    predicted, target, is_pad = sample(4)
    assert 0.3 < float(is_pad.float().mean()) < 0.9
    changed = torch.where(is_pad[..., None], junk, target)
    before, after = gradient(predicted, target, is_pad), gradient(predicted, changed, is_pad)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
    assert bool((before[1][is_pad] == 0).all())
    assert bool((before[1][~is_pad] != 0).all())


def test_only_padding_gives_zero() -> None:
    predicted, target, _ = sample(0)
    loss, gradients = gradient(predicted, target, torch.ones(3, 5, dtype=torch.bool))
    assert float(loss) == 0.0
    assert bool((gradients == 0).all())


def test_kl_equals_torch_and_is_zero_at_the_prior() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = torch.randn(2, 4, 8, generator=generator)
    is_pad = torch.zeros(4, 3, dtype=torch.bool)
    posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
    prior = torch.distributions.Normal(torch.zeros(8), torch.ones(8))
    expected = torch.distributions.kl_divergence(posterior, prior).sum(-1).mean()
    torch.testing.assert_close(gaussian_kl(mean, log_variance, is_pad), expected)
    zero = torch.zeros(4, 8)
    assert float(gaussian_kl(zero, zero, is_pad)) == 0.0


def test_kl_ignores_samples_that_are_only_padding() -> None:
    mean, log_variance = torch.ones(2, 3), torch.zeros(2, 3)
    is_pad = torch.tensor([[False, True], [True, True]])
    mean[1] = 100.0
    assert float(gaussian_kl(mean, log_variance, is_pad)) == 1.5
    assert float(gaussian_kl(mean, log_variance, torch.ones_like(is_pad))) == 0.0
