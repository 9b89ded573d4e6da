"""Runs as demonstrations: what the policy saw, what the arm was sent, and where a person acted.

Every step goes to a journal at once; the episodes are made from the journals afterwards, or by
`recover` if the process was killed. Only that needs h5py.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from act_policy.control.recording.journal import (
    MOST_BYTES,
    SUFFIX,
    Journal,
    JournalWriter,
    next_number,
    read_journal,
)
from act_policy.errors import UserError, writing
from act_policy.system.locks import try_lock
from act_policy.types import Schema


class Recorded(NamedTuple):
    """An episode that was written, and its number of steps.

    moved: steps that were repeated or left out, so that each is of its own moment.
    """

    path: Path
    steps: int
    moved: int = 0


class EpisodeRecorder(JournalWriter):
    """Keeps uninterrupted stretches of motion, each of which becomes an episode.

    What an earlier process left behind when it was killed is made into episodes first; `recovered`
    says which. Episodes that are in the folder stay.

    Raises:
        UserError: h5py is not there, the folder cannot be written, or holds something else.
    """

    def __init__(
        self,
        folder: str | Path,
        schema: Schema,
        config: Mapping[str, Any],
        instruction: str = "",
        own_size: bool = False,
        most_bytes: int = MOST_BYTES,
    ):
        self.own_size = own_size
        """Whether it wants the images as the robot took them, which the schema then describes."""
        _episode_writer()
        with writing(f"record {folder}"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        self.recovered = recover(folder)
        _check_folder(Path(folder), schema)
        super().__init__(Path(folder), schema, config, instruction, most_bytes)

    def write(self) -> list[Recorded]:
        """Make the episodes, once the run is over.

        Raises:
            UserError: the disk is full; what was not written stays in its journal, for `recover`.
        """
        self.close()
        return _to_episodes(filter(Path.exists, self.paths))


def recover(folder: str | Path) -> list[Recorded]:
    """Make episodes of the journals that killed processes left, up to the last whole step of each.

    Raises:
        UserError: h5py is not there, the disk is full, or a file is not a journal.
    """
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: is not a folder of recordings")
    return _to_episodes(sorted(Path(folder).glob(f"[!.]*{SUFFIX}")))


def _to_episodes(paths: Iterable[Path]) -> list[Recorded]:
    return [episode for path in paths if (episode := _to_episode(path)) is not None]


def _to_episode(path: Path) -> Recorded | None:
    """Replace a journal by its episode; None if it is being written, or is empty."""
    write_episode = _episode_writer()
    with path.open("rb") as file:
        # else another process is writing it, or has made it into an episode meanwhile
        if not try_lock(file) or not path.exists():
            return None
        if (journal := read_journal(path)) is None:
            path.unlink()
            return None
        rows = steps_at_rate(journal.captured, journal.schema.rate)
        if not np.array_equal(rows, np.arange(len(journal.state))):
            images = {name: frames[rows] for name, frames in journal.images.items()}
            journal = journal._replace(
                images=images,
                **{
                    name: getattr(journal, name)[rows]
                    for name in ("state", "action", "operator", "captured", "image_times")
                },
            )
        target = path.with_suffix(".hdf5")
        if target.exists() and not _holds(target, journal):
            target = path.with_name(f"episode_{next_number(path.parent):06d}.hdf5")
        if not target.exists():
            write_episode(
                target,
                journal.schema,
                journal.images,
                journal.state,
                journal.action,
                config=journal.config,
                operator=journal.operator,
                instruction=journal.instruction,
                timestamps=journal.captured - journal.captured[0],
                image_times=_image_times(journal),
                ended=journal.ended,
            )
        path.unlink()
        moved = int((np.diff(rows) == 0).sum() + np.maximum(np.diff(rows) - 1, 0).sum())
        return Recorded(target, len(journal.state), moved)


def _image_times(journal: Journal) -> dict[str, np.ndarray]:
    """Camera -> when its images were taken, on the scale of the steps; empty if nobody knew."""
    if (journal.image_times == journal.captured[:, None]).all():
        return {}
    times = (journal.image_times - journal.captured[0]).T
    return dict(zip(journal.schema.camera_names, times, strict=True))


def steps_at_rate(captured: np.ndarray, rate: float) -> np.ndarray:
    """Return int64 (n,), the step taken nearest to each moment of an even rate.

    A loop that was late, or a camera of another rate, would else be learned too fast or too slow:
    readers take steps to be evenly spaced. Steps that are less than half a step off stay.

    Args:
        captured: float64 (T,), in seconds.
        rate: steps per second.
    """
    seconds = np.maximum.accumulate(captured - captured[0])
    moments = np.arange(round(seconds[-1] * rate) + 1) / rate
    after = np.clip(np.searchsorted(seconds, moments), 1, max(1, len(seconds) - 1))
    after = np.minimum(after, len(seconds) - 1)
    before = np.maximum(after - 1, 0)
    nearer = moments - seconds[before] <= seconds[after] - moments
    return np.where(nearer, before, after).astype(np.int64)


def _check_folder(folder: Path, schema: Schema) -> None:
    """Raise UserError unless the folder holds episodes of this schema, or none."""
    from act_policy.data.aloha.episode import read_stored_schema

    if (folder / "meta" / "info.json").exists():
        raise UserError(f"record {folder}: is a LeRobotDataset; give a folder of recordings")
    for path in sorted(folder.glob("*.hdf5")):
        stored = read_stored_schema(path)
        if stored is None:
            raise UserError(
                f"record {folder}: {path.name} does not say what it holds; give another folder"
            )
        if differences := stored.differences(schema):
            raise UserError(
                f"record {folder}: {path.name} has another schema than this run: "
                f"{'; '.join(differences)}. Give another folder"
            )


def _holds(path: Path, journal: Journal) -> bool:
    """Whether a process was killed between writing the episode and removing its journal."""
    from act_policy.data.aloha.episode import read_episode

    try:
        episode = read_episode(path)
    except UserError:
        return False
    same = np.array_equal(episode.state, journal.state)
    return same and np.array_equal(episode.action, journal.action)


def _episode_writer() -> Any:
    try:
        from act_policy.data.aloha.episode import write_episode
    except ImportError:
        raise UserError("recording needs h5py and pillow; run `pip install h5py pillow`") from None
    return write_episode
