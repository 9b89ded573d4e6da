"""Parameter groups, and the learning rate from step to step."""

import math
from typing import Any

import pytest
import torch

from act_policy.errors import UserError
from act_policy.model.act import ACT, ACTConfig
from act_policy.training.optimizer import OptimizerConfig, build_optimizer, parameter_groups
from act_policy.types import Camera
from tests.training.training_for_tests import TINY


@pytest.fixture(scope="module")
def model() -> ACT:
    cameras = (Camera("front", 16, 16),)
    return ACT(ACTConfig(cameras=cameras, state_size=2, action_size=3, **TINY))


def test_every_parameter_is_in_exactly_one_group(model: ACT) -> None:
    grouped = [p for group in parameter_groups(model, OptimizerConfig()) for p in group["params"]]  # type: ignore[attr-defined]
    assert len(grouped) == len({id(p) for p in grouped}) == len(list(model.parameters()))


def test_groups_have_their_own_learning_rate_and_decay(model: ACT) -> None:
    config = OptimizerConfig(learning_rate=1e-3, backbone_learning_rate=1e-4, weight_decay=0.5)
    names = {id(p): name for name, p in model.named_parameters()}
    peak: dict[str, float] = {}
    decay: dict[str, float] = {}
    for group in build_optimizer(model, config).param_groups:
        for parameter in group["params"]:
            peak[names[id(parameter)]] = group["peak"]
            decay[names[id(parameter)]] = group["weight_decay"]
    assert {peak[n] for n in peak if ".backbone." in n} == {1e-4}
    assert {peak[n] for n in peak if ".backbone." not in n} == {1e-3}
    assert {decay[n] for n in decay if n.endswith(("bias", "positions", "embedding"))} == {0.0}
    assert {decay[n] for n in decay if "norm" in n or ".bn" in n} == {0.0}
    assert decay["query_positions"] == 0.0
    assert decay["action_head.weight"] == 0.5
    assert decay["image_encoder.backbone.conv1.weight"] == 0.5
    assert {decay[n] for n in decay if n.endswith("q_proj.weight")} == {0.5}


def test_frozen_parameters_are_left_out() -> None:
    linear = torch.nn.Linear(2, 2)
    linear.weight.requires_grad_(False)
    (group,) = parameter_groups(linear, OptimizerConfig())
    assert group["params"] == [linear.bias]


def test_the_rate_warms_up_and_then_follows_a_cosine() -> None:
    config = OptimizerConfig(warmup_steps=9, final_fraction=0.1)
    assert [config.factor(step, 0.0) for step in (0, 4, 9, 10)] == [0.1, 0.5, 1.0, 1.0]
    assert config.factor(100, 0.5) == pytest.approx(0.55)
    assert config.factor(200, 1.0) == pytest.approx(0.1)
    assert config.factor(999, 1.5) == pytest.approx(0.1)
    expected = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.25))
    assert config.factor(50, 0.25) == pytest.approx(expected)


def test_the_rate_can_be_constant() -> None:
    config = OptimizerConfig(warmup_steps=1, schedule="constant")
    assert [config.factor(step, step / 4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]
    assert OptimizerConfig(warmup_steps=0, schedule="constant").factor(0, 0.0) == 1.0


def test_a_cosine_that_ends_at_its_peak_is_constant() -> None:
    config = OptimizerConfig(warmup_steps=0, final_fraction=1.0)
    assert [config.factor(step, step / 4) for step in range(5)] == [1.0] * 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", 0.0),
        ("backbone_learning_rate", -1.0),
        ("weight_decay", -0.1),
        ("warmup_steps", -1),
        ("schedule", "linear"),
        ("final_fraction", 1.0001),
        ("final_fraction", -0.1),
        ("gradient_clip", -1.0),
        ("ema_decay", 1.0),
        ("ema_decay", -0.1),
    ],
)
def test_impossible_values_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"optim\.{field}.*{value}"):
        OptimizerConfig(**{field: value})
