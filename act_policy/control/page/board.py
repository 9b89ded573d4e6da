"""What the page shows of a robot, in memory that two processes share.

The loop writes and the page reads, and neither waits for the other: a number counts the writes,
odd while one goes on, and a reader that finds it changed copies again.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

import numpy as np

from act_policy.control.chunks.asynchronous import Answer
from act_policy.types import Schema

LARGEST_WIDTH = LARGEST_HEIGHT = 320
"""Pixels; larger images are thinned."""

MOST_EVENTS = 30
FRAME_SECONDS = 0.2
"""Between two copies of the images."""

READS = 20
"""Attempts of a reader; a copy of two moments is then better than none."""


class Shown(NamedTuple):
    """A copy of the board.

    age: seconds since the robot was last read; NaN before the first time.
    state: (s,), command: (a,); NaN before the first one.
    frames: camera -> image (h, w, 3), thinned, and the height and width as taken.
    chunk: (k, a) or None; chunk_age: seconds since its images were taken.
    events: time in seconds of the clock `time.monotonic`, kind and detail, the newest first.
    """

    now: float
    age: float
    mode: str
    reason: str
    state: np.ndarray
    command: np.ndarray
    frames: Mapping[str, tuple[np.ndarray, tuple[int, int]]]
    chunk: np.ndarray | None
    chunk_age: float
    events: list[tuple[float, str, str]]


def thin(pixels: np.ndarray) -> np.ndarray:
    """Every n-th pixel of an image (h, w, 3), so that it is at most LARGEST_WIDTH wide; a view."""
    step = -(-pixels.shape[1] // LARGEST_WIDTH)
    return pixels[::step, ::step]


def layout_of(schema: Schema, chunk_length: int) -> np.dtype[Any]:
    """The board's layout."""
    pixels = LARGEST_HEIGHT * LARGEST_WIDTH * 3
    frame = [("name", "S100"), ("size", "i4", 2), ("shown", "i4", 2), ("pixels", "u1", pixels)]
    event = [("time", "f8"), ("kind", "S60"), ("detail", "S400")]
    return np.dtype(
        [
            ("writes", "u8"),
            ("read", "f8"),
            ("captured", "f8"),
            ("state", "f8", schema.state_size),
            ("command", "f8", schema.action_size),
            ("chunk", "f4", (chunk_length, schema.action_size)),
            ("mode", "S100"),
            ("reason", "S400"),
            ("count", "u8"),
            ("events", event, MOST_EVENTS),
            ("frames", frame, len(schema.cameras)),
        ]
    )


class BoardWriter:
    """The loop's side: copies what is to be seen, raises nothing and waits for nobody.

    describe: what the command is doing and why, asked now and then.
    """

    def __init__(self, schema: Schema, chunk_length: int, clock: Callable[[], float] | None = None):
        self._clock = clock or time.monotonic
        layout = layout_of(schema, chunk_length)
        self._memory = SharedMemory(create=True, size=layout.itemsize)
        self.name = self._memory.name
        self._board = np.ndarray(1, layout, self._memory.buf)
        for field in ("read", "captured", "state", "command"):
            self._board[field] = np.nan
        self._copied = -np.inf  # when the images were
        self.describe: Callable[[], tuple[str, str]] = lambda: ("", "")

    def show_reading(self, images: Mapping[str, np.ndarray], state: np.ndarray) -> None:
        """Show the policy's cameras and joints as the robot sees them now."""
        with self._writing() as board:
            now = self._clock()
            board["read"], board["state"] = now, state
            mode, reason = self.describe()
            board["mode"], board["reason"] = mode.encode(), reason.encode()
            if now - self._copied < FRAME_SECONDS:
                return
            self._copied = now
            for i, (name, image) in enumerate(images.items()):
                small = thin(np.asarray(image))[:LARGEST_HEIGHT]
                if small.dtype != np.uint8 or small.ndim != 3 or small.shape[2] != 3:
                    continue
                frame = board["frames"][0, i : i + 1]
                frame["name"], frame["size"] = name.encode(), np.shape(image)[:2]
                frame["shown"] = small.shape[:2]
                frame["pixels"][0, : small.size] = small.ravel()

    def show_command(self, command: np.ndarray) -> None:
        """Show what was sent (a,)."""
        with self._writing() as board:
            board["command"] = command

    def show_answer(self, answer: Answer) -> None:
        """Show the newest chunk, if there is one in the answer."""
        if answer.chunk is not None:
            with self._writing() as board:
                board["chunk"][0] = answer.chunk
                board["captured"] = answer.captured

    def add_event(self, kind: str, detail: str) -> None:
        """Show an event of this moment."""
        with self._writing() as board:
            place = int(board["count"][0]) % MOST_EVENTS
            event = board["events"][0, place : place + 1]
            event["time"], event["kind"] = self._clock(), kind.encode()
            event["detail"] = detail.encode()
            board["count"] += 1

    def close(self) -> None:
        """Free the memory."""
        self._board = np.ndarray(0, self._board.dtype)  # a view would keep the memory open
        self._memory.close()
        self._memory.unlink()

    def _writing(self) -> "_Write":
        return _Write(self._board)


class _Write(suppress):
    """One write of the board: odd before, even after, whatever happens between."""

    def __init__(self, board: np.ndarray):
        super().__init__(Exception)
        self._board = board

    def __enter__(self) -> np.ndarray:  # type: ignore[override]
        self._board["writes"] += 1
        return self._board

    def __exit__(self, *error: Any) -> bool:
        self._board["writes"] += 1
        return bool(super().__exit__(*error))


class BoardReader:
    """The page's side."""

    def __init__(self, name: str, schema: Schema, chunk_length: int):
        self._memory = SharedMemory(name)
        self._board = np.ndarray(1, layout_of(schema, chunk_length), self._memory.buf)

    def read(self) -> Shown:
        """Copy the board."""
        for _ in range(READS):
            before = int(self._board["writes"][0])
            copy = self._board.copy()[0]
            if before % 2 == 0 and int(self._board["writes"][0]) == before:
                break
            time.sleep(0.001)
        now = time.monotonic()
        count = int(copy["count"])
        first = max(0, count - MOST_EVENTS)
        events = [copy["events"][i % MOST_EVENTS] for i in range(first, count)]
        frames = {
            _text(frame["name"]): (
                frame["pixels"][: 3 * int(np.prod(frame["shown"]))].reshape(*frame["shown"], 3),
                (int(frame["size"][0]), int(frame["size"][1])),
            )
            for frame in copy["frames"]
            if frame["name"]
        }
        return Shown(
            now,
            now - float(copy["read"]),
            _text(copy["mode"]),
            _text(copy["reason"]),
            copy["state"],
            copy["command"],
            frames,
            copy["chunk"] if np.isfinite(copy["captured"]) else None,
            now - float(copy["captured"]),
            [(float(e["time"]), _text(e["kind"]), _text(e["detail"])) for e in reversed(events)],
        )


def _text(content: bytes) -> str:
    return bytes(content).decode(errors="replace")
