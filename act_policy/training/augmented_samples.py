"""Pictures of augmented samples beside the recorded ones, for the page of an inspection."""

from collections.abc import Sequence

import torch

from act_policy.data.inspection.camera_looks import CameraLook
from act_policy.report.pieces import Image, encode_strip, spread
from act_policy.training.augmentation import Augmentation, AugmentationConfig

SHOWN = 8
"""Most images of a camera, each from another episode while there are enough."""


def draw_augmented(
    config: AugmentationConfig, looks: Sequence[CameraLook]
) -> list[tuple[str, list[Image], list[Image]]]:
    """Return each camera with some images as they are recorded, and as training might see them.

    Raises:
        UserError: a camera with its own values does not exist.
    """
    cameras = list(dict.fromkeys(look.camera for look in looks))
    augmentation = Augmentation(config, cameras)
    strips = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for camera in cameras:
            of_camera = [look for look in looks if look.camera == camera and look.images]
            chosen = [of_camera[i] for i in spread(len(of_camera), SHOWN)]
            middle = [len(look.images) // 2 for look in chosen]
            recorded = [look.images[i] for look, i in zip(chosen, middle, strict=True)]
            changed = [
                augmentation.images(torch.tensor(image)[None], camera)[0].numpy()
                for image in recorded
            ]
            labels = [
                f"episode {look.episode}, step {look.steps[i]}"
                for look, i in zip(chosen, middle, strict=True)
            ]
            strips.append((camera, encode_strip(recorded, labels), encode_strip(changed, labels)))
    return strips
