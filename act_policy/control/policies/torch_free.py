"""Open the policies that need no torch: an exported ONNX file, or a policy server."""

import os
from pathlib import Path

from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.errors import UserError


def is_torch_free(spec: str | Path) -> bool:
    """Whether it is `FILE.onnx` or `ws://HOST:PORT`."""
    return str(spec).endswith(".onnx") or str(spec).startswith(("ws://", "wss://"))


def open_torch_free(spec: str | Path, threads: int | None = 1) -> ChunkPolicy:
    """Open `FILE.onnx`, or a policy server's `ws://HOST:PORT`.

    The server's key, where it wants one, is the environment variable ACT_POLICY_API_KEY.

    Args:
        spec: the file or the address.
        threads: of the CPU, for a file; None leaves the number to onnxruntime.

    Raises:
        UserError: it is neither, or cannot be opened.
    """
    if not is_torch_free(spec):
        raise UserError(f"policy {spec}: expected FILE.onnx or ws://HOST:PORT")
    if str(spec).endswith(".onnx"):
        return OnnxPolicy(spec, threads=threads)
    from act_policy.control.policies.remote_policy import RemotePolicy  # needs websockets

    return RemotePolicy(str(spec), api_key=os.environ.get("ACT_POLICY_API_KEY"))
