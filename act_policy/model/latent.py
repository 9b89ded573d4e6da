"""ACT's CVAE encoder: squeezes a demonstrated chunk into z, the style in which it was performed.

Two people move differently to the same end. In training z tells the network which way this chunk
went, and the KL term keeps z close to a standard normal; at inference z is that normal's mean, 0:
always the same way.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from act_policy.model.block import TransformerEncoder
from act_policy.model.config import ACTConfig
from act_policy.model.positions import sine_positions


class LatentEncoder(nn.Module):
    """q(z | state, actions, task) -> mean, log variance.

    Tokens: [cls, state, action 1 .. action k, task]. A policy that sees images alone has no state
    token, and one that knows a single task no task token.

    Source: Zhao et al., "Learning Fine-Grained Bimanual Manipulation" (2023), section IV.C.
    """

    positions: Tensor

    def __init__(self, config: ACTConfig) -> None:
        super().__init__()
        width = config.width
        # A learned token that is no data of its own; its output summarises the chunk.
        self.cls = nn.Parameter(torch.randn(width))
        self.state_projection = nn.Linear(config.state_size, width) if config.state_size else None
        self.action_projection = nn.Linear(config.action_size, width)
        tokens = 1 + bool(config.state_size) + config.chunk_length + bool(config.task_count)
        positions = sine_positions(tokens, width)
        self.register_buffer("positions", positions, persistent=False)
        self.encoder = TransformerEncoder(config.latent_layers, config.block)
        # First half of the output: mean; second half: log variance.
        self.latent_projection = nn.Linear(width, 2 * config.latent_size)

    def forward(
        self,
        state: Float[Tensor, "b s"],
        actions: Float[Tensor, "b k a"],
        is_pad: Bool[Tensor, "b k"],
        task_token: Float[Tensor, "b d"] | None = None,
    ) -> tuple[Float[Tensor, "b z"], Float[Tensor, "b z"]]:
        """Return mean and log variance (log sigma^2); padded actions are never read."""
        first = [self.cls.expand(state.shape[0], 1, -1)]
        if self.state_projection is not None:
            first.append(self.state_projection(state)[:, None])
        last = [] if task_token is None else [task_token[:, None]]
        tokens = torch.cat([*first, self.action_projection(actions), *last], dim=1)
        always = torch.ones_like(is_pad[:, :1])
        allowed = torch.cat([*[always] * len(first), ~is_pad, *[always] * len(last)], dim=1)
        summary = self.encoder(tokens, self.positions[None], allowed[:, None])[:, 0]
        mean, log_variance = self.latent_projection(summary).chunk(2, dim=-1)
        return mean, log_variance
