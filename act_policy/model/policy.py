"""ACTPolicy: raw observation in, physical actions out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.model.act import ACT
from act_policy.model.config import ACTConfig
from act_policy.model.normalizer import Normalizer
from act_policy.model.prefix import with_prefix
from act_policy.statistics import Statistics
from act_policy.types import Observation, Schema, check_prefix_length


class ACTPolicy(nn.Module):
    """Normaliser and network in one module, so that neither is used without the other.

    It satisfies the control package's ChunkPolicy: `ChunkExecutor(policy)` turns its chunks into
    single actions.
    """

    def __init__(self, config: ACTConfig, schema: Schema, statistics: Statistics) -> None:
        super().__init__()
        config.check_schema(schema)
        self.config = config
        self.schema = schema
        self.statistics = statistics
        self.demonstration_seeds: tuple[int, ...] = ()
        self.execution = Execution()
        relative = statistics.relative_actions
        if relative and config.rolls_state:
            raise UserError(
                f"prefix_as={config.prefix_as}: actions that are relative to the state "
                f"({', '.join(relative)}) cannot follow a state that is not measured; set "
                "prefix_as to tokens, or leave them absolute"
            )
        self.normalizer = Normalizer(statistics, _relative_to(schema, relative), config.rolls_state)
        self.act = ACT(config)
        for field in ("state", "action", "environment_state"):
            size = getattr(config, f"{field}_size")
            measured = getattr(statistics, field)
            found = 0 if measured is None else len(measured.mean)
            if found != size:
                raise UserError(f"statistics of {field}: {found} dimensions, expected {size}")
        if statistics.images is not None and set(statistics.images) != set(config.camera_names):
            raise UserError(
                f"statistics of images: cameras {sorted(statistics.images)}, "
                f"expected {sorted(config.camera_names)}"
            )
        # convolutions then read the images as they come, channels last: faster on GPU and CPU
        self.to(memory_format=torch.channels_last)

    @property
    def chunk_length(self) -> int:
        """The k of (k, a)."""
        return self.config.chunk_length

    @property
    def prefix_length(self) -> int:
        """Most committed actions that an observation may hold; 0: none."""
        return self.config.prefix_length

    def forward(self, observation: Observation[Tensor]) -> Float[Tensor, "b k a"]:
        """Predict the next k actions in physical units from a batch of raw observations.

        Those that the observation says are committed come back as they are.
        """
        normalised = self.normalizer.observation(observation)
        output = self.act(
            *(normalised.images, normalised.state, normalised.environment_state),
            latent="zero",
            prefix=normalised.prefix,
            task=normalised.task,
        )
        actions = self.normalizer.physical_actions(output.actions, observation.state)
        return with_prefix(actions, observation.prefix)

    def predict_chunk(self, observation: Observation[Any] | Mapping[str, Any]) -> np.ndarray:
        """Predict (k, a), or (b, k, a) for a batch: float32, physical units, deterministic.

        A policy that knows several tasks is told in the observation which of them to do.

        The observation (numpy or torch; an Observation or LeRobot's keys) is checked against the
        schema first. The module is left in the mode it was in.

        Raises:
            UserError: the observation is not what the schema describes, or its task is unknown.
        """
        if isinstance(observation, Mapping):
            observation = Observation.from_keys(observation)
        arrays = self.schema.check(observation.map(_to_numpy))
        check_prefix_length(arrays, self.prefix_length)
        single = np.ndim(arrays.state) == 1
        device = self.normalizer.state_mean.device

        def to_tensor(array: np.ndarray) -> Tensor:
            # Copied: a robot's arrays may be read-only or reversed views.
            tensor = torch.tensor(np.ascontiguousarray(array[None] if single else array))
            return tensor.to(device)

        was_training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                actions: np.ndarray = self(arrays.map(to_tensor)).float().cpu().numpy()
        finally:
            self.train(was_training)
        return actions[0] if single else actions

    def save(self, folder: str | Path) -> None:
        """Write a bundle: config.json, schema.json and model.safetensors, nothing half-written."""
        from act_policy.checkpoints.bundle import write_bundle

        write_bundle(Path(folder), self)

    @classmethod
    def load(cls, path: str | Path) -> "ACTPolicy":
        """Load a bundle folder, a run folder or a .ckpt file, on the CPU and in evaluation mode."""
        from act_policy.checkpoints.bundle import load_policy

        return load_policy(Path(path))


def _relative_to(schema: Schema, relative_actions: Sequence[str]) -> list[int | None]:
    """Find for each action dimension the state dimension that it is relative to."""
    for name in relative_actions:
        for field, names in (("action", schema.action_names), ("state", schema.state_names)):
            if name not in names:
                raise UserError(
                    f"relative action {name}: the schema has no {field} {name}; "
                    f"it has {', '.join(names)}"
                )
    return [
        schema.state_names.index(name) if name in relative_actions else None
        for name in schema.action_names
    ]


def _to_numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
