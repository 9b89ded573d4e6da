"""The image encoder is filled from files that exist, and gives torchvision's features."""

from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torchvision.ops import FrozenBatchNorm2d

from act_policy.checkpoints.backbone_weights import load_backbone_weights
from act_policy.errors import UserError
from act_policy.model.backbone import BackboneName, ResNet
from tests.tolerance import RESNET18, network_rounding


def torchvision_features(
    network: torch.nn.Module, images: torch.Tensor, stages: int
) -> torch.Tensor:
    features = network.maxpool(network.relu(network.bn1(network.conv1(images))))
    for stage in range(1, stages + 1):
        features = network.get_submodule(f"layer{stage}")(features)
    return features


@pytest.mark.parametrize(
    ("name", "stages"), [("resnet18", 4), ("resnet18", 3), ("resnet34", 2), ("resnet50", 3)]
)
def test_torchvisions_weights_give_torchvisions_features(
    name: BackboneName, stages: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    theirs = getattr(torchvision.models, name)(weights=None, norm_layer=FrozenBatchNorm2d)
    for module in theirs.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    torch.save(theirs.state_dict(), tmp_path / "weights.pth")
    ours = ResNet(name, stages)
    load_backbone_weights(ours, tmp_path / "weights.pth")
    images = torch.randn(2, 3, 50, 70)
    expected = torchvision_features(theirs, images, stages)
    tolerance = network_rounding(RESNET18, expected.abs().max().item())
    torch.testing.assert_close(ours(images), expected, atol=tolerance, rtol=0)
    assert ours(images).shape[2:] == ours.map_size(50, 70)


def test_batch_norm_takes_torchvisions_file_too(tmp_path: Path) -> None:
    theirs = torchvision.models.resnet18(weights=None).eval()
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")
    for norm in ("batch", "frozen_batch"):
        ours = ResNet("resnet18", norm=norm).eval()
        load_backbone_weights(ours, str(tmp_path / "weights.safetensors"))
        images = torch.randn(1, 3, 32, 32)
        expected = torchvision_features(theirs, images, 4)
        tolerance = network_rounding(RESNET18, expected.abs().max().item())
        torch.testing.assert_close(ours(images), expected, atol=tolerance, rtol=0)


def test_imagenet_absent_names_the_file_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(UserError) as error:
        load_backbone_weights(ResNet("resnet18"), "imagenet")
    assert str(tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth") in str(error.value)
    assert "backbone_weights=null model.backbone_norm=batch" in str(error.value)


def test_random_weights_are_for_norms_that_learn() -> None:
    for norm in ("batch", "group"):
        for weights in (None, "auto"):
            load_backbone_weights(ResNet("resnet18", 1, 0.25, norm), weights)
    with pytest.raises(UserError, match=r"frozen_batch.*backbone_weights to imagenet"):
        load_backbone_weights(ResNet("resnet18", 1, 0.25, "frozen_batch"), None)


def test_imagenet_is_read_from_torchs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    theirs = torchvision.models.resnet18(weights=None)
    place = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    place.parent.mkdir(parents=True)
    torch.save(theirs.state_dict(), place)
    for weights in ("imagenet", "auto"):
        ours = ResNet("resnet18")
        load_backbone_weights(ours, weights)
        assert torch.equal(ours.conv1.weight, theirs.conv1.weight)


def test_files_that_do_not_fit_are_refused_and_change_nothing(tmp_path: Path) -> None:
    good = ResNet("resnet18", width_factor=0.25, norm="batch").state_dict()
    missing = {key: tensor for key, tensor in good.items() if key != "layer2.0.bn1.weight"}
    files = {
        "absent.pth": None,
        "missing.pth": missing,
        "unknown.pth": {**good, "head.weight": torch.zeros(1)},
        "list.pth": [1, 2],
    }
    for name, content in files.items():
        if content is not None:
            torch.save(content, tmp_path / name)
    (tmp_path / "garbage.safetensors").write_bytes(b"not tensors")
    torch.save(good, tmp_path / "good.pth")
    narrow = ResNet("resnet18", width_factor=0.25)
    load_backbone_weights(narrow, tmp_path / "good.pth")
    cases = [
        ("absent.pth", narrow, "does not exist"),
        ("missing.pth", narrow, r"missing layer2\.0\.bn1\.weight"),
        ("unknown.pth", narrow, r"unknown head\.weight"),
        ("list.pth", narrow, "is not a checkpoint"),
        ("garbage.safetensors", narrow, "cannot be read"),
        ("good.pth", ResNet("resnet18", 2, 0.5), r"conv1\.weight is \(16, 3, 7, 7\) instead of"),
        ("good.pth", ResNet("resnet18", 2, 0.25, "group"), r"unknown bn1\.running_mean"),
        ("good.pth", ResNet("resnet34", 1, 0.25), r"missing layer1\.2\.conv1\.weight"),
    ]
    for name, network, message in cases:
        before = network.conv1.weight.clone()
        with pytest.raises(UserError, match=message) as error:
            load_backbone_weights(network, tmp_path / name)
        assert name in str(error.value)
        assert torch.equal(network.conv1.weight, before)
