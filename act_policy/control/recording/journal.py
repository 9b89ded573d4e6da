"""A run on the disk while the arm moves: a file per uninterrupted stretch, a record per step.

The first line is JSON (`version`, `schema`, `settings`, `instruction`); behind it are records of
one size, and at the end of a stretch the kind of event that ended it, as JSON. Whatever kills the
process, the file holds every record that was written, and a cut or damaged one is known by its
length or checksum.
"""

import json
import os
import queue
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from act_policy.errors import UserError
from act_policy.system.locks import create_locked
from act_policy.types import Observation, Schema

SUFFIX = ".journal"
VERSION = 3
MOST_BYTES = 2 * 1024**3
"""Of a journal; a longer stretch goes on in another, since an episode is put together in memory."""

MOST_WAITING = 512 * 1024**2
"""Bytes that wait in memory for a slow disk; with more the recording stops."""

SYNC_TIME = 1.0
"""Seconds between two syncs: a power cut loses what came since; a killed process loses nothing."""


_VECTORS = ("state", "action", "operator", "captured", "image_times")


class JournalWriter:
    """Writes steps from a thread of its own: `add` copies them and never waits for the disk.

    Args:
        schema: what the steps fit; its rate is theirs.
        config: kept in each journal.
        instruction: the task's words.
        most_bytes: of one journal; a longer stretch goes on in another.
        most_waiting: bytes in memory.
    """

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        config: Mapping[str, Any],
        instruction: str = "",
        most_bytes: int = MOST_BYTES,
        most_waiting: int = MOST_WAITING,
    ):
        self._folder, self._schema = folder, schema
        head = {"version": VERSION, "schema": schema.to_dict(), "settings": dict(config)}
        self._head = json.dumps(head | {"instruction": instruction}) + "\n"
        self._record = _record(schema)
        self._most_steps = max(1, most_bytes // self._record.itemsize)
        most = max(2, most_waiting // self._record.itemsize)
        # whether a step begins a stretch, and its record; or the end of a stretch; or of all
        self._waiting: queue.Queue[tuple[bool, np.ndarray] | bytes | None] = queue.Queue(most)
        self._file: BinaryIO | None = None
        self._changing = threading.Lock()  # of the file
        self._failed = False
        self.paths: list[Path] = []
        self.problem = ""  # why the rest of the run is not recorded; empty while all is well
        self._begins = True  # the next step begins a stretch
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._write_steps, name="journal", daemon=True)
        self._syncs = threading.Thread(target=self._sync, name="journal sync", daemon=True)
        self._thread.start()
        self._syncs.start()

    def add(
        self,
        observation: Observation[np.ndarray],
        action: np.ndarray,
        operator: bool,
        captured: float,
        image_times: Sequence[float] | None = None,
    ) -> None:
        """Hand over one step: what was seen and when, what was sent, whether a person acted.

        Nothing happens once there is a `problem`. `image_times` are those of the schema's cameras,
        by default `captured`.
        """
        if self.problem:
            return
        record = np.empty(1, self._record)
        for i, camera in enumerate(self._schema.cameras):
            image = np.asarray(observation.images[camera.name])
            if image.shape != (camera.height, camera.width, 3):
                self.problem = (
                    f"camera {camera.name} sends {image.shape}, expected {camera.height}x"
                    f"{camera.width}: the rest is not recorded"
                )
                return
            record[f"image_{i}"][0] = image
        record["state"], record["action"] = observation.state, action
        record["operator"], record["captured"] = operator, captured
        record["image_times"] = captured if image_times is None else image_times
        try:
            self._waiting.put_nowait((self._begins, record))
        except queue.Full:
            self.problem = "the disk is too slow: the rest is not recorded"
        self._begins = False

    def end_episode(self, kind: str) -> None:
        """The motion was interrupted by this kind of event: what follows is another stretch."""
        if not self._begins and not self.problem:
            line = json.dumps({"ended": kind}).encode()
            if len(line) < self._record.itemsize:  # else it would pass for a step
                with suppress(queue.Full):
                    self._waiting.put_nowait(line)
        self._begins = True

    def close(self) -> None:
        """Wait until all is written; nothing can be added any more."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()
        self._closed.set()
        self._syncs.join()

    def _write_steps(self) -> None:
        steps = 0
        try:
            while (item := self._waiting.get()) is not None:
                if self._failed:
                    continue
                try:
                    if isinstance(item, bytes):
                        if self._file is not None:
                            self._put(memoryview(item))
                        continue
                    begins, record = item
                    if self._file is None or begins or steps == self._most_steps:
                        self._open_next()
                        steps = 0
                    raw = record.view(np.uint8)
                    record["checksum"] = zlib.crc32(raw[:-4].data)
                    self._put(raw.data)
                    steps += 1
                except OSError as error:
                    self._fail(error)
        finally:
            self._close_file()

    def _fail(self, error: OSError) -> None:
        self._failed = True
        self.problem = f"{error.strerror}: the rest is not recorded"

    def _sync(self) -> None:
        """In a thread of its own: a step that waited for it in memory would be lost by a kill."""
        while not self._closed.wait(SYNC_TIME):
            with self._changing:
                descriptor = None if self._file is None else os.dup(self._file.fileno())
            if descriptor is not None:
                try:
                    os.fsync(descriptor)
                except OSError as error:
                    self._fail(error)
                finally:
                    os.close(descriptor)

    def _close_file(self) -> None:
        with self._changing:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _open_next(self) -> None:
        """Make and lock the next journal; the lock says that its writer lives."""
        self._close_file()
        while self._file is None:
            path = self._folder / f"episode_{next_number(self._folder):06d}{SUFFIX}"
            with suppress(FileExistsError):
                self._file = create_locked(path, "xb", buffering=0)
        self.paths.append(path)
        self._put(memoryview(self._head.encode()))

    def _put(self, content: memoryview) -> None:
        assert self._file is not None
        while content:
            content = content[self._file.write(content) :]


class Journal(NamedTuple):
    """The content of a journal; arrays are views of the file, (T, ...) each.

    captured: the moment that a step shows, in seconds of the loop's clock.
    image_times: when the image of each camera was taken, (T, cameras).
    ended: the kind of event that ended the stretch; "" if it is not known.
    """

    schema: Schema
    config: dict[str, Any]
    instruction: str
    ended: str
    images: dict[str, np.ndarray]
    state: np.ndarray
    action: np.ndarray
    operator: np.ndarray
    captured: np.ndarray
    image_times: np.ndarray


def read_journal(path: Path) -> Journal | None:
    """Read up to the last whole step; None where not even one was written.

    Raises:
        UserError: it is not a journal, or one of another version.
    """
    with path.open("rb") as file:
        head = file.readline()
    if not head.endswith(b"\n"):
        return None
    try:
        plain = json.loads(head)
        schema, config = Schema.from_dict(plain["schema"]), plain["settings"]
        version, instruction = plain.get("version", 1), plain.get("instruction", "")
    except (ValueError, KeyError, TypeError, UserError) as error:
        raise UserError(f"{path}: is not a journal of a recording ({error})") from None
    if version != VERSION:
        raise UserError(
            f"{path}: was written by another version of act_policy (journal {version}, expected "
            f"{VERSION}); recover it with that version, or move it away"
        )
    kind = _record(schema)
    if (count := (path.stat().st_size - len(head)) // kind.itemsize) == 0:
        return None
    records: np.ndarray = np.memmap(path, kind, "r", len(head), (count,))
    for step in range(count):
        raw = records[step : step + 1].view(np.uint8)
        if zlib.crc32(raw[:-4].data) != records["checksum"][step]:
            records = records[:step]
            break
    if len(records) == 0:
        return None
    images = {name: records[f"image_{i}"] for i, name in enumerate(schema.camera_names)}
    ended = "" if len(records) < count else _read_end(path, len(head) + count * kind.itemsize)
    vectors = (records[name] for name in _VECTORS)
    return Journal(schema, config, instruction, ended, images, *vectors)


def _read_end(path: Path, place: int) -> str:
    """Return the kind of event behind the last step; "" where a kill left something else."""
    with path.open("rb") as file:
        file.seek(place)
        line = file.read()
    try:
        return str(json.loads(line)["ended"])
    except (ValueError, KeyError, TypeError):
        return ""


def next_number(folder: Path) -> int:
    """The first number behind every episode and journal of the folder."""
    taken = [
        int(number)
        for path in folder.glob("episode_*")
        if path.suffix in (".hdf5", SUFFIX) and (number := path.stem.split("_")[1]).isdigit()
    ]
    return max(taken, default=-1) + 1


def _record(schema: Schema) -> np.dtype[Any]:
    """The layout of one step in the file."""
    return np.dtype(
        [
            *((f"image_{i}", "u1", (c.height, c.width, 3)) for i, c in enumerate(schema.cameras)),
            ("state", "<f4", (schema.state_size,)),
            ("action", "<f4", (schema.action_size,)),
            ("operator", "?"),
            ("captured", "<f8"),
            ("image_times", "<f8", (len(schema.cameras),)),
            ("checksum", "<u4"),
        ]
    )
