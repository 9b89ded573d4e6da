"""What an interrupted builder of a cache has done, so that the next one goes on from there."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

SECONDS_BETWEEN_WRITES = 2.0
"""A builder that is killed loses the work of this time, and the episodes that it was decoding."""


class Journal:
    """The episodes whose frames are in a file, one JSON line for each.

    Args:
        path: of the journal.
        file: the file that the frames are written into.
        size: bytes of that file; with another size it is not the one that the journal is about.
    """

    def __init__(self, path: Path, file: Path, size: int) -> None:
        self._path = path
        self.undecodable: dict[int, list[int]] = {}
        """Episode -> its undecodable steps, of every episode that is written."""
        self._waiting: list[int] = []
        self._last = time.monotonic()
        if file.exists() and file.stat().st_size == size:
            with suppress(OSError, ValueError):  # no journal, or a last line that was cut off
                for line in path.read_text().splitlines():
                    episode, steps = json.loads(line)
                    self.undecodable[episode] = steps

    def note(self, episode: int, undecodable: list[int]) -> None:
        """Note that every frame of an episode has been written."""
        if episode not in self.undecodable:
            self.undecodable[episode] = undecodable
            self._waiting.append(episode)

    def is_due(self) -> bool:
        """Whether it is time to write down what was noted."""
        return time.monotonic() - self._last > SECONDS_BETWEEN_WRITES

    def write(self, frames: BinaryIO) -> None:
        """Write down what was noted, once the frames are on disk."""
        if self._waiting:
            os.fdatasync(frames.fileno())
            lines = [json.dumps([episode, self.undecodable[episode]]) for episode in self._waiting]
            with self._path.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)
        self._waiting.clear()
        self._last = time.monotonic()
