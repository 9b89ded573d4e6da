"""Random changes of what the network sees in training: light, colours, a state that is missing.

Images are not shifted or turned: where things are in an image is what the actions follow from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision.transforms import v2

from act_policy.errors import UserError
from act_policy.types import Observation

LARGEST = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.5}


@dataclass(frozen=True)
class AugmentationConfig:
    """How strongly samples are changed; 0 changes nothing.

    brightness, contrast, saturation: x multiplies by a factor from 1 - x to 1 + x.
    hue: turns the colour wheel by up to this share of it, either way.
    cameras: values that differ for a camera, by its name; None there leaves its images alone.
    state_dropout: share of the samples whose state is replaced by its mean, so that the policy
        cannot rely on it alone. Actions relative to the state still start from the true one.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    cameras: Mapping[str, Mapping[str, Any] | None] | None = None
    state_dropout: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.state_dropout < 1:
            raise UserError(
                f"augmentation.state_dropout={self.state_dropout}: expected 0 to below 1"
            )
        for camera in (None, *(self.cameras or {})):
            place = "augmentation" if camera is None else f"augmentation.cameras.{camera}"
            for name, value in self.strengths(camera).items():
                if name not in LARGEST:
                    raise UserError(f"{place}: unknown {name}; there are {', '.join(LARGEST)}")
                if not isinstance(value, int | float) or not 0 <= value <= LARGEST[name]:
                    raise UserError(f"{place}.{name}={value}: expected 0 to {LARGEST[name]:g}")

    def strengths(self, camera: str | None = None) -> dict[str, float]:
        """Return the values for a camera by their names; None: for a camera without its own."""
        own = (self.cameras or {}).get(camera, {}) if camera is not None else {}
        if own is None:
            return {}
        return {name: getattr(self, name) for name in LARGEST} | dict(own)


class Augmentation:
    """Changes batches on their device, each sample by itself, with torch's random numbers.

    Raises:
        UserError: a camera with its own values does not exist.
    """

    def __init__(self, config: AugmentationConfig, cameras: Sequence[str]) -> None:
        if unknown := sorted(set(config.cameras or {}) - set(cameras)):
            raise UserError(
                f"augmentation.cameras: there is no camera {', '.join(unknown)}; the "
                f"demonstrations have {', '.join(cameras)}"
            )
        self._jitters = {
            camera: v2.ColorJitter(**strengths)
            for camera in cameras
            if any((strengths := config.strengths(camera)).values())
        }
        self._state_dropout = config.state_dropout

    def __call__(
        self, observation: Observation[Tensor], mean_state: Float[Tensor, " s"]
    ) -> Observation[Tensor]:
        """Return a changed copy of a batch of raw observations."""
        images = {name: self.images(image, name) for name, image in observation.images.items()}
        state = observation.state
        if self._state_dropout:
            # drawn on the CPU, to be the same on every device
            dropped = torch.rand(len(state), 1) < self._state_dropout
            state = torch.where(dropped.to(state.device), mean_state, state)
        return observation._replace(images=images, state=state)

    def images(self, images: UInt8[Tensor, "b h w 3"], camera: str) -> UInt8[Tensor, "b h w 3"]:
        """Change the images of a camera."""
        jitter = self._jitters.get(camera)
        if jitter is None:
            return images
        changed = [jitter(image) for image in images.permute(0, 3, 1, 2)]  # one draw for each
        return torch.stack(changed).permute(0, 2, 3, 1).contiguous()
