"""From the robot's units to the network's (zero mean, unit standard deviation) and back."""

from collections.abc import Sequence

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from act_policy.model.prefix import roll_state
from act_policy.statistics import Statistics
from act_policy.types import Observation

# Of images in [0, 1], RGB; the backbone's pretrained weights expect them.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Normalizer(nn.Module):
    """(x - mean) / scale with scale = max(std, floor); the statistics travel in the state dict.

    A dimension that never moved in training has the floor as its scale: it comes out finite, and
    the constant comes back exactly.

    Relative action dimensions are predicted as the difference from the current state, which is
    subtracted before mean and scale apply and added back last: physical actions are absolute.

    Args:
        statistics: of the training steps.
        relative_to: for each action dimension the state dimension that it is relative to, None
            where it is absolute; empty where all are.
        rolls_state: the state is where the committed actions end, see `prefix.py`.
    """

    image_mean: Tensor
    image_std: Tensor
    state_mean: Tensor
    state_scale: Tensor
    action_mean: Tensor
    action_scale: Tensor
    environment_state_mean: Tensor
    environment_state_scale: Tensor
    relative_state: Tensor
    is_relative: Tensor

    def __init__(
        self,
        statistics: Statistics,
        relative_to: Sequence[int | None] = (),
        rolls_state: bool = False,
    ) -> None:
        super().__init__()
        self.rolls_state = rolls_state
        self.has_relative = any(state is not None for state in relative_to)
        # Not in the state dict: the statistics name these dimensions.
        states = torch.tensor([state or 0 for state in relative_to], dtype=torch.long)
        flags = torch.tensor([state is not None for state in relative_to], dtype=torch.bool)
        self.register_buffer("relative_state", states, persistent=False)
        self.register_buffer("is_relative", flags, persistent=False)
        # One row for all cameras, or a row for each.
        own = statistics.images
        self.image_rows = None if own is None else {name: i for i, name in enumerate(own)}
        mean = IMAGENET_MEAN if own is None else np.stack([image.mean for image in own.values()])
        std = IMAGENET_STD if own is None else np.stack([image.std for image in own.values()])
        self.register_buffer("image_mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("image_std", torch.tensor(std, dtype=torch.float32))
        for name in ("state", "action", "environment_state"):
            if (field := getattr(statistics, name)) is not None:
                mean = np.asarray(field.mean, dtype=np.float32)
                scale = np.asarray(statistics.scale(field), dtype=np.float32)
                self.register_buffer(f"{name}_mean", torch.tensor(mean))
                self.register_buffer(f"{name}_scale", torch.tensor(scale))

    def observation(self, observation: Observation[Tensor]) -> Observation[Tensor]:
        """Normalise a batch: images become float (b, 3, h, w), vectors keep their shapes."""
        environment_state, prefix = observation.environment_state, observation.prefix
        state = observation.state
        if self.rolls_state:
            state = roll_state(state, prefix)
        if environment_state is not None:
            environment_state = (
                environment_state - self.environment_state_mean
            ) / self.environment_state_scale
        return Observation(
            {name: self.images(image, name) for name, image in observation.images.items()},
            self.state(state),
            environment_state,
            None if prefix is None else self.actions(prefix, observation.state),
            observation.task,
        )

    def images(self, images: UInt8[Tensor, "b h w 3"], camera: str) -> Float[Tensor, "b 3 h w"]:
        """Scale to [0, 1], then by ImageNet's mean and standard deviation, or the camera's own.

        The result keeps the channels last in memory, as the images came.
        """
        # One multiplication and one addition per pixel, on the device the images are on.
        mean, std = self.image_mean, self.image_std
        if self.image_rows is not None:
            row = self.image_rows[camera]
            mean, std = mean[row], std[row]
        scale = 1 / (255 * std)
        shift = -mean / std
        return rearrange(images.to(scale.dtype) * scale + shift, "b h w c -> b c h w")

    def state(self, state: Float[Tensor, "b s"]) -> Float[Tensor, "b s"]:
        """Normalise from physical units."""
        return (state - self.state_mean) / self.state_scale

    def actions(
        self, actions: Float[Tensor, "b _ a"], state: Float[Tensor, "b s"]
    ) -> Float[Tensor, "b _ a"]:
        """Normalise from physical units; state is the raw one at the chunk's beginning."""
        return (actions - self._reference(state) - self.action_mean) / self.action_scale

    def physical_actions(
        self, actions: Float[Tensor, "b k a"], state: Float[Tensor, "b s"]
    ) -> Float[Tensor, "b k a"]:
        """Return to absolute physical units, the inverse of `actions`."""
        return actions * self.action_scale + self.action_mean + self._reference(state)

    def _reference(self, state: Float[Tensor, "b s"]) -> Float[Tensor, "b 1 a"] | float:
        """Take for each action the value it is relative to: the state of that name, or 0."""
        if not self.has_relative:
            return 0.0
        # gathered, not multiplied by a matrix: exact on every device
        reference = torch.where(self.is_relative, state[:, self.relative_state], 0.0)
        return reference[:, None]
