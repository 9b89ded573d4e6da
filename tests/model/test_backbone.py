"""The ResNet is torchvision's, cut and narrowed; each cell of its map becomes a token."""

import pytest
import torch

from act_policy.model.backbone import ImageEncoder, ResNet


@pytest.mark.parametrize("size", [(84, 84), (97, 33), (1, 2)])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_map_size(size: tuple[int, int], stages: int) -> None:
    network = ResNet("resnet18", stages, 0.25, "group")
    assert network(torch.randn(1, 3, *size)).shape[2:] == network.map_size(*size)


def test_width_factor_scales_every_channel() -> None:
    assert [ResNet("resnet18", s, 0.5).channels for s in (1, 2, 3, 4)] == [32, 64, 128, 256]
    assert ResNet("resnet50", 2, 0.25).channels == 16 * 2 * 4


def test_tokens_are_the_map_row_by_row() -> None:
    encoder = ImageEncoder(ResNet("resnet18", 1, 0.25, "group"), 8)
    images = torch.randn(2, 3, 16, 24)
    features = encoder.projection(encoder.backbone(images))
    tokens = encoder(images)
    assert tokens.shape == (2, 4 * 6, 8)
    for row in range(4):
        for column in range(6):
            torch.testing.assert_close(tokens[:, row * 6 + column], features[:, :, row, column])


def test_norms_train_what_they_say() -> None:
    learned = {
        norm: sum("bn" in name for name, _ in ResNet("resnet18", 1, 0.25, norm).named_parameters())
        for norm in ("frozen_batch", "batch", "group")
    }
    assert learned == {"frozen_batch": 0, "batch": 10, "group": 10}
