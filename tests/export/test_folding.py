"""What is computed once, before export, changes nothing: the same actions within rounding."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from act_policy.control.policies.onnx_policy import batched_inputs
from act_policy.export.folding import FoldedPolicy
from act_policy.export.parity import random_observation
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import ImageStatistics
from tests.export.export_for_tests import LARGEST_ACTION, make_policy
from tests.tolerance import RESNET18, network_rounding

KINDS: dict[str, dict[str, Any]] = {
    "pre-norm, groups": {},
    "post-norm, frozen": {"pre_norm": False, "backbone_norm": "frozen_batch"},
    "several layers": {"encoder_layers": 3, "decoder_layers": 3, "backbone_norm": "batch"},
    "post-norm, several": {"pre_norm": False, "decoder_layers": 2, "activation": "relu"},
    "no latent": {"latent_size": 0, "latent_layers": 0, "camera_embedding": False},
    "no environment state": {"environment_state": False, "backbone_stages": 4},
    "committed actions": {"prefix_length": 3, "decoder_layers": 2},
    "committed, one layer": {"prefix_length": 2, "pre_norm": False},
    "rolled state": {"positions": True, "prefix_length": 3, "prefix_as": "state"},
    "tokens and state": {"positions": True, "prefix_length": 3, "prefix_as": "both"},
    "tasks": {"tasks": ("open it", "close it", "leave it"), "decoder_layers": 2},
    "tasks, committed": {"tasks": ("open it", "close it"), "prefix_length": 2, "pre_norm": False},
    "bottlenecks": {"backbone": "resnet50", "backbone_stages": 2, "backbone_norm": "batch"},
}

# The deepest of KINDS is a ResNet-18 with a quarter of the channels.
TOLERANCE_IN_STD = network_rounding(RESNET18 // 4, LARGEST_ACTION)


def trained(policy: ACTPolicy) -> ACTPolicy:
    """Give every parameter and statistic a value of its own, as training would."""
    generator = torch.Generator().manual_seed(5)
    for name, tensor in policy.act.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2.0, generator=generator)
        elif tensor.is_floating_point() and tensor.dim() == 1:
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return policy


def fold_and_predict(policy: ACTPolicy, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Both predictions in standard deviations."""
    observation = random_observation(policy, batch, np.random.default_rng(batch))
    inputs, _ = batched_inputs(policy.schema, observation, policy.prefix_length)
    with torch.inference_mode():
        found = FoldedPolicy(policy).eval()(*map(torch.tensor, inputs)).numpy()
    scale = policy.statistics.scale(policy.statistics.action)
    return found / scale, policy.predict_chunk(observation) / scale


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_actions(kind: str) -> None:
    policy = trained(make_policy(**KINDS[kind]))
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    found, expected = fold_and_predict(policy, 3)
    assert np.abs(found - expected).max() <= TOLERANCE_IN_STD
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    assert all(torch.equal(before[name], t) for name, t in policy.state_dict().items())


def test_each_camera_may_have_its_own_statistics() -> None:
    policy = make_policy()
    images = {
        name: ImageStatistics(np.full(3, 0.2 + 0.1 * i), np.full(3, 0.3 + 0.1 * i))
        for i, name in enumerate(policy.schema.camera_names)
    }
    other = ACTPolicy(policy.config, policy.schema, policy.statistics._replace(images=images))
    other.act.load_state_dict(policy.act.state_dict())
    found, expected = fold_and_predict(other.eval(), 2)
    assert np.abs(found - expected).max() <= TOLERANCE_IN_STD
    assert np.abs(expected - fold_and_predict(policy, 2)[1]).max() > 1e-3


def test_the_border_of_an_image_is_its_mean() -> None:
    """Normalised, an image is padded with zeros: folded too, in the last pixel as well."""
    policy = trained(make_policy(backbone_norm="batch"))
    folded, encoder = FoldedPolicy(policy).eval(), policy.act.image_encoder.backbone
    image = torch.full((1, 24, 24, 3), 255, dtype=torch.uint8)
    with torch.inference_mode():
        expected = encoder.bn1(encoder.conv1(policy.normalizer.images(image, "left")))
        found = folded.image_encoder.backbone.conv1(folded.centred(image, "left"))
    # sums of 147 products; unfolded, each pixel is scaled first
    tolerance = network_rounding(2 * 147, expected.abs().max().item())
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
    assert (found[..., 0, 0] - found[..., 6, 6]).abs().max() > 1e-2


def test_nothing_is_left_to_fold() -> None:
    """No batch norm, no latent encoder, no self-attention of the first decoder layer."""
    folded = FoldedPolicy(make_policy(backbone_norm="batch", decoder_layers=1))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    names = " ".join(name for name, _ in folded.named_modules())
    assert "latent" not in names
    assert "self_attention" not in names
    assert not any(parameter.requires_grad for parameter in folded.parameters())
