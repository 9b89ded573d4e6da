"""ResNet image encoder: a camera's image becomes a map of tokens."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck
from torchvision.ops import FrozenBatchNorm2d

BackboneName = Literal["resnet18", "resnet34", "resnet50"]
BackboneNorm = Literal["frozen_batch", "batch", "group"]

BLOCKS: dict[str, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
}
CHANNELS_PER_GROUP = 16


def group_norm(channels: int) -> nn.GroupNorm:
    """Normalise groups of 16 channels of one image: no statistics to gather, any batch size."""
    return nn.GroupNorm(channels // CHANNELS_PER_GROUP, channels)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "frozen_batch": FrozenBatchNorm2d,
    "batch": nn.BatchNorm2d,
    "group": group_norm,
}


class ResNet(nn.Module):
    """torchvision's ResNet, with its attribute names, cut after a stage and scaled in width.

    With four stages and width factor 1 it is torchvision's network without pooling and classifier.
    One more stage halves the map and doubles the channels: after three the stride is 16.

    Args:
        name: resnet18, resnet34 or resnet50.
        stages: how many of the four stages to keep.
        width_factor: factor on every channel count; a multiple of 0.25.
        norm: "frozen_batch" (nothing in it is learned: for pretrained weights), "batch", "group".
    """

    def __init__(
        self,
        name: BackboneName = "resnet18",
        stages: int = 4,
        width_factor: float = 1.0,
        norm: BackboneNorm = "frozen_batch",
    ) -> None:
        super().__init__()
        block, depths = BLOCKS[name]
        norm_layer = NORMS[norm]
        width = int(64 * width_factor)
        self.name = name
        self.stage_count = stages
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = norm_layer(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        channels = width
        for stage, depth in enumerate(depths[:stages]):
            layers: list[nn.Module] = []
            for index in range(depth):
                planes = width * 2**stage
                stride = 2 if stage > 0 and index == 0 else 1
                downsample = None
                if stride != 1 or channels != planes * block.expansion:
                    downsample = nn.Sequential(
                        nn.Conv2d(channels, planes * block.expansion, 1, stride, bias=False),
                        norm_layer(planes * block.expansion),
                    )
                layers.append(block(channels, planes, stride, downsample, norm_layer=norm_layer))
                channels = planes * block.expansion
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.channels = channels
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """Compute the feature map of the last stage kept."""
        features = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in range(1, self.stage_count + 1):
            features = self.get_submodule(f"layer{stage}")(features)
        return features

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """Give the size of the feature map of an image of that size, in cells."""
        stride = 2 ** (self.stage_count + 1)
        return math.ceil(height / stride), math.ceil(width / stride)


class ImageEncoder(nn.Module):
    """ResNet, then a 1x1 projection to the model's width, then the map read row by row."""

    def __init__(self, backbone: ResNet, model_width: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Conv2d(backbone.channels, model_width, kernel_size=1)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b t d"]:
        """Make one token of each cell of the feature map."""
        return rearrange(self.projection(self.backbone(images)), "b d y x -> b (y x) d")

    def encode_each(
        self, images: Sequence[Float[Tensor, "b 3 _h _w"]]
    ) -> list[Float[Tensor, "b _ d"]]:
        """Make the tokens of each camera's images; equal sizes pass in one batch."""
        by_size: dict[tuple[int, ...], list[int]] = {}
        for index, image in enumerate(images):
            by_size.setdefault(tuple(image.shape[-2:]), []).append(index)
        tokens: dict[int, Tensor] = {}
        for indices in by_size.values():
            batch = [images[index] for index in indices]
            encoded = self(torch.cat(batch) if len(batch) > 1 else batch[0])
            # (cameras * b, t, d) -> cameras times (b, t, d)
            apart = encoded.unflatten(0, (len(indices), -1)).unbind()
            tokens.update(zip(indices, apart, strict=True))
        return [tokens[index] for index in range(len(images))]
