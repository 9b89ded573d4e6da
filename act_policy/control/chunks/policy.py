"""The one interface of a policy, and the check of the chunks that it predicts."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.statistics import Statistics
from act_policy.types import Observation, Schema


class PolicyError(UserError):
    """The policy cannot be relied on: it died, is late, or predicted a broken chunk."""


@runtime_checkable
class ChunkSource(Protocol):
    """Predicts chunks, at once (`ChunkPolicy`) or later (`asynchronous.Inference`)."""

    @property
    def schema(self) -> Schema:
        """The cameras, joints and actions that the policy was trained on."""

    @property
    def chunk_length(self) -> int:
        """The k of a chunk (k, a)."""

    @property
    def execution(self) -> Execution:
        """How its chunks are executed unless somebody asks for something else."""


@runtime_checkable
class ChunkPolicy(ChunkSource, Protocol):
    """Predicts chunks of actions: `ACTPolicy`, `OnnxPolicy`, `RemotePolicy` and others."""

    @property
    def statistics(self) -> Statistics | None:
        """Statistics of the demonstrations; None where the policy's file does not have them."""

    @property
    def demonstration_seeds(self) -> tuple[int, ...]:
        """Seeds of the simulated initial states that the policy was trained on."""

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        """Return the next k actions (k, a), in the schema's units."""


def prefix_length(source: ChunkSource) -> int:
    """Return the most committed actions that a policy takes; 0 for one that knows of none."""
    return int(getattr(source, "prefix_length", 0))


def check_chunk(chunk: Any, source: ChunkSource) -> np.ndarray:
    """Return a copy of a predicted chunk (k, a), or raise PolicyError unless it may reach a motor.

    Its shape and type are checked, and that every action is a finite number.
    """
    expected = (source.chunk_length, source.schema.action_size)
    if not isinstance(chunk, np.ndarray) or chunk.dtype.kind != "f" or chunk.shape != expected:
        array = isinstance(chunk, np.ndarray)
        found = f"{chunk.dtype} {chunk.shape}" if array else type(chunk).__name__
        raise PolicyError(f"the policy predicted {found}, expected a chunk of floats {expected}")
    if not (finite := np.isfinite(chunk)).all():
        names = [source.schema.action_names[i] for i in np.flatnonzero(~finite.all(axis=0))]
        raise PolicyError(
            f"the policy predicted an action that is not a finite number in {', '.join(names)}; "
            "check the checkpoint and the observation"
        )
    return chunk.copy()  # a policy may use its memory again
