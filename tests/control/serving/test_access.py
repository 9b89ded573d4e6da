"""Who may connect, and where a server may listen: keys, TLS, addresses and their warnings."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from act_policy import UserError
from act_policy.control.policies.remote_policy import RemotePolicyError
from act_policy.control.serving.access import ServerConfig
from act_policy.control.serving.server import PolicyServer
from tests.control.server_for_tests import (
    SeeingPolicy,
    observe,
    remote_policy,
    serving,
)
from tests.control.serving.clients_for_tests import get


def test_api_key() -> None:
    with serving(api_key="secret") as running:
        for key in (None, "wrong", "secre", "sécret"):
            with pytest.raises(RemotePolicyError, match="an API key is needed"):
                remote_policy(running.url, api_key=key)
        with remote_policy(running.url, api_key="secret") as remote:
            remote.predict_chunk(observe())
        assert get(running, "/healthz")[0] == 200
        assert get(running, "/")[0] == 401
        basic = base64.b64encode(b"anybody:secret").decode()
        assert get(running, "/", Authorization=f"Basic {basic}")[0] == 200
        for wrong in ("Basic ???", "Basic " + base64.b64encode(b"secret").decode(), "secret"):
            assert get(running, "/", Authorization=wrong)[0] == 401


def test_web_pages_of_others_cannot_connect() -> None:
    with serving() as running, pytest.raises(InvalidStatus, match="403"):
        connect(running.url, origin="http://evil.example")  # type: ignore[arg-type]


def test_only_two_addresses_answer() -> None:
    with serving() as running:
        assert get(running, "/metrics")[0] == 404


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("tls")
    made = (str(folder / "certificate.pem"), str(folder / "key.pem"))
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -out {made[0]} -keyout {made[1]}"
    )
    try:
        subprocess.run(command.split(), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed, which makes the certificate")
    return made


def test_tls(certificate: tuple[str, str]) -> None:
    with serving(certificate=certificate[0], private_key=certificate[1]) as running:
        with remote_policy(running.url, certificate=certificate[0]) as remote:
            remote.predict_chunk(observe())
        with pytest.raises(RemotePolicyError, match="certificate"):
            remote_policy(running.url)
        with pytest.raises(RemotePolicyError, match="it speaks TLS: try wss://"):
            remote_policy(running.url.replace("wss", "ws"))
    with serving() as running, pytest.raises(RemotePolicyError, match="not speak TLS: try ws://"):
        remote_policy(running.url.replace("ws", "wss"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"port": 70000}, "port=70000"),
        ({"port": -1}, "port=-1: expected a whole number"),
        ({"most_clients": 0}, "most_clients=0"),
        ({"stall_seconds": -1.0}, "stall_seconds"),
        ({"certificate": "c.pem"}, "needs both"),
        ({"api_key": " "}, "empty"),
    ],
)
def test_settings_that_cannot_be(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ServerConfig(**config)


def test_addresses_that_cannot_be(tmp_path: Path) -> None:
    with serving() as running, pytest.raises(UserError, match="cannot listen on 127"):
        run_once(port=running.port)
    (tmp_path / "c.pem").write_text("no certificate")
    with pytest.raises(UserError, match=r"c.pem.*belong together"):
        run_once(certificate=str(tmp_path / "c.pem"), private_key=str(tmp_path / "c.pem"))
    with pytest.raises(UserError, match="images alone take 192"):
        PolicyServer(SeeingPolicy(), {}, None, ServerConfig(largest_message=100))


def test_warnings_for_the_open_network() -> None:
    assert ServerConfig().warnings() == []
    assert ServerConfig(host="localhost").warnings() == []
    clear, anybody = ServerConfig(host="0.0.0.0").warnings()
    assert "without TLS" in clear.replace("Without", "without")
    assert "Anybody" in anybody
    (clear,) = ServerConfig(host="0.0.0.0", api_key="k").warnings()
    assert "the key travel in the clear" in clear
    assert ServerConfig("::", 1, "c", "k", "key").warnings() == []


def run_once(**config: Any) -> None:
    with serving(**config):
        pass
