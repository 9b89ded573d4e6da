"""A policy server as a user starts it: a separate process that can be killed and stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from act_policy.checkpoints.locate import sha256_of
from act_policy.cli import serve
from act_policy.cli.entry import configuration
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.control.policies.remote_policy import RemotePolicy, RemotePolicyError
from act_policy.errors import UserError
from act_policy.types import Observation
from tests.control.policies.test_onnx_policy import DESCRIBED, write_policy
from tests.paths import ROOT
from tests.scripts_for_tests import call_script

SCRIPT = ROOT / "scripts" / "serve_policy.py"


OBSERVATION = Observation({"front": np.full((2, 3, 3), 9, np.uint8)}, np.ones(2, np.float32))


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    return write_policy(tmp_path / "policy.onnx", DESCRIBED)


@contextmanager
def start_server(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the script; yield its process and the address for clients."""
    command = [sys.executable, str(SCRIPT), "port=0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        output = ""
        while (address := re.search(r"clients: (\S+)", output)) is None:
            line = process.stdout.readline()
            assert line, f"the server ended: {output}"
            output += line
        yield process, address[1]
    finally:
        process.kill()
        process.communicate()


def test_an_onnx_file_is_served_without_torch(policy_file: Path) -> None:
    with start_server(f"checkpoint={policy_file}") as (process, url):
        with RemotePolicy(url, sha256=sha256_of(policy_file), timeout=10.0) as remote:
            expected = OnnxPolicy(policy_file).predict_chunk(OBSERVATION)
            np.testing.assert_array_equal(remote.predict_chunk(OBSERVATION), expected)
            assert remote.metadata["policy"]["name"] == "policy.onnx"
        maps = Path(f"/proc/{process.pid}/maps")
        if maps.exists():
            assert "libtorch" not in maps.read_text()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        assert output.endswith("stopped\n")
        assert process.returncode == 0


def test_the_server_is_killed_during_an_episode(policy_file: Path) -> None:
    with start_server(f"checkpoint={policy_file}") as (process, url):
        executor = ChunkExecutor(RemotePolicy(url, arm="left"), execute_steps=1)
        executor.select_action(OBSERVATION)
        process.kill()
        process.wait()
        began = time.monotonic()
        with pytest.raises(RemotePolicyError):
            executor.select_action(OBSERVATION)
        assert time.monotonic() - began < 2.5
        executor.policy.close()  # type: ignore[attr-defined]


def test_a_stall_of_two_seconds(policy_file: Path) -> None:
    """A stopped process accepts connections but answers nothing."""
    with start_server(f"checkpoint={policy_file}") as (process, url):
        remote = RemotePolicy(url, arm="left", timeout=0.5)
        remote.predict_chunk(OBSERVATION)
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(RemotePolicyError, match=r"gave no chunk within 0.5 s"):
            remote.predict_chunk(OBSERVATION)
        assert time.monotonic() - began < 1.5
        with pytest.raises(RemotePolicyError, match=r"connect\(\)"):
            remote.predict_chunk(OBSERVATION)
        time.sleep(max(0.0, 2.0 - (time.monotonic() - began)))
        process.send_signal(signal.SIGCONT)
        remote.timeout = 10.0
        remote.connect()  # its own former connection does not block it
        np.testing.assert_array_equal(
            remote.predict_chunk(OBSERVATION), OnnxPolicy(policy_file).predict_chunk(OBSERVATION)
        )
        remote.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["checkpoint=/nowhere"], "checkpoint=/nowhere does not exist"),
        (["checkpoint=/nowhere", "api_key_file=/no/key"], "api_key_file=/no/key cannot be read"),
        (["checkpoint=/nowhere", "port=99999"], "port=99999: expected at most 65535"),
        (["checkpoint=/nowhere", "names=robot"], "expected a list, names=[robot]"),
        (["checkpoint={}", "device=cuda"], "device=cuda: an ONNX file runs on the cpu"),
        (["checkpoint={}", "observation_keys.cameras={top: images/a}"], "cameras names top"),
    ],
)
def test_impossible_settings_are_refused(
    policy_file: Path, arguments: list[str], words: str
) -> None:
    arguments = [a.replace("{}", str(policy_file)) for a in arguments]
    done = call_script(SCRIPT, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_an_api_key_file_and_a_warning_on_an_open_port(policy_file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    with start_server(
        f"checkpoint={policy_file}", "host=0.0.0.0", f"api_key_file={tmp_path / 'key'}"
    ) as (_, url):
        url = url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(RemotePolicyError, match="an API key is needed"):
            RemotePolicy(url, timeout=10.0)
        RemotePolicy(url, api_key="secret", timeout=10.0).close()


@pytest.mark.slow
def test_the_benchmark_counts_failures_and_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, str(SCRIPT.with_name("benchmark.py")), "measure=serve", "recipe=tiny",
            "seconds=0.2", "repeats=2", "threads=1", "cameras={topview: [32, 32]}", "clients=3",
            "client_seconds=2", f"out={tmp_path}",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "serve.json").read_text())["rows"]
    found = {row["who"].removeprefix("3 clients for 2 s, "): row["value"] for row in rows}
    assert found["clients that failed"] == 0
    assert found["together"] > 0
    assert found["policy behind the server, p50"] > found["policy in the process, p50"] > 0
    assert abs(found["server's memory grew by"]) < 20


def test_weights_that_change_during_loading_are_not_served(
    policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = serve.load

    def overtaken(path: Path, config: object) -> object:
        policy = load(path, config)
        path.write_bytes(path.read_bytes() + b"x")  # like a training that still runs
        return policy

    def serves_nobody(server: object, what: str, say: object) -> None: ...

    monkeypatch.setattr(serve, "load", overtaken)
    monkeypatch.setattr("act_policy.control.serving.serve.serve_until_stopped", serves_nobody)
    config = configuration("serve_policy", [f"checkpoint={policy_file}", "port=0"])
    with pytest.raises(UserError, match=r"policy\.onnx was replaced while it was loaded"):
        serve.main(config)
