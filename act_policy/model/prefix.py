"""The prefix of a chunk: its first actions, which are committed before it is predicted.

While the network computes, the arm carries out the chunk before. Told what that will be, the
network continues it, so that the new chunk begins where the arm will be. Two ways of telling:

    tokens   each committed action is a token of the decoder's memory
    state    the last committed action stands in the place of the state, where the arm will be, and
             the first query is for the first action that is free

Sources: Black et al., "Training-Time Action Conditioning for Efficient Real-Time Chunking" (2025),
arXiv 2512.05964; there the prefix replaces part of a noisy chunk, here it is read as memory. Tang
et al., "VLASH" (2025), arXiv 2512.01031, rolls the state forward; it trains on the measured state
of that moment, which nobody knows yet when the robot asks, here it is the last action in both.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from act_policy.model.config import ACTConfig


class PrefixEncoder(nn.Module):
    """One token of the decoder's memory for each committed action: its value, projected.

    Its position is that of the query for the same action, and a learned mark that it is committed.
    With a state that is rolled forward the queries begin where the prefix ends; the tokens are then
    counted from that end.
    """

    def __init__(self, config: ACTConfig) -> None:
        super().__init__()
        self.from_end = config.rolls_state
        self.projection = nn.Linear(config.action_size, config.width)
        self.mark = nn.Parameter(torch.randn(config.width))

    def forward(
        self, memory: Float[Tensor, "b t d"], prefix: Float[Tensor, "b p a"]
    ) -> tuple[Float[Tensor, "b t+p d"], Bool[Tensor, "b 1 t+p"]]:
        """Append the tokens to the memory; tell which tokens of it may be read.

        prefix: normalised, NaN from the first action on that is not committed. These tokens are
        masked, so that the number of tokens does not depend on the delay.
        """
        if self.from_end:
            places = torch.arange(prefix.shape[1], device=prefix.device)
            prefix = _take_rows(prefix, (places + count_committed(prefix)) % prefix.shape[1])
        is_committed = committed_rows(prefix)
        values = torch.where(is_committed[..., None], prefix, 0.0)  # 0 times NaN would be NaN
        always = torch.ones_like(memory[:, :, 0], dtype=torch.bool)
        allowed = torch.cat([always, is_committed], dim=1)[:, None]
        return torch.cat([memory, self.projection(values)], dim=1), allowed

    def positions(
        self, query_positions: Float[Tensor, "k d"], length: int
    ) -> Float[Tensor, "{length} d"]:
        """Give the tokens' positions."""
        return query_positions[:length] + self.mark


def committed_rows(prefix: Float[Tensor, "b p a"]) -> Bool[Tensor, "b p"]:
    """Tell which rows are committed; the others are NaN as a whole."""
    return ~prefix[..., 0].isnan()


def count_committed(prefix: Float[Tensor, "b p a"]) -> Int[Tensor, "b 1"]:
    """Count each sample's committed actions."""
    return committed_rows(prefix).sum(dim=1, keepdim=True)


def roll_state(
    state: Float[Tensor, "b a"], prefix: Float[Tensor, "b p a"] | None
) -> Float[Tensor, "b a"]:
    """Return where the arm will be when the prefix ends: where its last action sends it."""
    if prefix is None:
        return state
    count = count_committed(prefix)
    last = _take_rows(prefix, (count - 1).clamp(min=0))[:, 0]
    return torch.where(count > 0, last, state)


def follow_prefix(
    actions: Float[Tensor, "b k a"], prefix: Float[Tensor, "b p a"]
) -> Float[Tensor, "b k a"]:
    """Move predictions that begin where the prefix ends to their places in the chunk.

    The rows of the prefix say nothing, and as many predictions at the end are lost.
    """
    places = torch.arange(actions.shape[1], device=actions.device)
    return _take_rows(actions, (places - count_committed(prefix)).clamp(min=0))


def with_prefix(
    actions: Float[Tensor, "b k a"], prefix: Float[Tensor, "b p a"] | None
) -> Float[Tensor, "b k a"]:
    """Put the committed actions where the chunk begins; rows of NaN stay as predicted."""
    if prefix is None:
        return actions
    length = prefix.shape[1]
    first = torch.where(prefix.isnan(), actions[:, :length], prefix)
    return torch.cat([first, actions[:, length:]], dim=1)


def _take_rows(values: Float[Tensor, "b n a"], rows: Int[Tensor, "b m"]) -> Float[Tensor, "b m a"]:
    """Return some rows of each sample."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[-1]))
