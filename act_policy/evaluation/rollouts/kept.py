"""Finished episodes as files, from which an interrupted evaluation continues."""

from pathlib import Path

import numpy as np

from act_policy.errors import UserError, writing
from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.system.atomic import atomic_file


def write_episode(path: Path, result: EpisodeResult) -> None:
    """Write one finished episode (.npz); UserError if the file cannot be written."""
    known = {name: value for name, value in result._asdict().items() if value is not None}
    with writing(path), atomic_file(path) as file:
        np.savez(file, **known)


def read_episode(path: Path) -> EpisodeResult:
    """Read an episode; UserError if the file does not hold one."""
    try:
        with np.load(path, allow_pickle=False) as values:
            stage = int(values["stage"]) if "stage" in values else -1  # earlier versions wrote -1
            return EpisodeResult(
                int(values["seed"]),
                bool(values["success"]),
                int(values["steps"]),
                values["actions"],
                None if stage < 0 else stage,
                values.get("captured"),
                str(values["rerun"]) if "rerun" in values else None,
            )
    except (OSError, ValueError, KeyError):
        raise UserError(f"{path} is not an episode; remove it, and it is run again") from None
