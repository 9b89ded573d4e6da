"""Pretrained weights for the image encoder, read from torchvision's files."""

from pathlib import Path

import torch
from torchvision.models import ResNet18_Weights, ResNet34_Weights, ResNet50_Weights
from torchvision.ops import FrozenBatchNorm2d

from act_policy.checkpoints.files import list_misfits, read_state_dict
from act_policy.errors import UserError
from act_policy.model.backbone import ResNet

# The first version of each: what ACT and LeRobot start from.
IMAGENET_FILES: dict[str, str] = {
    "resnet18": ResNet18_Weights.IMAGENET1K_V1.url,
    "resnet34": ResNet34_Weights.IMAGENET1K_V1.url,
    "resnet50": ResNet50_Weights.IMAGENET1K_V1.url,
}


def imagenet_file(backbone: str) -> Path:
    """Return where torchvision keeps ImageNet's weights of a ResNet; they may not be there."""
    name = IMAGENET_FILES[backbone].rsplit("/", 1)[-1]
    return Path(torch.hub.get_dir()) / "checkpoints" / name


def load_backbone_weights(backbone: ResNet, weights: str | Path | None) -> None:
    """Fill the ResNet from a file; nothing is ever downloaded.

    weights is None (stay random), "imagenet" (torchvision's file in torch's cache), the path of a
    torchvision state dict (.pth, .pt or .safetensors), or "auto": imagenet for a frozen norm, else
    None. Stages that were cut off and the classifier are skipped; everything else must fit.

    Raises:
        UserError: the file is absent, unreadable, or does not fit this network; or a frozen norm
            would stay as it was made.
    """
    is_frozen = any(isinstance(module, FrozenBatchNorm2d) for module in backbone.modules())
    if weights == "auto":
        weights = "imagenet" if is_frozen else None
    if weights is None:
        if is_frozen:
            raise UserError(
                "model.backbone_norm=frozen_batch keeps the statistics of pretrained weights, and "
                "backbone_weights=null gives none; set backbone_weights to imagenet or a file, or "
                "model.backbone_norm to batch or group"
            )
        return
    if weights == "imagenet":
        path = imagenet_file(backbone.name)
        if not path.is_file():
            url = IMAGENET_FILES[backbone.name]
            raise UserError(
                f"backbone_weights=imagenet: {path} does not exist and is not downloaded; "
                f"put torchvision's {path.name} ({url}) there, or train from scratch with "
                "backbone_weights=null model.backbone_norm=batch"
            )
    else:
        path = Path(weights)
        if not path.is_file():
            raise UserError(f"backbone_weights={path} does not exist")
    try:
        found = read_state_dict(path)
    except UserError as error:
        raise UserError(f"backbone_weights={error}") from None
    ours = backbone.state_dict()
    kept = {
        key: tensor
        for key, tensor in found.items()
        if key in ours
        or not (key.startswith(("fc.", "layer")) or key.endswith("num_batches_tracked"))
    }
    # num_batches_tracked only counts; files of a frozen norm lack it.
    expected = {
        key: tuple(tensor.shape)
        for key, tensor in ours.items()
        if key in kept or not key.endswith("num_batches_tracked")
    }
    if misfits := list_misfits(kept, expected):
        raise UserError(
            f"backbone_weights={path} does not fit {backbone.name}: {'; '.join(misfits[:4])}; "
            "pretrained weights need backbone_width 1 and a batch norm (frozen_batch or batch)"
        )
    backbone.load_state_dict(kept, strict=False)
