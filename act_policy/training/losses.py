"""The terms of the loss: L1 over the valid elements, and the KL term of the CVAE."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

ORIGINAL_KL_WEIGHT = 10.0
"""ACT and LeRobot train with it."""


def action_l1(
    predicted: Float[Tensor, "b k a"], target: Float[Tensor, "b k a"], is_pad: Bool[Tensor, "b k"]
) -> Float[Tensor, ""]:
    """Compute the mean |predicted - target| over the elements of rows that are not padding.

    The content of padded rows, even NaN, changes neither the loss nor a gradient. A batch that is
    all padding gives 0. (ACT and LeRobot 0.4 divide by all rows, padded ones too.)
    """
    # a padded row is its own target: its error is an exact zero with a zero gradient
    target = torch.where(is_pad[..., None], predicted.detach(), target)
    valid = (~is_pad).sum() * predicted.shape[-1]
    return (predicted - target).abs().sum() / valid.clamp(min=1)


def gaussian_kl(
    mean: Float[Tensor, "b z"], log_variance: Float[Tensor, "b z"], is_pad: Bool[Tensor, "b k"]
) -> Float[Tensor, ""]:
    """Compute KL(N(mean, exp(log_variance)) || N(0, 1)), summed over z, averaged over the batch.

    Samples that are all padding are left out. Source: Kingma and Welling 2014, appendix B;
    summed over z as in ACT (tonyzhaozh/act, policy.py).
    """
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(dim=-1)
    valid = ~is_pad.all(dim=-1)
    return torch.where(valid, divergence, 0.0).sum() / valid.sum().clamp(min=1)
