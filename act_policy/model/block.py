"""Transformer blocks: attention lets tokens talk to each other, the feed-forward works on each.

Positions say where a token comes from. They are added to query and key, so they decide who reads
whom, and not to value, so what is carried over is content alone (DETR and ACT do so).
"""

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from act_policy.model.attention import MultiHeadAttention

Activation = Literal["relu", "gelu"]


def add_positions(
    tokens: Float[Tensor, "b n d"], positions: Float[Tensor, "#b n d"] | None
) -> Float[Tensor, "b n d"]:
    """Add a position vector to each token; the number of tokens and their width stay."""
    return tokens if positions is None else tokens + positions


class FeedForward(nn.Module):
    """Widen, activate, narrow: every token by itself, all by the same weights."""

    def __init__(
        self,
        width: int,
        hidden_width: int | None = None,
        activation: Activation = "gelu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        hidden_width = 4 * width if hidden_width is None else hidden_width
        self.expand = nn.Linear(width, hidden_width)
        self.activation = nn.GELU() if activation == "gelu" else nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.contract = nn.Linear(hidden_width, width)

    def forward(self, tokens: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """Compute contract(activation(expand(tokens)))."""
        hidden: Tensor = self.dropout(self.activation(self.expand(tokens)))
        output: Tensor = self.contract(hidden)
        return output


class TransformerBlock(nn.Module):
    """Self-attention, then feed-forward, each added to what came in (residual).

    Post-norm, as in the first Transformer and in ACT:
        x = norm1(x + attention(x)); x = norm2(x + ffn(x))
    Pre-norm, easier to train from scratch:
        x = x + attention(norm1(x)); x = x + ffn(norm2(x))
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward_width: int | None = None,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.attention = MultiHeadAttention(width, heads, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.ffn = FeedForward(width, feedforward_width, activation, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tokens: Float[Tensor, "b t d"],
        positions: Float[Tensor, "#b t d"] | None = None,
        allowed: Bool[Tensor, "*#b #t #t"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Let the tokens read each other; allowed is MultiHeadAttention's mask."""
        if self.pre_norm:
            tokens = tokens + self._attend(self.norm1(tokens), positions, allowed)
            output: Tensor = tokens + self.dropout(self.ffn(self.norm2(tokens)))
            return output
        tokens = self.norm1(tokens + self._attend(tokens, positions, allowed))
        output = self.norm2(tokens + self.dropout(self.ffn(tokens)))
        return output

    def _attend(self, tokens: Tensor, positions: Tensor | None, allowed: Tensor | None) -> Tensor:
        placed = add_positions(tokens, positions)
        output: Tensor = self.dropout(self.attention(placed, placed, tokens, allowed)[0])
        return output


class DecoderBlock(nn.Module):
    """Queries read each other, then the memory, then each works on what it found.

    The memory is the encoder's output: what the cameras and the joints say. norm1, norm2 and norm3
    belong to the three steps, after them (post-norm) or before them (pre-norm).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward_width: int | None = None,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.self_attention = MultiHeadAttention(width, heads, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.cross_attention = MultiHeadAttention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.ffn = FeedForward(width, feedforward_width, activation, dropout)
        self.norm3 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        queries: Float[Tensor, "b q d"],
        memory: Float[Tensor, "b m d"],
        query_positions: Float[Tensor, "#b q d"] | None = None,
        memory_positions: Float[Tensor, "#b m d"] | None = None,
    ) -> Float[Tensor, "b q d"]:
        """Return the queries, each enriched by the others and by the memory."""
        placed_memory = add_positions(memory, memory_positions)
        if self.pre_norm:
            queries = queries + self._read_queries(self.norm1(queries), query_positions)
            queries = queries + self._read_memory(
                self.norm2(queries), query_positions, placed_memory, memory
            )
            output: Tensor = queries + self.dropout(self.ffn(self.norm3(queries)))
            return output
        queries = self.norm1(queries + self._read_queries(queries, query_positions))
        queries = self.norm2(
            queries + self._read_memory(queries, query_positions, placed_memory, memory)
        )
        output = self.norm3(queries + self.dropout(self.ffn(queries)))
        return output

    def _read_queries(self, queries: Tensor, positions: Tensor | None) -> Tensor:
        placed = add_positions(queries, positions)
        output: Tensor = self.dropout(self.self_attention(placed, placed, queries)[0])
        return output

    def _read_memory(
        self, queries: Tensor, positions: Tensor | None, placed_memory: Tensor, memory: Tensor
    ) -> Tensor:
        placed = add_positions(queries, positions)
        output: Tensor = self.dropout(self.cross_attention(placed, placed_memory, memory)[0])
        return output


class TransformerEncoder(nn.Module):
    """A stack of TransformerBlocks; in pre-norm a last norm follows, as nothing else would."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        feedforward_width: int | None = None,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        pre_norm: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerBlock(width, heads, feedforward_width, activation, dropout, pre_norm)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width) if pre_norm else nn.Identity()

    def forward(
        self,
        tokens: Float[Tensor, "b t d"],
        positions: Float[Tensor, "#b t d"] | None = None,
        allowed: Bool[Tensor, "*#b #t #t"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Run every block; the positions are added anew in each."""
        for layer in self.layers:
            tokens = layer(tokens, positions, allowed)
        output: Tensor = self.norm(tokens)
        return output
