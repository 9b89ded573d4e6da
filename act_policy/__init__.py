"""Action-chunking Transformer policies for robots.

    from act_policy import ACTPolicy
    policy = ACTPolicy.load("runs/button")
    chunk = policy.predict_chunk(observation)

Importing the package costs nothing: torch, numpy and gymnasium are loaded at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from act_policy.control.chunks.executor import ChunkExecutor as ChunkExecutor
    from act_policy.errors import UserError as UserError
    from act_policy.model.act import ACT as ACT
    from act_policy.model.act import ACTConfig as ACTConfig
    from act_policy.model.policy import ACTPolicy as ACTPolicy
    from act_policy.types import Observation as Observation
    from act_policy.types import Schema as Schema

__version__ = "0.1.0"

_WHERE = {
    "ACT": "act_policy.model.act",
    "ACTConfig": "act_policy.model.act",
    "ACTPolicy": "act_policy.model.policy",
    "ChunkExecutor": "act_policy.control.chunks.executor",
    "Observation": "act_policy.types",
    "Schema": "act_policy.types",
    "UserError": "act_policy.errors",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
