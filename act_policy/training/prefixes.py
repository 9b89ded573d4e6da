"""Chunks whose first actions are committed already, as training shows them.

While a policy computes, the arm goes on: the first actions of the chunk are those of the chunk
before. A policy that is told which they are learns to continue them. In training they are the
demonstrated ones, of a number that is drawn anew for each sample.

A network that is trained by L1 tends to copy its prefix and to look at the images less. Therefore
the prefix is noisy, so that it cannot be trusted to the last digit, and often missing.

Source: Black et al., "Training-Time Action Conditioning for Efficient Real-Time Chunking" (2025),
arXiv 2512.05964.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NOISE = 0.1
"""Standard deviation of the noise on each committed action, in that dimension's own."""

MISSING = 0.25
"""Share of the samples of which nothing is committed, beside those whose draw is 0."""


def draw_prefix(
    actions: Float[Tensor, "b k a"],
    is_pad: Bool[Tensor, "b k"],
    length: int,
    scale: Float[Tensor, " a"],
) -> Float[Tensor, "b {length} a"]:
    """Commit the first 0 to `length` actions of each sample; rows of NaN are not committed.

    Padded rows never are. The number is uniform, and 0 for the share `MISSING` of the samples.
    The scale of each dimension is that of its noise, in the units of the actions.
    """
    batch, device = len(actions), actions.device
    count = torch.randint(0, length + 1, (batch, 1), device=device)
    count = torch.where(torch.rand(batch, 1, device=device) < MISSING, 0, count)
    is_free = (torch.arange(length, device=device) >= count) | is_pad[:, :length]
    committed = actions[:, :length]
    noisy = committed + NOISE * scale * torch.randn_like(committed)
    return torch.where(is_free[..., None], torch.nan, noisy)
