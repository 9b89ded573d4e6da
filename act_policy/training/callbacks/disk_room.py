"""Whether the disk, or the user's quota on it, has room for the checkpoints of a run."""

import errno
import os
import shutil
from pathlib import Path

from torch import nn

from act_policy.errors import UserError
from act_policy.system.atomic import PARTIAL_SUFFIX

AT_ONCE = 3
"""last.ckpt, best.ckpt and the one that is being written."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def size_of_checkpoint(module: nn.Module) -> int:
    """Estimate the bytes of a checkpoint: the weights, and AdamW's two numbers for each."""
    state = sum(int(value.nbytes) for value in module.state_dict().values())
    learned = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return state + 2 * 4 * learned


def check_room(run: Path, size: int, kept: int) -> None:
    """Raise UserError unless a run has room for its checkpoints.

    What is free is not always the user's: a quota shows only when space is taken, so that of the
    first checkpoints is taken for a moment.

    Args:
        run: the run folder.
        size: bytes of a checkpoint.
        kept: checkpoints that are kept beside the last and the best.
    """
    folder = run / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    present = sum(path.stat().st_size for path in folder.glob("*.ckpt"))
    at_once = max(AT_ONCE * size - present, size)
    free = shutil.disk_usage(folder).free
    if free < at_once + kept * size:
        _refuse(run, size, kept, f"{free / 1e6:.0f} MB are free")
    if not hasattr(os, "posix_fallocate"):
        return
    trial = folder / f".room.{os.getpid()}{PARTIAL_SUFFIX}"
    try:
        with trial.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, at_once)
    except OSError as error:
        if error.errno in _FULL:  # other file systems cannot tell
            _refuse(run, size, kept, str(error.strerror))
    finally:
        trial.unlink(missing_ok=True)


def _refuse(run: Path, size: int, kept: int, found: str) -> None:
    wanted = f"{AT_ONCE} checkpoints of {size / 1e6:.0f} MB at a time"
    if kept:
        wanted += f" and {kept} that callbacks.checkpoints.keep_every and rollout_every keep"
    raise UserError(
        f"{run}: there is no room for {wanted} ({found}); free some space, or give out= a folder "
        "on another disk"
    )
