"""Run a command on a fake robot, type keys at given moments, and return what happened."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from act_policy.types import Camera, Schema
from tests.paths import ROOT

CHUNK_LENGTH = 60
RATE = 30.0
CAMERAS = (Camera("front", 96, 128), Camera("wrist", 96, 128))
ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
SO101_NAMES = tuple(f"{joint}.pos" for joint in ARM)
LEKIWI_NAMES = (*(f"arm_{joint}.pos" for joint in ARM), "x.vel", "y.vel", "theta.vel")


def schema_of(names: Sequence[str], units: Sequence[str], rate: float = RATE) -> Schema:
    """A schema whose actions have the state's names."""
    return Schema(CAMERAS, tuple(names), tuple(units), tuple(names), tuple(units), rate)


SO101 = schema_of(SO101_NAMES, ("deg",) * 5 + ("%",))
LEKIWI = schema_of(LEKIWI_NAMES, ("",) * 9)  # LeRobot's datasets have no units

LIMITS = """
[joints."{name}"]
low = -90
high = 90
max_speed = 60
max_step = 15
approach_speed = 10
"""
"""The owner's limits for one joint; `LIMITS.format(name=...)`."""


def write_sine_policy(path: Path, schema: Schema, amplitude: float = 20.0) -> Path:
    """Every chunk is one period of a sine, whatever is seen: 2 s, up first.

    The gripper swings about 50. A chunk that is asked for after half a period (`execute_steps` 30)
    begins where the earlier one is.
    """
    size = schema.action_size
    names = np.array(schema.action_names)
    centre = np.where(np.char.endswith(names, "gripper.pos"), 50.0, 0.0)
    reach = np.where(np.char.endswith(names, ".vel"), amplitude / 100, amplitude)
    phase = 2 * np.pi * np.arange(CHUNK_LENGTH)[:, None] / CHUNK_LENGTH
    chunk = centre + reach * np.sin(phase)
    low, high = (centre - reach).tolist(), (centre + reach).tolist()
    ends = {"min": low, "max": high, "mean": centre.tolist(), "std": (reach / 2).tolist()}
    statistics: dict[str, Any] = {"state": ends, "action": ends, "environment_state": None}
    metadata = {
        "format_version": "1",
        "schema": json.dumps(schema.to_dict()),
        "chunk_length": str(CHUNK_LENGTH),
        "statistics": json.dumps({**statistics, "step_count": 600, "std_floor": 0.01}),
    }
    images = [f"observation.images.{camera.name}" for camera in schema.cameras]
    nodes = []
    for i, image in enumerate(images):
        nodes += [
            helper.make_node("Cast", [image], [f"pixels{i}"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", [f"pixels{i}", "image_axes"], [f"m{i}"], keepdims=0),
        ]
    nodes += [
        helper.make_node("ReduceMean", ["observation.state", "state_axis"], ["m"], keepdims=0),
        helper.make_node("Sum", [*(f"m{i}" for i in range(len(images))), "m"], ["seen"]),
        helper.make_node("Mul", ["seen", "zero"], ["nothing"]),
        helper.make_node("Unsqueeze", ["nothing", "last_axes"], ["nothing_b11"]),
        helper.make_node("Add", ["chunk", "nothing_b11"], ["action"]),
    ]
    tensors = [
        helper.make_tensor("image_axes", TensorProto.INT64, [3], [1, 2, 3]),
        helper.make_tensor("state_axis", TensorProto.INT64, [1], [1]),
        helper.make_tensor("last_axes", TensorProto.INT64, [2], [1, 2]),
        helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]),
        helper.make_tensor("chunk", TensorProto.FLOAT, [1, CHUNK_LENGTH, size], chunk.ravel()),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, ["b", c.height, c.width, 3])
        for name, c in zip(images, schema.cameras, strict=True)
    ]
    state = ["b", schema.state_size]
    inputs.append(helper.make_tensor_value_info("observation.state", TensorProto.FLOAT, state))
    shape = ["b", CHUNK_LENGTH, size]
    outputs = [helper.make_tensor_value_info("action", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "policy", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


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


def _read(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def drive(
    folder: Path,
    policy: Path,
    keys: Sequence[tuple[float, str | signal.Signals]] = ((0.0, "\n"), (4.0, "q")),
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
        keys: (seconds after the command is ready, a key or a signal), by ascending time.
        command: run, shadow, check, ...
        fault: NAME:SECONDS of `fake_robots`.
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
    log.unlink(missing_ok=True)
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
        env={**os.environ, "FAULT": fault, "ROBOT_LOG": str(log), "PYTHONUNBUFFERED": "1"},
    )
    typed = process.stdin or os.fdopen(os.dup(window or 0), "w")
    out, err = _Reader(process.stdout), _Reader(process.stderr)
    ready = None
    try:
        if keys:
            while process.poll() is None and not (
                f'"{since}"' in _read(log) if since else out.is_ready
            ):
                time.sleep(0.01)
            ready = time.monotonic()
            for at, key in keys:
                time.sleep(max(0.0, ready + at - time.monotonic()))
                if process.poll() is not None:
                    break
                if isinstance(key, signal.Signals):
                    os.killpg(process.pid, key)  # as a terminal does, and a system
                else:
                    typed.write(key)
                    typed.flush()
        typed.close()
        process.wait(timeout=patience)
    except (BrokenPipeError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with suppress(BrokenPipeError):
        typed.close()
    zero = ready or 0.0
    lines = [json.loads(line) for line in _read(log).splitlines()]
    return Life(
        code=process.returncode,
        sent=[(line["t"] - zero, line["action"]) for line in lines if line["what"] == "send"],
        events=[
            (event["time"] - zero, event["kind"], event["detail"])
            for event in map(json.loads, events.read_text().splitlines() if events.exists() else ())
            if "kind" in event
        ],
        output=out.text(),
        error=err.text(),
        calls=[line["what"] for line in lines],
    )
