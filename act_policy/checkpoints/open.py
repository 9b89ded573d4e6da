"""Open a policy of any kind; torch is imported only where the policy needs it."""

from pathlib import Path
from typing import TYPE_CHECKING

from act_policy.checkpoints.locate import find_lerobot_folder, find_weights, is_original_act
from act_policy.checkpoints.source import Source
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.control.policies.torch_free import is_torch_free, open_torch_free
from act_policy.errors import UserError

if TYPE_CHECKING:
    from act_policy.model.policy import ACTPolicy


def open_policy(
    path: str | Path, source: Source | None = None, threads: int | None = 1
) -> ChunkPolicy:
    """Open a policy to predict with, on the CPU.

    Args:
        path: all that `open_network` reads, an ONNX file or its folder, or a server's
            ws://HOST:PORT.
        source: what a checkpoint of other software does not say.
        threads: of the CPU, for an ONNX file; None leaves the number to onnxruntime.

    Raises:
        UserError: there is none, or it cannot be read, or source is given for one that needs none.
    """
    if not str(path).startswith(("ws://", "wss://")):
        file = find_weights(Path(path))
        if not is_torch_free(file):
            return open_network(path, source)
        path = file
    return open_torch_free(path, threads)


def open_network(path: str | Path, source: Source | None = None) -> "ACTPolicy":
    """Open a policy to train or export; on the CPU, in evaluation mode. No code in it is run.

    This project's (bundle, run, .ckpt file), LeRobot's (run, checkpoint, or the pretrained_model
    folder in it) or the original ACT's (folder, or a .ckpt file beside dataset_stats.pkl).

    Raises:
        UserError: as `open_policy`.
    """
    from act_policy.checkpoints.bundle import load_policy
    from act_policy.checkpoints.lerobot.checkpoint import load_lerobot
    from act_policy.checkpoints.original_act import load_original_act

    path = Path(path)
    source = Source() if source is None else source
    lerobot_folder = find_lerobot_folder(path)
    if lerobot_folder is None and is_original_act(path):
        return load_original_act(path, source)
    if (source.cameras, source.image_size, source.heads) != (None, None, None):
        raise UserError(
            f"{path} describes its cameras and heads; leave out source.cameras, "
            "source.image_size and source.heads"
        )
    if lerobot_folder is not None:
        return load_lerobot(lerobot_folder, source.schema)
    if source.schema is not None:
        raise UserError(f"{path} has a schema of its own; leave out source.schema")
    return load_policy(path)
