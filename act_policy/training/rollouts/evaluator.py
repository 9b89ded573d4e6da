"""The process beside training that evaluates one policy at a time, as training sees it."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

REST, RUN, READY = b"-", b"+", b"r"
"""What the process is told through its input, and what it says once it can rest."""


class Evaluator:
    """Starts, rests and ends the process that evaluates the policy of a record.

    The process ends by itself where its input does, so none outlives training.

    command: of the process; a record's path and the process's niceness are appended.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = self._rests = False

    def start(self, record: Path, niceness: int) -> None:
        """Begin, or go on, with the episodes that a record lacks."""
        self._process = subprocess.Popen(
            [*self._command, str(record), str(niceness)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the training process, which ends this one
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._is_ready = self._rests = False

    @property
    def is_running(self) -> bool:
        """Whether there is a process, and it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def can_rest(self) -> bool:
        """Whether the process has loaded everything, after which alone it can rest."""
        if not self._is_ready and self._process is not None:
            assert self._process.stdout is not None
            self._is_ready = READY in (self._process.stdout.read() or b"")
        return self._is_ready

    def let_run(self, runs: bool) -> None:
        """Let the process go on, or rest before its next step in simulation."""
        if self._process is None or runs != self._rests:
            return
        self._rests = not runs
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has just ended
            self._process.stdin.write(RUN if runs else REST)
            self._process.stdin.flush()

    def wait(self) -> None:
        """Wait for the end of the process."""
        if self._process is not None:
            self._process.wait()

    def end(self) -> None:
        """End the process at once, if there is one; finished episodes are in the record."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process = None
