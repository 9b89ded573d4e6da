"""Attention: the two paths agree, masks mean what they say, nothing is left behind."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from act_policy.errors import UserError
from act_policy.model.attention import (
    MultiHeadAttention,
    scaled_dot_product_attention,
    scaled_dot_product_attention_by_hand,
)
from tests.examples import FEW
from tests.tolerance import rounding

MASKS = {
    "none": None,
    "padding": torch.tensor(
        [[[True, True, False, False, True]], [[False, True, True, True, True]]]
    ),
    "pairs": torch.tril(torch.ones(4, 5, dtype=torch.bool)),
    "a row reads nothing": torch.tensor([[True] * 5, [False] * 5, [True] * 5, [False] * 5]),
    "nobody reads anything": torch.zeros(2, 4, 5, dtype=torch.bool),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("scale", [None, 1.0])
def test_by_hand_and_fused_agree_in_values_and_gradients(name: str, scale: float | None) -> None:
    torch.manual_seed(0)
    results = []
    query, key, value = (torch.randn(2, 3, n, 8, dtype=torch.float64) for n in (4, 5, 5))
    target = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    allowed = MASKS[name]
    allowed = None if allowed is None else allowed.unsqueeze(-3)
    for path in (scaled_dot_product_attention_by_hand, scaled_dot_product_attention):
        inputs = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
        output = path(*inputs, allowed, scale)
        output = output[0] if isinstance(output, tuple) else output
        ((output - target) ** 2).sum().backward()
        results.append((output, *(tensor.grad for tensor in inputs)))
    for hand, fused in zip(*results, strict=True):
        assert hand is not None
        assert torch.isfinite(hand).all()
        # sums of at most 8 terms, each below 30
        tolerance = rounding(16, 8 * 30, np.float64)
        torch.testing.assert_close(hand, fused, atol=tolerance, rtol=0)


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3))
@FEW
def test_weights_follow_the_mask(mask: list[list[bool]]) -> None:
    allowed = torch.tensor(mask)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    output, weights = scaled_dot_product_attention_by_hand(query, key, key, allowed)
    assert (weights[:, ~allowed] == 0).all()
    sums = weights.sum(-1)
    torch.testing.assert_close(sums, allowed.any(-1).float().expand_as(sums))
    assert (output[:, ~allowed.any(-1)] == 0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_reads_nothing_gives_zeros_and_finite_gradients(need_weights: bool) -> None:
    attention = MultiHeadAttention(8, 2)
    x = torch.randn(2, 3, 8, requires_grad=True)
    allowed = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    output, _ = attention(x, x, x, allowed, need_weights)
    # out_proj's bias is all that is left of a query that read zeros
    torch.testing.assert_close(output[:, 1], attention.out_proj.bias.expand(2, 8))
    output.square().sum().backward()
    for tensor in (x, *attention.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


def test_masked_keys_do_not_matter() -> None:
    attention = MultiHeadAttention(8, 2)
    query, memory = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    allowed = torch.tensor([[[True, True, False, True]], [[True, False, False, True]]])
    before = attention(query, memory, memory, allowed)[0]
    changed = torch.where(allowed.transpose(1, 2), memory, 100 * torch.randn(2, 4, 8))
    torch.testing.assert_close(attention(query, changed, changed, allowed)[0], before)
    assert (attention(query, changed, changed)[0] - before).abs().max() > 1e-3


def test_width_that_heads_do_not_divide_is_refused_with_both_numbers() -> None:
    with pytest.raises(UserError, match=r"width 10 .* 4 heads"):
        MultiHeadAttention(10, 4)
    with pytest.raises(UserError, match="0 heads"):
        MultiHeadAttention(10, 0)


def test_weights_come_on_request_and_are_never_stored() -> None:
    attention = MultiHeadAttention(8, 2)
    names = set(vars(attention))
    x = torch.randn(2, 3, 8)
    output, weights = attention(x, x, x)
    assert weights is None
    same, weights = attention(x, x, x, need_weights=True)
    assert weights is not None
    torch.testing.assert_close(same, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert set(vars(attention)) == names
    assert not any(isinstance(value, Tensor) for value in vars(attention).values())


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_acts_on_the_weights_in_training_only(need_weights: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(4, 1, dropout=0.5)
    with torch.no_grad():
        for projection in (attention.v_proj, attention.out_proj):
            projection.weight.copy_(torch.eye(4))
            projection.bias.zero_()
    ones = torch.ones(1, 2000, 4)
    query = ones[:, :400]

    def outputs() -> Tensor:
        result: Tensor = attention(query, ones, ones, need_weights=need_weights)[0]
        return result.detach()

    # Weights are 1/2000 each and values 1: a dropped weight lowers the sum by 1/2000, scaled by 2.
    training = outputs()
    assert training.std() > 0.01
    torch.testing.assert_close(training.mean(), torch.tensor(1.0), atol=0.02, rtol=0)
    attention.eval()
    torch.testing.assert_close(outputs(), torch.ones(1, 400, 4), atol=rounding(2000), rtol=0)
