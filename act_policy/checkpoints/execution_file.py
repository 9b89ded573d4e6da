"""RUN/execution.json: how a run's chunks are executed, as found after its training.

A checkpoint stays as training wrote it, so that its sha256 still names the same weights.
"""

import json
from pathlib import Path

from act_policy.checkpoints.locate import (
    BUNDLE_CONFIG,
    BUNDLE_WEIGHTS,
    find_lerobot_folder,
    find_weights,
    is_original_act,
)
from act_policy.errors import UserError, located, writing
from act_policy.execution import Execution
from act_policy.system.atomic import atomic_file

EXECUTION_FILE = "execution.json"


def read_run_execution(checkpoint: Path) -> Execution | None:
    """Return what the run of this .ckpt file holds; None without a run, or where it holds none.

    Raises:
        UserError: the file is not what `write_execution` wrote.
    """
    path = checkpoint.parent.parent / EXECUTION_FILE
    if checkpoint.parent.name != "checkpoints" or not path.is_file():
        return None
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}; remove it, or tune again") from None
    with located(path):
        return Execution.from_dict(plain)


def write_execution(checkpoint: Path, execution: Execution) -> Path | None:
    """Make it the default of a run, or of a bundle; return the file that now holds it.

    None: a policy of another kind, in which nothing can be kept.

    Raises:
        UserError: the file cannot be written.
    """
    if find_lerobot_folder(checkpoint) is not None or is_original_act(checkpoint):
        return None
    weights = find_weights(checkpoint)
    if weights.parent.name == "checkpoints":
        path, plain = weights.parent.parent / EXECUTION_FILE, execution.to_dict()
    elif weights.name == BUNDLE_WEIGHTS:
        path = weights.parent / BUNDLE_CONFIG
        plain = json.loads(path.read_text(encoding="utf-8"))
        plain["execution"] = execution.to_dict()
    else:
        return None
    with writing(path), atomic_file(path) as file:
        file.write((json.dumps(plain, indent=2) + "\n").encode())
    return path
