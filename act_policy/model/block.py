"""Transformer blocks: attention lets tokens read each other, the feed-forward works on each.

Positions say where a token comes from. They are added to query and key, so they decide who reads
whom, and not to value, so what is carried over is content alone (DETR and ACT do so).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from act_policy.model.attention import MultiHeadAttention

Activation = Literal["relu", "gelu"]


@dataclass(frozen=True)
class BlockConfig:
    """Sizes and choices that the blocks of a Transformer share.

    feedforward_width: of the hidden layer; None is 4 * width.
    pre_norm: whether a layer norm comes before each step, or after it; see `Block`.
    """

    width: int
    heads: int
    feedforward_width: int | None = None
    activation: Activation = "gelu"
    dropout: float = 0.0
    pre_norm: bool = False


def add_positions(
    tokens: Float[Tensor, "b n d"], positions: Float[Tensor, "#b n d"] | None
) -> Float[Tensor, "b n d"]:
    """Add a position vector to each token; the number of tokens and their width stay."""
    return tokens if positions is None else tokens + positions


class FeedForward(nn.Module):
    """Widen, activate, narrow: every token by itself, all by the same weights."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        hidden_width = config.feedforward_width or 4 * config.width
        self.expand = nn.Linear(config.width, hidden_width)
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()
        self.dropout = nn.Dropout(config.dropout)
        self.contract = nn.Linear(hidden_width, config.width)

    def forward(self, tokens: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Compute contract(activation(expand(tokens)))."""
        return self.contract(self.dropout(self.activation(self.expand(tokens))))


class Block(nn.Module):
    """The steps of a block: each is added to what came in (residual), with a layer norm.

    Post-norm, as in the first Transformer and in ACT:  x = norm(x + step(x))
    Pre-norm, easier to train from scratch:             x = x + step(norm(x))
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.dropout = nn.Dropout(config.dropout)

    def residual(
        self,
        tokens: Float[Tensor, "b n d"],
        step: Callable[[Tensor], Tensor],
        norm: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "b n d"]:
        """Take one step, with its norm after it (post-norm) or before it (pre-norm)."""
        if self.pre_norm:
            return tokens + self.dropout(step(norm(tokens)))
        return norm(tokens + self.dropout(step(tokens)))


class TransformerBlock(Block):
    """Self-attention, then feed-forward."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.attention = MultiHeadAttention(config.width, config.heads, config.dropout)
        self.norm1 = nn.LayerNorm(config.width)
        self.ffn = FeedForward(config)
        self.norm2 = nn.LayerNorm(config.width)

    def forward(
        self,
        tokens: Float[Tensor, "b t d"],
        positions: Float[Tensor, "#b t d"] | None = None,
        allowed: Bool[Tensor, "*#b #t #t"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Let the tokens read each other; allowed is MultiHeadAttention's mask."""

        def attend(tokens: Tensor) -> Tensor:
            placed = add_positions(tokens, positions)
            return self.attention(placed, placed, tokens, allowed)[0]

        tokens = self.residual(tokens, attend, self.norm1)
        return self.residual(tokens, self.ffn, self.norm2)


class DecoderBlock(Block):
    """Queries read each other, then the memory, then each works on what it found.

    The memory is the encoder's output, made from the cameras and the joints. norm1, norm2 and norm3
    belong to the three steps.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        self.self_attention = MultiHeadAttention(config.width, config.heads, config.dropout)
        self.norm1 = nn.LayerNorm(config.width)
        self.cross_attention = MultiHeadAttention(config.width, config.heads, config.dropout)
        self.norm2 = nn.LayerNorm(config.width)
        self.ffn = FeedForward(config)
        self.norm3 = nn.LayerNorm(config.width)

    def forward(
        self,
        queries: Float[Tensor, "b q d"],
        memory: Float[Tensor, "b m d"],
        query_positions: Float[Tensor, "#b q d"] | None = None,
        memory_positions: Float[Tensor, "#b m d"] | None = None,
        allowed: Bool[Tensor, "*#b #q #m"] | None = None,
    ) -> Float[Tensor, "b q d"]:
        """Return the queries, each enriched by the others and by the memory.

        allowed is MultiHeadAttention's mask over the memory.
        """
        placed_memory = add_positions(memory, memory_positions)

        def read_each_other(queries: Tensor) -> Tensor:
            placed = add_positions(queries, query_positions)
            return self.self_attention(placed, placed, queries)[0]

        def read_memory(queries: Tensor) -> Tensor:
            placed = add_positions(queries, query_positions)
            return self.cross_attention(placed, placed_memory, memory, allowed)[0]

        queries = self.residual(queries, read_each_other, self.norm1)
        queries = self.residual(queries, read_memory, self.norm2)
        return self.residual(queries, self.ffn, self.norm3)


class TransformerEncoder(nn.Module):
    """A stack of TransformerBlocks; in pre-norm a last norm follows the blocks."""

    def __init__(self, layers: int, config: BlockConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerBlock(config) for _ in range(layers))
        self.norm = nn.LayerNorm(config.width) if config.pre_norm else nn.Identity()

    def forward(
        self,
        tokens: Float[Tensor, "b t d"],
        positions: Float[Tensor, "#b t d"] | None = None,
        allowed: Bool[Tensor, "*#b #t #t"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Run every block; each adds the positions again."""
        for layer in self.layers:
            tokens = layer(tokens, positions, allowed)
        return self.norm(tokens)
