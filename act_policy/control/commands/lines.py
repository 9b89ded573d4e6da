"""Lines for a terminal or a log, written by a thread: whoever adds one never waits."""

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from act_policy.errors import writing

MOST_WAITING = 10_000
"""Lines for a terminal that nobody reads or a disk that hangs; what comes then is lost."""

PATIENCE = 2.0
"""Seconds that the end of a command waits for its last lines to be written."""


class LineWriter:
    """Writes lines to a file descriptor, one after the other, from a thread of its own.

    A full disk or a terminal that is gone loses lines and goes on: the next one may fit again.

    Args:
        descriptor: of a file or a terminal.
        tell: called once, with why lines are lost.
    """

    def __init__(self, descriptor: int, tell: Callable[[str], None] = lambda reason: None):
        self.lost = 0
        self._descriptor, self._tell = descriptor, tell
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        # a daemon: a write that never ends must not keep the process
        self._thread = threading.Thread(target=self._write, name="lines", daemon=True)
        self._thread.start()

    def add(self, line: str) -> None:
        """Write this line when it is its turn."""
        try:
            self._waiting.put_nowait(line.encode(errors="replace") + b"\n")
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Wait for what was added, at most PATIENCE seconds."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
            self._thread.join(PATIENCE)

    def _write(self) -> None:
        cut = False  # the last line was written in part only
        while (line := self._waiting.get()) is not None:
            rest = memoryview(b"\n" + line if cut else line)
            try:
                while rest:
                    written = os.write(self._descriptor, rest)
                    rest, cut = rest[written:], written < len(rest)
            except OSError as error:
                self.lost += 1
                if self.lost == 1:
                    self._tell(error.strerror or str(error))


class Console:
    """What a command tells a person: results on the standard output, errors beside it."""

    def __init__(self, out: Any, err: Any):
        self._out, self._err = _writer_of(out), _writer_of(err)

    def say(self, text: str) -> None:
        """Print lines."""
        self._out.add(text)

    def complain(self, text: str) -> None:
        """Print lines on the standard error."""
        self._err.add(text)

    def close(self) -> None:
        """Wait a moment for what was said."""
        self._out.close()
        self._err.close()


class LogFile(LineWriter):
    """A file for lines of JSON.

    Args:
        path: it is made, or replaced.
        tell: called once, with a sentence, if lines are lost.

    Raises:
        UserError: it cannot be made.
    """

    def __init__(self, path: str, tell: Callable[[str], None]):
        with writing(f"log {path}"):
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115  closed by `close`
        super().__init__(
            self._file.fileno(),
            lambda reason: tell(f"log {path}: {reason}; lines that cannot be written are lost"),
        )

    def close(self) -> None:
        """Wait a moment for what was added; the file is closed unless its disk hangs."""
        super().close()
        if not self._thread.is_alive():
            self._file.close()

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Direct(LineWriter):
    """Writes to a stream without a descriptor at once."""

    def __init__(self, stream: Any):
        self.lost, self._stream = 0, stream

    def add(self, line: str) -> None:
        self._stream.write(line + "\n")

    def close(self) -> None: ...


def _writer_of(stream: Any) -> LineWriter:
    """A writer beside Python's own buffer, whose lock a blocked thread would keep for ever."""
    try:
        stream.flush()
        return LineWriter(stream.fileno())
    except (OSError, ValueError):  # closed, or a test's
        return _Direct(stream)
