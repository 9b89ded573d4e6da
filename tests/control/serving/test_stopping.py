"""A server ends within 2 s of a signal, whatever its clients and its policy do."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.control.policies.remote_policy import RemotePolicy
from act_policy.types import Observation
from tests.control import onnx_for_tests
from tests.control.server_for_tests import message, observe
from tests.control.serving.clients_for_tests import frame, handshake
from tests.paths import ROOT

BUSY = 1.0
"""Seconds that a busy machine may take longer."""

HANGING = """
from tests.control.server_for_tests import IDENTITY, SeeingPolicy
from act_policy.control.serving.access import ServerConfig
from act_policy.control.serving.serve import serve_until_stopped
from act_policy.control.serving.server import PolicyServer
policy = SeeingPolicy()
policy.may_answer.clear()
serve_until_stopped(
    PolicyServer(policy, IDENTITY, config=ServerConfig(port=0)), "it",
    lambda line: print(line, flush=True),
)
"""


def start(words: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A server and its port."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("clients: "):
            return process, int(line.split()[1].rpartition(":")[2])
    raise AssertionError(process.communicate()[1])


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[float, str]:
    """Seconds that the end took, and the standard error."""
    began = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    return time.monotonic() - began, err


def test_the_robots_environment_serves_a_file_and_stops(tmp_path: Path) -> None:
    """Idle, deaf and half-connected clients are cut off."""
    path = onnx_for_tests.write_calm_policy(tmp_path / "policy.onnx")
    words = ["-m", "act_policy.control", "serve", "--policy", str(path), "--port", "0"]
    process, port = start(words)
    seen = Observation({"front": np.full((48, 64, 3), 9, np.uint8)}, np.ones(3, np.float32))
    with (
        RemotePolicy(f"ws://127.0.0.1:{port}", timeout=15.0) as remote,
        socket.create_connection(("127.0.0.1", port)) as half,
        socket.create_connection(("127.0.0.1", port)) as idle,
        socket.create_connection(("127.0.0.1", port)),
    ):
        expected = OnnxPolicy(path).predict_chunk(seen)
        np.testing.assert_array_equal(remote.predict_chunk(seen), expected)
        half.sendall(handshake("/")[:40])
        idle.sendall(handshake("/?arm=left"))
        time.sleep(0.2)
        seconds, err = end(process, signal.SIGTERM)
    assert process.returncode == 0
    assert seconds < 2.0 + BUSY
    assert err == ""


def test_a_policy_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    process, port = start(["-c", HANGING])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(handshake("/") + frame(_packed()))
        time.sleep(0.3)
        seconds, _ = end(process, signal.SIGTERM)
    assert process.returncode == 0
    assert seconds < 2.0 + BUSY


@pytest.mark.parametrize("module", ["torch", "hydra", "h5py"])
def test_serving_needs_only_the_robots_packages(tmp_path: Path, module: str) -> None:
    path = onnx_for_tests.write_calm_policy(tmp_path / "policy.onnx")
    hidden = f"import sys; sys.modules[{module!r}] = None; "
    run = "from act_policy.control.commands.command_line import main; main(sys.argv[1:])"
    process, _ = start(["-c", hidden + run, "serve", "--policy", str(path), "--port", "0"])
    _, err = end(process, signal.SIGINT)
    assert process.returncode == 0
    assert err == ""


def _packed() -> bytes:
    from act_policy.control.policies.wire import pack

    return pack(message(observe()))
