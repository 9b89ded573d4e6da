"""Action-chunking Transformer policies for robots.

    from act_policy import ACTPolicy
    policy = ACTPolicy.load("runs/button")
    chunk = policy.predict_chunk(observation)

`train(FOLDER, OUT)` is the command `act-policy train`.

Importing the package loads none of its modules: each name here is imported at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from act_policy.cli.training.python import train as train
    from act_policy.control.chunks.executor import ChunkExecutor as ChunkExecutor
    from act_policy.control.policies.onnx_policy import OnnxPolicy as OnnxPolicy
    from act_policy.control.policies.remote_policy import RemotePolicy as RemotePolicy
    from act_policy.data.open import open_dataset as open_dataset
    from act_policy.data.reader_config import ReaderConfig as ReaderConfig
    from act_policy.errors import UserError as UserError
    from act_policy.model.act import ACT as ACT
    from act_policy.model.config import ACTConfig as ACTConfig
    from act_policy.model.policy import ACTPolicy as ACTPolicy
    from act_policy.types import Camera as Camera
    from act_policy.types import Observation as Observation
    from act_policy.types import Schema as Schema

__version__ = "0.1.0"

_MODULES = {
    "ACT": "model.act",
    "ACTConfig": "model.config",
    "ACTPolicy": "model.policy",
    "Camera": "types",
    "ChunkExecutor": "control.chunks.executor",
    "Observation": "types",
    "OnnxPolicy": "control.policies.onnx_policy",
    "ReaderConfig": "data.reader_config",
    "RemotePolicy": "control.policies.remote_policy",
    "Schema": "types",
    "UserError": "errors",
    "open_dataset": "data.open",
    "train": "cli.training.python",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"act_policy.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
