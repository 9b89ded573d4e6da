"""The folder of one recording: which seeds are done, how they ended, and where they are kept."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import h5py

from act_policy.errors import UserError, writing
from act_policy.system.atomic import atomic_file, remove_partial_files
from act_policy.system.locks import try_lock

SETTINGS_FILE = "recording.json"
STAGING_FOLDER = ".unfinished"

NEWER_SETTINGS: Final = {
    "timing_noise": 0.0,
    "pose_noise": 0.0,
    "teacher": "expert",
    "inject_noise": False,
    "instruction": "",
    "simulator": None,
}
"""Of a recording by an earlier version, which did not know them."""


class RecordingFolder:
    """The episodes of one recording on the disk: which seeds are done and how they ended.

    settings: all that determines the episodes, plain values for JSON, with the first seed.

    An episode is first written under its seed in a staging folder and takes its place among the
    numbered ones when every earlier seed is done, so the numbered ones never have a gap.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.staging = path / STAGING_FOLDER
        self._settings, self._first_seed = settings, int(settings["seed"])
        self._written: dict[int, Path] = {}  # seed -> where its episode is
        self._failed: set[int] = set()
        self._holds_others = True  # until `open` has checked every file
        self._given: set[int] = set()  # seeds handed out and not yet back

    @property
    def successes(self) -> int:
        """Number of episodes that are kept."""
        return len(self._written)

    @property
    def failures(self) -> int:
        """Number of initial states at which the teacher failed."""
        return len(self._failed)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one recording at a time work in the folder."""
        with writing(self.path):
            self.staging.mkdir(parents=True, exist_ok=True)
            lock = (self.staging / "lock").open("wb")
        with lock:
            if not try_lock(lock):
                raise UserError(f"{self.path}: another recording is at work here")
            try:
                yield
            finally:
                # A recording without a single attempt leaves no trace.
                if not self._written and not self._failed and not self._holds_others:
                    (self.path / SETTINGS_FILE).unlink(missing_ok=True)
                if not any(file.name != "lock" for file in self.staging.iterdir()):
                    (self.staging / "lock").unlink()
                    self.staging.rmdir()

    def open(self, episodes: int) -> None:
        """Find the episodes that are there already; refuse those of another config."""
        config_file = self.path / SETTINGS_FILE
        placed = sorted(self.path.glob("episode_*.hdf5"))
        staged = sorted(self.staging.glob("[0-9]*.hdf5"))
        if config_file.exists():
            try:
                saved = json.loads(config_file.read_text())
                found, self._failed = saved["settings"], set(saved["failed_seeds"])
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{config_file}: not readable; remove the folder") from None
            wanted = self._settings
            found = {**NEWER_SETTINGS, **found}
            differing = [key for key in wanted if found.get(key) != wanted[key]]
            if differing and (placed or staged or self._failed):
                raise UserError(
                    f"{self.path} holds episodes of other settings: "
                    + "; ".join(
                        f"{key} {found.get(key)} there, {wanted[key]} here" for key in differing
                    )
                    + ". Choose another folder, or remove it."
                )
        elif placed:
            raise UserError(
                f"{self.path} holds {len(placed)} episodes of another origin; choose another folder"
            )
        remove_partial_files(self.path)
        remove_partial_files(self.staging)
        self._written = {_seed_of(path): path for path in placed}
        self._written |= {int(path.stem): path for path in staged}
        if len(self._written) > episodes:
            raise UserError(
                f"{self.path} holds {len(self._written)} episodes, more than episodes={episodes}; "
                "choose another folder"
            )
        self._holds_others = False
        self._save()
        self._place()

    def next_seeds(self, episodes: int) -> list[int]:
        """The seeds to try now, the lowest first: one per missing success."""
        not_failed = (seed for seed in count(self._first_seed) if seed not in self._failed)
        wanted = islice(not_failed, episodes)
        fresh = [seed for seed in wanted if seed not in self._written and seed not in self._given]
        self._given.update(fresh)
        return fresh

    def add(self, seed: int, success: bool) -> None:
        """Note how the episode from an initial state ended."""
        self._given.discard(seed)
        if success:
            self._written[seed] = self.staging / f"{seed}.hdf5"
        else:
            self._failed.add(seed)
            self._save()
        self._place()

    def _place(self) -> None:
        """Number the episodes whose earlier seeds are all done."""
        seed, number = self._first_seed, 0
        while seed in self._written or seed in self._failed:
            if seed in self._written:
                name = self.path / f"episode_{number:06d}.hdf5"
                if self._written[seed] != name:
                    os.replace(self._written[seed], name)
                    self._written[seed] = name
                number += 1
            seed += 1

    def _save(self) -> None:
        content = {"settings": self._settings, "failed_seeds": sorted(self._failed)}
        try:
            with atomic_file(self.path / SETTINGS_FILE) as file:
                file.write(json.dumps(content, indent=2).encode() + b"\n")
        except OSError as error:
            raise UserError(
                f"{self.path / SETTINGS_FILE}: could not be written ({error.strerror}); episodes "
                "recorded so far are whole. Free some space; the same command then goes on."
            ) from error


def _seed_of(path: Path) -> int:
    try:
        with h5py.File(path) as file:
            return int(file.attrs["seed"])
    except Exception:  # h5py has many kinds for a damaged file
        raise UserError(
            f"{path}: not an episode of this recording (unreadable, or it has no seed); remove it "
            "and the same command records it again"
        ) from None
