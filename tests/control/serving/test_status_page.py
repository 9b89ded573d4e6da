"""The status page, read as HTML and seen in a browser."""

import urllib.request
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.policies.remote_policy import RemotePolicyError
from act_policy.control.serving.server import PolicyServer
from act_policy.control.serving.status import Client, ServerStatus
from act_policy.control.serving.status_page import status_page
from tests.browser import headings, image_widths, opened
from tests.control.server_for_tests import SCHEMA, SeeingPolicy, observe, remote_policy, serving

METADATA = PolicyServer(
    SeeingPolicy(), {"name": "button", "file": "model.safetensors", "sha256": "ab" * 32}
).metadata
HOSTILE = "<script>alert(1)</script>"


def busy() -> ServerStatus:
    """What remains of 500 requests and an attack."""
    status = ServerStatus()
    client = Client("10.0.0.7:4000", HOSTILE)
    status.clients.append(client)
    rng = np.random.default_rng(0)
    for seconds in rng.gamma(3, 0.002, 500):
        chunk = rng.normal(size=(5, 3)).astype(np.float32)
        status.answer(client, observe(), chunk, float(seconds))
    status.event("refused", "10.0.0.8:1", f"arm {HOSTILE} is controlled by 10.0.0.7:4000")
    return status


def test_before_the_first_request() -> None:
    html = status_page(ServerStatus().snapshot(), SCHEMA, METADATA, ["mind the network"])
    for words in (
        "No client is connected",
        "mind the network",
        "images/wrist",
        "4 x 4",
        "50 steps per second",
    ):
        assert words in html


def test_the_page_shows_what_a_person_looks_for() -> None:
    html = status_page(busy().snapshot(), SCHEMA, METADATA, [])
    for words in ("button", "ab" * 32, ">500<", "p50", "p99", "Latency of the last 500", "dx", "m"):
        assert words in html
    assert HOSTILE not in html
    assert "&lt;script&gt;" in html


def test_without_pillow_there_is_a_page_without_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    html = status_page(busy().snapshot(), SCHEMA, METADATA, [])
    assert "where pillow is installed" in html
    assert "Last chunk" in html


def test_memory_is_bounded() -> None:
    status = ServerStatus()
    for number in range(5000):
        status.answer(Client("a", ""), observe(), np.zeros((5, 3), np.float32), 0.01)
        status.event("error", "a", f"{number}" * 1000)
    seen = status.snapshot()
    assert (len(seen.latencies), len(seen.events), seen.requests) == (2000, 30, 5000)
    assert max(len(event.text) for event in seen.events) == 500
    assert seen.counters == {"error": 5000}


def test_in_a_browser(tmp_path: Path) -> None:
    with serving() as running, remote_policy(running.url, arm="left", timeout=10.0) as remote:
        for seed in range(20):
            remote.predict_chunk(observe(seed))
        with pytest.raises(RemotePolicyError):
            remote_policy(running.url, arm="left", timeout=10.0)
        with urllib.request.urlopen(running.url.replace("ws", "http", 1) + "/") as response:
            assert response.headers["Content-Type"] == "text/html; charset=utf-8"
            html = response.read()
    path = tmp_path / "status.html"
    path.write_bytes(html)
    with opened(path) as page:
        assert headings(page) == [
            "Activity",
            "Last observation",
            "Last chunk",
            "Errors and refusals",
            "Policy",
        ]
        assert image_widths(page) == [8, 4]
        assert "arm left is controlled by" in page.inner_text("body")
        assert page.locator("svg").count() == 3  # latency, actions in m, the gripper's
