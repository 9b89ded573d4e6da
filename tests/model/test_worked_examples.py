"""Every worked example of the course, by name (tests/worked_examples.json is the course's file)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from einops import rearrange
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from act_policy.model.attention import (
    MultiHeadAttention,
    scaled_dot_product_attention,
    scaled_dot_product_attention_by_hand,
)
from act_policy.model.block import (
    BlockConfig,
    DecoderBlock,
    FeedForward,
    TransformerBlock,
    add_positions,
)
from tests.paths import ROOT
from tests.tolerance import rounding

EXAMPLES = {
    example["name"]: example
    for example in json.loads((ROOT / "tests" / "worked_examples.json").read_text())
}


def of_kind(*kinds: str) -> list[str]:
    return [name for name, example in EXAMPLES.items() if example["kind"] in kinds]


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", of_kind("attention"))
def test_attention(name: str) -> None:
    example = EXAMPLES[name]
    query, key, value = (double(example[field]) for field in ("query", "keys", "values"))
    allowed = None
    if example["key_allowed"] is not None:
        allowed = torch.tensor(example["key_allowed"])[None]
    scale = 1 / example["scale_divisor"]
    output, weights = scaled_dot_product_attention_by_hand(query, key, value, allowed, scale)
    torch.testing.assert_close(weights, double(example["weights"]), atol=1e-12, rtol=0)
    torch.testing.assert_close(output, double(example["output"]), atol=1e-12, rtol=1e-12)
    fused = scaled_dot_product_attention(query, key, value, allowed, scale)
    torch.testing.assert_close(fused, double(example["output"]), atol=1e-12, rtol=1e-12)
    scores = [[s for s in row if s is not None] for row in example["scores"]]
    kept = slice(None) if allowed is None else allowed[0]
    torch.testing.assert_close((query @ key.T * scale)[:, kept], double(scores))
    printed, tolerance = example["printed_in_course"], example["tolerance_against_printed"]
    for field, found in (("weights", weights), ("output", output)):
        if field in printed:
            expected = double(printed[field]).reshape(found.shape)
            torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
    if wrong := printed.get("wrong_answer_if_zeroed_after_softmax"):
        assert abs(output.item() - wrong[0]) > 1


def all_keys_masked(example: dict[str, Any]) -> None:
    """The rule for what no formula defines: zeros."""
    query = torch.randn(1, 2, 3)
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    output, weights = scaled_dot_product_attention_by_hand(query, query, query, nothing)
    assert (output == 0).all()
    assert (weights == 0).all()


def layer_norm(example: dict[str, Any]) -> None:
    norm = TransformerBlock(BlockConfig(2, 1)).norm1
    found = norm(torch.tensor([example["input"]], dtype=torch.float32))
    expected = torch.tensor([example["output_without_affine_and_eps"]], dtype=torch.float32)
    torch.testing.assert_close(found, expected * 0.999995, atol=rounding(8), rtol=0)


def feed_forward_relu(example: dict[str, Any]) -> None:
    ffn = FeedForward(BlockConfig(2, 1, 3, activation="relu"))
    with torch.no_grad():
        for layer, weight, bias in ((ffn.expand, "W1", "b1"), (ffn.contract, "W2", "b2")):
            layer.weight.copy_(torch.tensor(example[weight]).T)
            layer.bias.copy_(torch.tensor(example[bias]))
        x = torch.tensor([example["x"]], dtype=torch.float32)
        assert ffn.expand(x).tolist() == [example["hidden"]]
        assert ffn.activation(ffn.expand(x)).tolist() == [example["activated"]]
        assert ffn(x).tolist() == [example["output"]]


def position_added_not_appended(example: dict[str, Any]) -> None:
    tokens = torch.tensor([[example["token"]] * 2], dtype=torch.float32)
    placed = add_positions(tokens, torch.tensor([example["positions"]]))
    assert placed.shape == tokens.shape
    torch.testing.assert_close(placed, torch.tensor([example["outputs"]]))


def convex_combination(example: dict[str, Any]) -> None:
    values = torch.tensor(example["example"]["values"], dtype=torch.float64)[:, None]
    scores = torch.tensor(example["example"]["weights"], dtype=torch.float64).log()[:, None]
    output, weights = scaled_dot_product_attention_by_hand(
        torch.ones(1, 1, dtype=torch.float64), scores, values, scale=1.0
    )
    torch.testing.assert_close(weights, double([example["example"]["weights"]]))
    torch.testing.assert_close(output, double([[example["example"]["output"]]]))
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2)
    x = torch.randn(3, 5, 8)
    heads = [
        rearrange(projection(x), "b n (heads e) -> b heads n e", heads=2)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    ]
    mixed = scaled_dot_product_attention(heads[0], heads[1], heads[2])
    low, high = heads[2].amin(2, keepdim=True), heads[2].amax(2, keepdim=True)
    slack = rounding(2 * 5, heads[2].abs().max().item())  # sums of five weights and five products
    assert ((mixed >= low - slack) & (mixed <= high + slack)).all()
    block = TransformerBlock(BlockConfig(8, 2))(x)
    assert (block > x.amax(1, keepdim=True)).any()


def head_shapes(example: dict[str, Any]) -> None:
    for case in example["cases"]:
        attention = MultiHeadAttention(case["x"][2], case["heads"])
        x = torch.randn(case["x"])
        output, weights = attention(x, x, x, need_weights=True)
        split = rearrange(
            attention.q_proj(x), "b n (heads e) -> b heads n e", heads=attention.heads
        )
        assert weights is not None
        assert list(split.shape) == case["split"]
        assert split.shape[-1] == case["head_dim"]
        assert list(weights.shape) == case["scores"]
        assert list(output.shape) == case["out"]


def heads_split_features_not_tokens(example: dict[str, Any]) -> None:
    """Zeroing head 0's half of q changes head 0's weights, over all tokens, and head 1's not."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2)
    x = torch.randn(1, 5, 8)
    _, before = attention(x, x, x, need_weights=True)
    with torch.no_grad():
        attention.q_proj.weight[:4] = 0
        attention.q_proj.bias[:4] = 0
    _, after = attention(x, x, x, need_weights=True)
    assert before is not None
    assert after is not None
    torch.testing.assert_close(after[:, 0], torch.full((1, 5, 5), 0.2))
    torch.testing.assert_close(after[:, 1], before[:, 1])
    # out_proj mixes the heads: with it cut off from head 1, head 1's values no longer matter.
    with torch.no_grad():
        attention.out_proj.weight[:, 4:] = 0
    output = attention(x, x, x)[0]
    with torch.no_grad():
        attention.v_proj.weight[4:] = 0
    torch.testing.assert_close(attention(x, x, x)[0], output)


