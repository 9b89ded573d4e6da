"""Run a command on a fake robot, type keys at given moments, and return what happened."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tests.control.campaign.fake_policy import RATE
from tests.paths import ROOT

LIMITS = """
[joints."{name}"]
low = -90
high = 90
max_speed = 60
max_step = 15
approach_speed = 10
"""
"""The owner's limits for one joint; `LIMITS.format(name=...)`."""


@dataclass(frozen=True)
class Life:
    """What happened; times in seconds since the command said that it was ready.

    sent: the commands that the robot got.
    events: kind and detail of each.
    """

    code: int
    sent: list[tuple[float, dict[str, float]]]
    events: list[tuple[float, str, str]]
    output: str
    error: str
    calls: list[str]

    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.events]

    def values(self, name: str) -> np.ndarray:
        """What one dimension was sent, (n,)."""
        return np.array([action[name] for _, action in self.sent])

    def times(self) -> np.ndarray:
        return np.array([at for at, _ in self.sent])

    def speeds(self, name: str) -> np.ndarray:
        """Change of the command per second between two that were sent (n - 1,)."""
        return np.abs(np.diff(self.values(name))) * RATE

    def hold(self, kind: str, which: int = 0) -> dict[str, np.ndarray]:
        """What each dimension was sent from the last command before a fault to the next start.

        Args:
            kind: of the fault or stop.
            which: of those of this kind.
        """
        begin = [at for at, found, _ in self.events if found == kind][which]
        end = min(
            (at for at, found, _ in self.events if found == "resume" and at > begin), default=np.inf
        )
        first = max(0, int(np.searchsorted(self.times(), begin)) - 1)
        sent = [action for at, action in self.sent[first:] if at < end]
        return {name: np.array([action[name] for action in sent]) for name in sent[0]}


class _Reader:
    """Reads a pipe to its end in a thread; is_ready: a line said that the command is."""

    def __init__(self, pipe: IO[str] | None):
        self.is_ready = False
        self._pipe = pipe
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        if self._pipe is None:
            return
        with self._pipe:
            for line in self._pipe:
                self._lines.append(line)
                self.is_ready |= line.startswith(("ready", "shadow: "))

    def text(self) -> str:
        self._thread.join(10)
        return "".join(self._lines)


class Person:
    """Somebody at the keyboard who waits for what happens; `drive` gives it to its script."""

    def __init__(self, type_key: Callable[[str | signal.Signals], None], folder: Path):
        self.press = type_key
        self._events, self._switch = folder / "events.jsonl", folder / "switch"
        self._seen = 0

    def faults(self, *names: str) -> None:
        """Let the robot have these faults from now on, and no others that were switched."""
        self._switch.write_text(" ".join(names))

    def wait(self, kind: str, patience: float = 15.0) -> None:
        """Wait until an event of this kind follows the last one that was waited for."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            kinds = [event["kind"] for event in _read_events(self._events)]
            if kind in kinds[self._seen :]:
                self._seen += kinds[self._seen :].index(kind) + 1
                return
            time.sleep(0.01)
        raise AssertionError(f"no event {kind!r} among {kinds[self._seen :]}")

    def look_on(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def _read_events(log: Path) -> list[dict[str, Any]]:
    lines = _read(log).splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in events if "kind" in event]


def _read(log: Path) -> str:
    return log.read_text() if log.exists() else ""


Script = Callable[[Person], None]
"""What a person does, once the command is ready."""


def drive(
    folder: Path,
    policy: Path,
    keys: Sequence[tuple[float, str | signal.Signals]] | Script = ((0.0, "\n"), (4.0, "q")),
    *,
    command: str = "run",
    fault: str = "none:0",
    robot: str = "make",
    config: str = "",
    options: Sequence[str] = (),
    patience: float = 60.0,
    since: str = "",
    terminal: int | None = None,
    window: int | None = None,
) -> Life:
    """Run one command on a fake robot.

    Args:
        folder: for the config and the logs.
        policy: an ONNX file.
        keys: (seconds after the command is ready, a key or a signal), by ascending time; or what a
            person does.
        command: run, shadow, check, ...
        fault: see `faults`.
        robot: a function of `fake_robots`.
        config: of the robot, in TOML; without `slowest_rate` a slow loop is no fault.
        options: further words of the command line.
        patience: seconds after which it is killed.
        since: the robot's call from which the keys' times count; "" is when the command is ready.
        terminal: a file descriptor that is its output instead of one that is read.
        window: where keys are written, if `terminal` is its input too.
    """
    log, events, toml = folder / "robot.jsonl", folder / "events.jsonl", folder / "robot.toml"
    if "slowest_rate" not in config:  # a busy machine is no fault, but where a test says so
        head, _, rest = config.partition("[safety]\n")
        config = f"{head}\n[safety]\nslowest_rate = 0\n{rest}"
    toml.write_text(config)
    for old in (log, events, folder / "switch"):
        old.unlink(missing_ok=True)
    words = [sys.executable, "-m", "act_policy.control", command, "--policy", str(policy)]
    words += ["--robot", f"tests.control.campaign.fake_robots:{robot}", "--config", str(toml)]
    if command in ("run", "shadow", "trials") and "--log" not in options:
        words += ["--log", str(events)]
    process = subprocess.Popen(
        [*words, *options],
        stdin=subprocess.PIPE if window is None else terminal,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.PIPE if terminal is None else terminal,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        env={
            **os.environ,
            **{"FAULT": fault, "SWITCH": str(folder / "switch"), "ROBOT_LOG": str(log)},
            "PYTHONUNBUFFERED": "1",
        },
    )
    typed = process.stdin or os.fdopen(os.dup(window or 0), "w")
    out, err = _Reader(process.stdout), _Reader(process.stderr)
    ready = None

    def press(key: str | signal.Signals) -> None:
        if key in (signal.SIGUSR1, signal.SIGKILL):
            process.send_signal(key)  # for the loop alone; what it started has to notice
        elif isinstance(key, signal.Signals):
            os.killpg(process.pid, key)  # as a terminal does, and a system
        else:
            typed.write(key)
            typed.flush()

    try:
        if keys:
            while process.poll() is None and not (
                f'"{since}"' in _read(log) if since else out.is_ready
            ):
                time.sleep(0.01)
            ready = time.monotonic()
            if callable(keys):
                keys(Person(press, folder))
            else:
                for at, key in keys:
                    time.sleep(max(0.0, ready + at - time.monotonic()))
                    if process.poll() is not None:
                        break
                    press(key)
                if isinstance(key, signal.Signals):  # a keyboard that is gone might come first
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=10)
        typed.close()
        process.wait(timeout=patience)
    except (BrokenPipeError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except AssertionError as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise AssertionError(f"{error}\n{out.text()}\n{err.text()}") from None
    with suppress(BrokenPipeError):
        typed.close()
    zero = ready or 0.0
    lines = [json.loads(line) for line in _read(log).splitlines()]
    return Life(
        code=process.returncode,
        sent=[(line["t"] - zero, line["action"]) for line in lines if line["what"] == "send"],
        events=[
            (event["time"] - zero, event["kind"], event["detail"]) for event in _read_events(events)
        ],
        output=out.text(),
        error=err.text(),
        calls=[line["what"] for line in lines],
    )
