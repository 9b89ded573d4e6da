"""Attention: who reads from whom, and what is carried over.

    weights = softmax(query @ key^T * scale)        one row per query, summing to 1 over the keys
    output  = weights @ value                       the values, mixed by those weights

A mask is boolean, true = this query may read this key. A query that may read nothing gets zeros,
where the plain formula would be 0/0 (and torch's own module gives NaN).
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from act_policy.errors import UserError


def scaled_dot_product_attention_by_hand(
    query: Float[Tensor, "*batch q e"],
    key: Float[Tensor, "*batch m e"],
    value: Float[Tensor, "*batch m v"],
    allowed: Bool[Tensor, "*#batch #q #m"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "*batch q v"], Float[Tensor, "*batch q m"]]:
    """Compute softmax(query key^T scale) value, one readable step per line.

    scale is 1 / sqrt(e) unless given. Dropout thins out the weights that multiply the values; the
    returned weights are those before dropout.

    Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1.
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale  # (*batch, q, m)
    if allowed is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        # Masked before the softmax, so that the remaining weights still sum to 1. Rows without any
        # allowed key stay finite through the softmax (or their gradient would be NaN), then zero.
        reads_something = allowed.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~allowed & reads_something, -math.inf)
        weights = torch.softmax(scores, dim=-1).masked_fill(~reads_something, 0.0)
    return F.dropout(weights, dropout) @ value, weights


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch q e"],
    key: Float[Tensor, "*batch m e"],
    value: Float[Tensor, "*batch m v"],
    allowed: Bool[Tensor, "*#batch #q #m"] | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*batch q v"]:
    """Compute the same output by torch's fused kernel, which never holds the weights in memory."""
    if allowed is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scale, dropout_p=dropout)
    reads_something = allowed.any(dim=-1, keepdim=True)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=allowed | ~reads_something, scale=scale, dropout_p=dropout
    )
    return output.masked_fill(~reads_something, 0.0)


class MultiHeadAttention(nn.Module):
    """Attention in several learned subspaces at once.

    Every head reads all tokens, in its own d / heads features; the heads' outputs are put side by
    side again and mixed by out_proj.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise UserError(
                f"width {width} cannot be divided among {heads} heads; choose a divisor"
            )
        self.heads = heads
        self.dropout = dropout
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(
        self,
        query: Float[Tensor, "b q d"],
        key: Float[Tensor, "b m d"],
        value: Float[Tensor, "b m d"],
        allowed: Bool[Tensor, "*#b #q #m"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "b q d"], Float[Tensor, "b heads q m"] | None]:
        """Return the output and, on request, each head's weights (before dropout).

        query, key and value are the same tokens in self-attention; in cross-attention key and value
        come from another sequence. allowed holds for every head: (q, m), (b, q, m), or (b, 1, m)
        for keys that are padding.
        """
        # 1) Project, then split the features (not the tokens) among the heads.
        split = "b n (heads e) -> b heads n e"
        query = rearrange(self.q_proj(query), split, heads=self.heads)
        key = rearrange(self.k_proj(key), split, heads=self.heads)
        value = rearrange(self.v_proj(value), split, heads=self.heads)
        # 2) Every head attends on its own.
        allowed = None if allowed is None else allowed.unsqueeze(-3)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            output, weights = scaled_dot_product_attention_by_hand(
                query, key, value, allowed, dropout=dropout
            )
        else:
            output = scaled_dot_product_attention(query, key, value, allowed, dropout=dropout)
        # 3) Put the heads side by side and mix what they found.
        return self.out_proj(rearrange(output, "b heads q e -> b q (heads e)")), weights
