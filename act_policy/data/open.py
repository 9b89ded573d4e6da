"""Open a folder of demonstrations with the reader that fits its content."""

import json
import warnings
from pathlib import Path

from act_policy.data.dataset import DatasetWarning, DemonstrationDataset
from act_policy.data.episode_errors import Wanted
from act_policy.data.episode_files import episode_files, unnamed_episodes
from act_policy.data.lerobot.hub import is_hub_id, resolve
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.errors import UserError, list_some


def open_dataset(
    path: str | Path, reader: ReaderConfig = DEFAULT_READER, wanted: Wanted | None = None
) -> DemonstrationDataset:
    """Open a folder of demonstrations with the reader that fits its content.

    A folder with `meta/info.json` is a LeRobotDataset, one with HDF5 files is ALOHA's.

    Args:
        path: the folder, or the hub id of a LeRobotDataset, `user/name`, that is already on this
            machine.
        reader: settings for reading the files.
        wanted: chooses the episodes to use; errors in the others do not matter.

    Raises:
        UserError: the folder is missing or holds nothing readable, or its episodes do not match.
    """
    folder = find_folder(path, reader.download)
    check_converted(folder)
    dataset: DemonstrationDataset
    # Each reader needs other libraries, and not every machine has all of them.
    if (folder / "meta" / "info.json").exists():
        from act_policy.data.lerobot.dataset import LeRobotDataset

        dataset = LeRobotDataset(folder, reader, wanted)
    elif episode_files(folder):
        from act_policy.data.aloha.dataset import AlohaHDF5Dataset

        dataset = AlohaHDF5Dataset(folder, reader, wanted=wanted)
    elif (folder / "meta").is_dir() or (folder / "data").is_dir():
        raise UserError(
            f"{folder}: has no meta/info.json; a LeRobotDataset was copied or recorded only in part"
        )
    else:
        raise UserError(
            f"{folder}: holds no episode; expected files named episode_000000.hdf5 or so, or a "
            f"LeRobotDataset with meta/info.json{_nearby(folder)}"
        )
    for note in dataset.notes:
        warnings.warn(note, DatasetWarning, stacklevel=2)
    return dataset


def find_folder(path: str | Path, download: bool = False) -> Path:
    """Return the folder of this name, or of a dataset in the hub's cache; raises UserError."""
    folder = Path(path).expanduser()
    if not folder.exists():
        if not is_hub_id(path):
            raise UserError(f"{folder}: no such folder of demonstrations")
        folder = resolve(str(path), download)
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the folder that holds the episodes")
    return folder


def _nearby(folder: Path) -> str:
    """Say what may have been meant by a folder without an episode."""
    if unnamed := unnamed_episodes(folder):
        first = unnamed[0]
        return (
            f". {list_some([path.name for path in unnamed])}: HDF5 whose name does not end so; "
            f"rename {first.name} to {first.stem}.hdf5, and the others alike"
        )
    inside = [path.parents[1] for path in folder.glob("*/meta/info.json")]
    inside += [path for path in folder.iterdir() if path.is_dir() and episode_files(path)]
    return f". Is {inside[0]} meant?" if inside else ""


CONVERSION_FILE = "conversion.json"
"""Written by `convert` into its folder: the conversion, and whether it is finished."""


def check_converted(folder: Path) -> None:
    """Raise UserError if a conversion into the folder is not finished."""
    file = folder / CONVERSION_FILE
    try:
        finished = json.loads(file.read_text()).get("finished")
    except FileNotFoundError:
        return
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from None
    if not finished:
        raise UserError(
            f"{folder}: a conversion into this folder was not finished; the same command goes on"
        )
