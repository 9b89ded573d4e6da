"""Recorded runs as a LeRobotDataset v3.0.

While the arm moves nothing is encoded: a run that is to be a LeRobotDataset records into
FOLDER/.recorded, with journals, as any other. When it is over, its episodes are written into
FOLDER and compared with what was recorded, which is then removed. Killed at any moment, `finish`
goes on.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from act_policy.control.recording.recording import Recorded, recover
from act_policy.errors import UserError, writing
from act_policy.system.foreign_files import is_foreign
from act_policy.system.locks import try_lock

RECORDED = ".recorded"
_REMOVED = ".removed"  # what was recorded, on its way out


def write_lerobot(folder: str | Path, out: str | Path) -> str:
    """Write a folder of recordings as a LeRobotDataset v3.0; the recordings stay.

    Interrupted, it goes on where it stopped; every episode is compared with its recording. Images
    become videos, or PNG where their size or this machine's encoders allow no video.

    Returns:
        One sentence that sums it up.

    Raises:
        UserError: a package is not there, the folder holds no episode, or `out` something else.
    """
    convert, config_for, open_dataset = _converter()
    recorded = open_dataset(folder)
    return str(convert(recorded, out, "lerobot_v3", config_for(recorded.schema)))


@contextmanager
def begin(folder: str | Path) -> Iterator[Path]:
    """Make the folder in which a run that is to be a LeRobotDataset is recorded, and yield it.

    No other process finishes it or records into it meanwhile.

    Raises:
        UserError: a package is not there, or the folder is not new.
    """
    folder, raw = Path(folder), Path(folder) / RECORDED
    _converter()
    with writing(f"record {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(path.name for path in folder.iterdir() if not is_foreign(path.name))
        if found and found != [RECORDED]:
            raise UserError(
                f"record {folder}: holds something already ({', '.join(found[:5])}), and each run "
                "becomes a LeRobotDataset of its own; give a new folder (several are trained on "
                "together with data.mix)"
            )
        raw.mkdir(exist_ok=True)
    with _locked(raw):
        if any(raw.iterdir()):  # else an earlier run ended before its beginning
            raise UserError(
                f"record {folder}: an earlier run into it is not finished; finish it with "
                f"`python -m act_policy.control recover {folder}`, and record into another folder"
            )
        yield raw


def is_unfinished(folder: str | Path) -> bool:
    """Whether a run that is to be a LeRobotDataset was recorded into this folder, and no more."""
    return any((Path(folder) / name).is_dir() for name in (RECORDED, _REMOVED))


def finish(folder: str | Path) -> tuple[list[Recorded], str]:
    """Write what was recorded into this folder as a LeRobotDataset, and remove the recording.

    Returns:
        The episodes that had to be recovered, and one sentence about the dataset.

    Raises:
        UserError: a package is not there, the disk is full, or the run still goes on.
    """
    raw = Path(folder) / RECORDED
    recovered, said = [], f"{folder}: is finished"
    gone = raw.with_name(_REMOVED)
    if raw.is_dir():
        with _locked(raw):
            recovered = recover(raw)
            said = f"{folder}: not one step was recorded"
            if any(raw.glob("*.hdf5")):
                said = write_lerobot(raw, folder)
            with writing(raw):  # else half of it, once it is removed, passes for another recording
                raw.rename(gone)
    with writing(gone):
        shutil.rmtree(gone)
    return recovered, said


@contextmanager
def _locked(raw: Path) -> Iterator[None]:
    """Keep other processes away; raises UserError if one is there."""
    descriptor = os.open(raw, os.O_RDONLY)
    try:
        if not try_lock(descriptor):
            raise UserError(f"{raw.parent}: another process records into it, or finishes it")
        yield
    finally:
        os.close(descriptor)


def _converter() -> tuple[Any, Any, Any]:
    try:
        from act_policy.data.conversion.convert import config_for, convert
        from act_policy.data.open import open_dataset
    except ImportError as error:
        raise UserError(
            f"lerobot: {error}; run `pip install h5py pillow pyarrow av tqdm` to write videos and "
            "tables, or record as HDF5 and convert the folder where you train "
            "(scripts/convert_dataset.py)"
        ) from None
    return convert, config_for, open_dataset
