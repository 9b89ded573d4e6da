"""Latency that a policy server adds to a chunk, and its endurance under many clients."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import Row, make_policy, random_observation, training_config

from act_policy.errors import UserError

SCRIPTS = Path(__file__).resolve().parents[1]


def measure(config: Any) -> list[Row]:
    """Serve the recipe's network as an ONNX file on this machine, and request chunks from it."""
    from act_policy.export.onnx import export_onnx

    policy = make_policy(config, training_config(config)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.onnx"
        export_onnx(policy, path)
        with start_server(path, config) as (process, url):
            return [*latency_rows(config, path, url), *endurance_rows(config, process.pid, url)]


@contextmanager
def start_server(path: Path, config: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run serve_policy.py in its own process; yield the process and its address."""
    command = [
        sys.executable,
        str(SCRIPTS / "serve_policy.py"),
        f"checkpoint={path}",
        "port=0",
        f"threads={config.threads}",
        f"most_clients={config.clients + 2}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"clients: (\S+)", line):
                yield process, found[1]
                break
        else:
            raise UserError("serve_policy.py ended before it served; its output is above")
    finally:
        process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def latency_rows(config: Any, path: Path, url: str) -> list[Row]:
    """Return median latencies here and there, measured in turns so that both see the same load."""
    from act_policy.control.policies.onnx_policy import OnnxPolicy
    from act_policy.control.policies.remote_policy import RemotePolicy

    bare = OnnxPolicy(path, threads=config.threads)
    observation = random_observation(bare.schema)
    here: list[float] = []
    there: list[float] = []
    with RemotePolicy(url, timeout=30.0) as remote:
        for asked in (bare, remote):
            for _ in range(10):
                asked.predict_chunk(observation)
        until = time.perf_counter() + config.repeats * config.seconds
        while time.perf_counter() < until:
            # Ten of each, since a cache is cold right after the other's turn.
            for asked, times in ((bare, here), (remote, there)):
                for _ in range(10):
                    began = time.perf_counter()
                    asked.predict_chunk(observation)
                    times.append(1e3 * (time.perf_counter() - began))
    return [
        {"who": "policy in the process, p50", "value": median(here), "unit": "ms"},
        {"who": "policy behind the server, p50", "value": median(there), "unit": "ms"},
        {"who": "added by the server, p50", "value": median(there) - median(here), "unit": "ms"},
    ]


def endurance_rows(config: Any, pid: int, url: str) -> list[Row]:
    """Let many clients, each in its own process, send requests as fast as they are answered."""
    command = [sys.executable, "-m", "benchmarks.serve", url, str(config.client_seconds)]
    began = time.monotonic()
    clients = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=SCRIPTS)
        for _ in range(config.clients)
    ]
    memory: list[tuple[float, float]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05 * config.client_seconds):
            memory.append((time.monotonic() - began, resident_mb(pid)))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    reports = [
        json.loads(client.communicate(timeout=config.client_seconds + 120)[0] or "{}")
        for client in clients
    ]
    done.set()
    watching.join()
    errors = sum(client.returncode != 0 for client in clients)
    chunks = sum(report.get("chunks", 0) for report in reports)
    # After a fifth of the time every buffer has been filled once.
    settled = [mb for at, mb in memory if at >= 0.2 * memory[-1][0]]
    half = len(settled) // 2
    growth = median(settled[half:]) - median(settled[:half] or settled)
    who = f"{config.clients} clients for {config.client_seconds:g} s"
    return [
        {"who": f"{who}, together", "value": chunks / config.client_seconds, "unit": "chunks/s"},
        {"who": f"{who}, clients that failed", "value": errors, "unit": "clients"},
        {"who": f"{who}, server's memory grew by", "value": growth, "unit": "MB"},
        {"who": f"{who}, server's memory", "value": settled[-1], "unit": "MB"},
    ]


def resident_mb(pid: int) -> float:
    """Return a process's memory in RAM, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def ask(url: str, seconds: float) -> None:
    """Request chunks as one client until the time is over, then print their number."""
    from act_policy.control.policies.remote_policy import RemotePolicy

    with RemotePolicy(url, timeout=30.0) as remote:
        observation = random_observation(remote.schema)
        chunks, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            remote.predict_chunk(observation)
            chunks += 1
    print(json.dumps({"chunks": chunks}))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ask(sys.argv[1], float(sys.argv[2]))
