"""Parity with torch's own Transformer modules, weights copied over."""

import pytest
import torch
from torch import Tensor, nn

from act_policy.model.attention import MultiHeadAttention
from act_policy.model.block import (
    Activation,
    BlockConfig,
    DecoderBlock,
    FeedForward,
    TransformerBlock,
    TransformerEncoder,
)
from tests.tolerance import network_rounding

WIDTH, HEADS, HIDDEN = 16, 4, 40
# Entries of torch's masks are true where ours are false.
ALLOWED = torch.tensor(
    [
        [True, False, True, True, False],
        [True, True, False, True, False],
        [False, False, True, True, False],
    ]
)


TERMS = 1000
"""Terms summed along the longest path: two layers forth and back, sums of 5 to 40, over a batch."""


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    tolerance = network_rounding(TERMS, max(theirs.abs().max().item(), 1.0))
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    with torch.no_grad():
        for parameter in theirs.parameters():
            nn.init.normal_(parameter, std=0.4)
        weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
        for index, name in enumerate(("q_proj", "k_proj", "v_proj")):
            ours.get_submodule(name).load_state_dict(
                {"weight": weights[index], "bias": biases[index]}
            )
        ours.out_proj.load_state_dict(theirs.out_proj.state_dict())


def copy_feed_forward(
    theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, ours: FeedForward
) -> None:
    ours.expand.load_state_dict(theirs.linear1.state_dict())
    ours.contract.load_state_dict(theirs.linear2.state_dict())


def copy_norms(theirs: nn.Module, ours: nn.Module, names: tuple[str, ...]) -> None:
    for name in names:
        norm = theirs.get_submodule(name)
        for parameter in norm.parameters():
            nn.init.normal_(parameter)
        ours.get_submodule(name).load_state_dict(norm.state_dict())


def assert_same_gradients(
    ours: Tensor, theirs: Tensor, our_inputs: list[Tensor], their_inputs: list[Tensor]
) -> None:
    assert_same(ours, theirs)
    target = torch.randn_like(ours)
    our_gradients = torch.autograd.grad((ours * target).sum(), our_inputs)
    their_gradients = torch.autograd.grad((theirs * target).sum(), their_inputs)
    for our, their in zip(our_gradients, their_gradients, strict=True):
        assert_same(our, their)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(masked: bool, need_weights: bool) -> None:
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = MultiHeadAttention(WIDTH, HEADS)
    copy_attention(theirs, ours)
    query, key, value = (torch.randn(2, n, WIDTH, requires_grad=True) for n in (3, 5, 5))
    expected, expected_weights = theirs(
        query,
        key,
        value,
        attn_mask=~ALLOWED if masked else None,
        need_weights=need_weights,
        average_attn_weights=False,
    )
    output, weights = ours(query, key, value, ALLOWED if masked else None, need_weights)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights)
    inputs = [query, key, value, theirs.in_proj_weight]
    projections = [ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]
    assert_same_gradients(output, expected, inputs[:3], inputs[:3])
    target = torch.randn_like(output)
    gradient = torch.autograd.grad((ours(*inputs[:3])[0] * target).sum(), projections)
    their_gradient = torch.autograd.grad((theirs(*inputs[:3])[0] * target).sum(), inputs[3:])
    assert_same(torch.cat(gradient), their_gradient[0])


def test_padding_mask() -> None:
    torch.manual_seed(2)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = MultiHeadAttention(WIDTH, HEADS)
    copy_attention(theirs, ours)
    x = torch.randn(2, 5, WIDTH)
    is_pad = torch.tensor([[False, False, True, True, True], [False] * 5])
    expected, _ = theirs(x, x, x, key_padding_mask=is_pad)
    output, _ = ours(x, x, x, ~is_pad[:, None])
    assert_same(output, expected)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_encoder_layer(activation: Activation, pre_norm: bool) -> None:
    torch.manual_seed(3)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=pre_norm
    )
    ours = TransformerBlock(BlockConfig(WIDTH, HEADS, HIDDEN, activation, pre_norm=pre_norm))
    copy_attention(theirs.self_attn, ours.attention)
    copy_feed_forward(theirs, ours.ffn)
    copy_norms(theirs, ours, ("norm1", "norm2"))
    x = torch.randn(2, 3, WIDTH, requires_grad=True)
    allowed = ALLOWED[:, :3]
    assert_same_gradients(
        ours(x, allowed=allowed),
        theirs(x, src_mask=~allowed),
        [x, ours.ffn.expand.weight, ours.norm1.weight, ours.attention.out_proj.weight],
        [x, theirs.linear1.weight, theirs.norm1.weight, theirs.self_attn.out_proj.weight],
    )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoder_layer(activation: Activation, pre_norm: bool) -> None:
    torch.manual_seed(4)
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=pre_norm
    )
    ours = DecoderBlock(BlockConfig(WIDTH, HEADS, HIDDEN, activation, pre_norm=pre_norm))
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_feed_forward(theirs, ours.ffn)
    copy_norms(theirs, ours, ("norm1", "norm2", "norm3"))
    queries, memory = (torch.randn(2, n, WIDTH, requires_grad=True) for n in (3, 5))
    assert_same_gradients(
        ours(queries, memory),
        theirs(queries, memory),
        [queries, memory, ours.ffn.contract.weight, ours.norm2.weight, ours.norm3.bias],
        [queries, memory, theirs.linear2.weight, theirs.norm2.weight, theirs.norm3.bias],
    )


@pytest.mark.parametrize("pre_norm", [False, True])
def test_encoder_stack(pre_norm: bool) -> None:
    """In pre-norm a last norm follows the blocks; in post-norm nothing does."""
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=pre_norm
    )
    last = nn.LayerNorm(WIDTH) if pre_norm else None
    theirs = nn.TransformerEncoder(layer, 2, norm=last, enable_nested_tensor=False)
    ours = TransformerEncoder(2, BlockConfig(WIDTH, HEADS, HIDDEN, "relu", pre_norm=pre_norm))
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        assert isinstance(their_layer, nn.TransformerEncoderLayer)
        assert isinstance(our_layer, TransformerBlock)
        copy_attention(their_layer.self_attn, our_layer.attention)
        copy_feed_forward(their_layer, our_layer.ffn)
        copy_norms(their_layer, our_layer, ("norm1", "norm2"))
    if pre_norm:
        copy_norms(theirs, ours, ("norm",))
    x = torch.randn(2, 3, WIDTH)
    assert_same(ours(x), theirs(x))
