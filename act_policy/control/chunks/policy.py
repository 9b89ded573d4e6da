"""The one interface of a policy."""

from typing import Protocol, runtime_checkable

import numpy as np

from act_policy.types import Observation, Schema


@runtime_checkable
class ChunkPolicy(Protocol):
    """What the executor needs of a policy; `ACTPolicy` and `OnnxPolicy` are two."""

    @property
    def schema(self) -> Schema:
        """The cameras, joints and actions that the policy was trained on."""

    @property
    def chunk_length(self) -> int:
        """The k of a chunk (k, a)."""

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the next k actions (k, a), in the schema's units."""
