"""A run on disk: config.yaml, versions.json, metrics.csv, report.html, checkpoints/."""

import json
import shutil
from pathlib import Path
from typing import Any

from act_policy.errors import UserError, writing
from act_policy.system.atomic import PARTIAL_SUFFIX, atomic_file
from act_policy.system.foreign_files import is_foreign
from act_policy.system.versions import versions

CONFIG_FILE, VERSIONS_FILE, METRICS_FILE = "config.yaml", "versions.json", "metrics.csv"
REPORT_FILE, ROLLOUT_FOLDER = "report.html", "rollouts"
BEST_SUCCESS = "best_success.ckpt"


def find_run(resume: str | Path) -> tuple[Path, Path]:
    """Find a run's folder and its checkpoint to resume from: the one given, else its last.

    Raises:
        UserError: there is no such run, or it has no checkpoint yet.
    """
    path = Path(resume)
    if path.is_dir():
        folder = path.parent if path.name == "checkpoints" else path
        checkpoint = find_checkpoint(folder)
    else:
        folder, checkpoint = path.parent.parent, path
    if not path.exists():
        raise UserError(f"resume={path}: does not exist; give a run folder or a checkpoint in one")
    if not checkpoint.is_file():
        raise UserError(
            f"resume={path}: {checkpoint} does not exist, so there is nothing to go on from; "
            "start the run again with the command that began it"
        )
    if not (folder / CONFIG_FILE).is_file():
        raise UserError(
            f"resume={path}: {folder / CONFIG_FILE} is missing; a checkpoint can be resumed only "
            "inside its run folder (RUN/checkpoints/last.ckpt beside RUN/config.yaml)"
        )
    return folder, checkpoint


def find_checkpoint(folder: Path) -> Path:
    """Return the path of a run's last checkpoint, which exists unless the run has none.

    A run that was killed between its first best.ckpt and last.ckpt continues from best.ckpt, or
    from one that it keeps.
    """
    last = folder / "checkpoints" / "last.ckpt"
    kept = sorted(last.parent.glob("step_*.ckpt"), reverse=True)
    others = [last.with_name("best.ckpt"), *kept, last.with_name(BEST_SUCCESS)]
    if last.exists():
        return last
    return next((path for path in others if path.exists()), last)


def check_free(folder: Path) -> None:
    """Raise UserError if the folder is not empty: a trained run is never overwritten.

    The files of a run that ended before its first checkpoint are removed, since nothing was
    trained; those of wandb and TensorBoard stay.
    """
    if _is_beginning(folder):
        # versions.json marks the folder as ours, so it goes last
        for name in (CONFIG_FILE, METRICS_FILE, REPORT_FILE, VERSIONS_FILE):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / ROLLOUT_FOLDER, ignore_errors=True)
        return
    if folder.exists() and (not folder.is_dir() or any(_entries(folder))):
        raise UserError(
            f"out={folder}: exists and is not empty; go on with it by resume={folder}, "
            "or give another out="
        )


def write_start(folder: Path, config: str) -> None:
    """Write config.yaml, and append an entry to versions.json, which has one per start.

    Raises:
        UserError: the folder cannot be written.
    """
    with writing(f"out={folder}"):
        with atomic_file(folder / VERSIONS_FILE) as file:
            file.write((json.dumps([*_starts(folder), versions()], indent=2) + "\n").encode())
        with atomic_file(folder / CONFIG_FILE) as file:
            file.write(config.encode())


def _starts(folder: Path) -> list[Any]:
    """Read the entries of versions.json; none if it is missing or another program's."""
    try:
        starts = json.loads((folder / VERSIONS_FILE).read_text())
    except (OSError, ValueError):
        return []
    ours = isinstance(starts, list) and all(isinstance(s, dict) and "started" in s for s in starts)
    return starts if ours else []


def _is_beginning(folder: Path) -> bool:
    """Tell whether the folder holds nothing but a run of ours without a checkpoint."""
    if not _starts(folder):
        return False
    ours = {CONFIG_FILE, VERSIONS_FILE, METRICS_FILE, REPORT_FILE}
    ours |= {"checkpoints", ROLLOUT_FOLDER, "tensorboard", "wandb"}
    entries = [*_entries(folder), *_entries(folder / "checkpoints")]
    return all(entry.name in ours or entry.name.endswith(PARTIAL_SUFFIX) for entry in entries)


def _entries(folder: Path) -> list[Path]:
    """List what a folder holds, without what other systems leave in it."""
    return [path for path in folder.glob("*") if not is_foreign(path.name)]
