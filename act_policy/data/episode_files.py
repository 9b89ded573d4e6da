"""Which files of a folder are episodes in HDF5, told by their names' endings."""

import re
from pathlib import Path

from act_policy.system.foreign_files import is_hidden

ENDINGS = (".hdf5", ".h5", ".hdf", ".he5")
"""In lower or upper case."""
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def episode_files(folder: Path) -> list[Path]:
    """List the episodes of a folder in the natural order of their names: 2 before 10."""
    return sorted(
        (
            path
            for path in folder.iterdir()
            if path.suffix.lower() in ENDINGS and not (is_hidden(path.name) or path.is_dir())
        ),
        key=lambda path: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", path.name)],
    )


def without_ending(name: str) -> str:
    """Return an episode's name without the ending of an HDF5 file."""
    stem, dot, ending = name.rpartition(".")
    return stem if dot and f".{ending.lower()}" in ENDINGS else name


def unnamed_episodes(folder: Path) -> list[Path]:
    """List the files that hold HDF5, but whose names do not say so."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() not in ENDINGS and not is_hidden(path.name) and _is_hdf5(path)
    ]


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SIGNATURE)) == _SIGNATURE
    except OSError:  # a folder, or not ours to read
        return False
