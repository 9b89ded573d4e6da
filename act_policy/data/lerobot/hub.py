"""Find datasets by their name on the Hugging Face hub: in the local cache, without the network."""

import os
import re
from contextlib import suppress
from pathlib import Path

from act_policy.errors import UserError

_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_REFERENCES = ("v3.0", "v2.1", "main")


def is_hub_id(path: str | Path) -> bool:
    """Return whether the path is written like `user/name`."""
    return _ID.fullmatch(str(path)) is not None


def find_in_cache(name: str) -> Path | None:
    """Find the folder of a dataset that LeRobot or the hub's tools downloaded to this machine.

    $HF_LEROBOT_HOME/user/name comes first, then the snapshots in the hub's cache. An incomplete
    one does not count.
    """
    for folder in _candidates(name):
        with suppress(UserError):
            if not missing_files(folder):
                return folder
    return None


def missing_files(folder: Path) -> list[Path]:
    """List the missing files that the metadata name; UserError if the metadata are broken."""
    from act_policy.data.episode_errors import EpisodeErrors
    from act_policy.data.lerobot.metadata import read_metadata  # needs pyarrow

    files = [
        file
        for entry in read_metadata(folder, EpisodeErrors("skip")).episodes
        for file in (entry.data, *(video.path for video in entry.videos.values()))
    ]
    return [file for file in dict.fromkeys(files) if not file.is_file()]


def is_at_hand(path: str | Path) -> bool:
    """Return whether the path is a folder, or the name of a dataset in the hub's cache."""
    return Path(path).is_dir() or (is_hub_id(path) and find_in_cache(str(path)) is not None)


def download(name: str) -> Path:
    """Fetch a dataset from the hub to the folder where LeRobot keeps it; raises UserError."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            f"{name}: a download needs huggingface_hub; pip install huggingface_hub, or fetch it "
            f"elsewhere with: hf download --repo-type dataset {name} --local-dir FOLDER"
        ) from None
    target = _lerobot_home() / name
    try:
        snapshot_download(name, repo_type="dataset", local_dir=str(target), etag_timeout=10)
    except Exception as error:  # no network, no such dataset, no permission: many kinds of errors
        raise UserError(
            f"{name}: could not be downloaded ({type(error).__name__}: {error})"
        ) from None
    if not (target / "meta" / "info.json").exists():
        raise UserError(f"{name}: was downloaded to {target}, but is not a LeRobotDataset")
    return target


def resolve(name: str, may_download: bool) -> Path:
    """Return the folder of `user/name`; UserError if it is absent and may not be downloaded."""
    if (found := find_in_cache(name)) is not None:
        return found
    if may_download:
        return download(name)
    for folder in _candidates(name):
        missing = missing_files(folder)
        raise UserError(
            f"{name}: is incomplete in the hub's cache: {folder} lacks "
            f"{missing[0].relative_to(folder)} ({len(missing)} missing in all). Fetch the rest "
            "with download=true (data.download=true in training), or use what is there: give that "
            "folder, and unreadable=skip."
        )
    looked = dict.fromkeys(str(path) for path in (_lerobot_home() / name, *_repositories(name)))
    raise UserError(
        f"{name}: no such folder, and no dataset of that name in the hub's cache (looked in "
        f"{', '.join(looked)}). Nothing is downloaded unless asked for: download=true "
        "(data.download=true in training)."
    )


def _candidates(name: str) -> list[Path]:
    """List the folders that hold the dataset, or a part of it."""
    folders = [_lerobot_home() / name]
    for repository in _repositories(name):
        snapshots = repository / "snapshots"
        references = [repository / "refs" / reference for reference in _REFERENCES]
        folders += [snapshots / file.read_text().strip() for file in references if file.is_file()]
        folders += sorted(snapshots.glob("*"), key=lambda p: p.stat().st_mtime, reverse=True)
    return [folder for folder in folders if (folder / "meta" / "info.json").exists()]


def _repositories(name: str) -> list[Path]:
    """Return where the hub's tools would keep the dataset: their own cache, or LeRobot's."""
    folder = "datasets--" + name.replace("/", "--")
    given = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    hub = Path(given) if given else _home() / "hub"
    return [hub / folder, _lerobot_home() / "hub" / folder]


def _lerobot_home() -> Path:
    given = os.environ.get("HF_LEROBOT_HOME")
    return Path(given).expanduser() if given else _home() / "lerobot"


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HF_HOME") or cache / "huggingface").expanduser()