def block_shapes(example: dict[str, Any]) -> None:
    for case in example["cases"]:
        block = TransformerBlock(BlockConfig(case["x"][2], heads=4))
        x = torch.randn(case["x"])
        assert list(block.ffn.expand(x).shape) == case["ffn_hidden"]
        assert list(block(x).shape) == case["out"]
        assert isinstance(block.ffn.activation, nn.GELU)
        y = block.norm1(x + block.attention(x, x, x)[0])
        torch.testing.assert_close(block(x), block.norm2(y + block.ffn(y)))
        block = TransformerBlock(BlockConfig(case["x"][2], heads=4, pre_norm=True))
        normed = block.norm1(x)
        y = x + block.attention(normed, normed, normed)[0]
        torch.testing.assert_close(block(x), y + block.ffn(block.norm2(y)))


def order_is_invisible_without_positions(example: dict[str, Any]) -> None:
    torch.manual_seed(0)
    block = TransformerBlock(BlockConfig(16, 4))
    x, positions, order = torch.randn(2, 6, 16), torch.randn(1, 6, 16), torch.randperm(6)
    torch.testing.assert_close(block(x[:, order]), block(x)[:, order])
    assert (block(x[:, order], positions) - block(x, positions)[:, order]).abs().max() > 0.01


def cost_growth(example: dict[str, Any]) -> None:
    """Count multiplications: twice the tokens, twice the feed-forward, four times the scores."""

    def flops(function: Callable[..., object], *inputs: Tensor) -> int:
        with FlopCounterMode(display=False) as counter:
            function(*inputs)
        return counter.get_total_flops()

    ffn = FeedForward(BlockConfig(16, 4))
    scores = {}
    for heads in (1, 4):
        for n in (32, 64):
            x = torch.randn(1, heads, n, 16 // heads)
            scores[heads, n] = flops(scaled_dot_product_attention_by_hand, x, x, x)
    assert scores[1, 64] == 4 * scores[1, 32]
    assert scores[4, 32] == scores[1, 32]
    short, long = torch.randn(1, 32, 16), torch.randn(1, 64, 16)
    assert flops(ffn, long) == 2 * flops(ffn, short)


def cross_attention(example: dict[str, Any]) -> None:
    for case in example["cases"]:
        attention = DecoderBlock(BlockConfig(case["query"][2], case["heads"])).cross_attention
        memory = torch.randn(case["memory"])
        output, weights = attention(torch.randn(case["query"]), memory, memory, need_weights=True)
        assert weights is not None
        assert list(weights.shape) == case["scores"]
        assert list(output.shape) == case["out"]


OTHERS: dict[str, Callable[[dict[str, Any]], None]] = {
    test.__name__: test
    for test in (
        all_keys_masked,
        layer_norm,
        feed_forward_relu,
        position_added_not_appended,
        convex_combination,
        head_shapes,
        heads_split_features_not_tokens,
        block_shapes,
        order_is_invisible_without_positions,
        cost_growth,
        cross_attention,
    )
}


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in of_kind("attention", "note")])
def test_example(name: str) -> None:
    OTHERS[name](EXAMPLES[name])
