"""The server among clients of every kind: good, old, greedy, dying, hostile."""

import base64
import pickle
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from act_policy import Schema, UserError
from act_policy.control.policies.remote_policy import RemotePolicyError
from act_policy.control.policies.wire import pack
from act_policy.control.serving.access import ServerConfig
from act_policy.control.serving.server import PolicyServer
from tests.control.server_for_tests import (
    SCHEMA,
    Running,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)


def get(running: Running, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{running.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def client(running: Running, path: str = "/", **options: Any) -> Iterator[Any]:
    """A plain websocket that has read its greeting."""
    with connect(running.url + path, compression=None, close_timeout=1, **options) as raw:
        raw.recv()
        yield raw


def refusal(raw: Any, sent: str | bytes) -> tuple[str, int]:
    """The reason in words and the close code that a message gets."""
    raw.send(sent)
    words = raw.recv(10)
    assert isinstance(words, str)
    with pytest.raises(ConnectionClosed) as closed:
        raw.recv(10)
    assert closed.value.rcvd is not None
    return words, closed.value.rcvd.code


# Its way of connecting is one that newer websockets warn of.
@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")
def test_the_public_client_of_openpi_works_unchanged() -> None:
    openpi = pytest.importorskip(
        "openpi_client.websocket_client_policy", reason="pip install --no-deps openpi-client"
    )
    policy = SeeingPolicy()
    with serving(policy, api_key="secret") as running:
        old = openpi.WebsocketClientPolicy("127.0.0.1", running.port, "secret")
        metadata = old.get_server_metadata()
        assert Schema.from_dict(metadata["schema"]) == SCHEMA
        assert (metadata["chunk_length"], metadata["fps"]) == (5, 50.0)
        assert metadata["cameras"] == ["top", "wrist"]
        assert metadata["action_names"] == ["dx", "dy", "grip"]
        sent = message(observe())
        first, second = old.infer({**sent, "prompt": "push"}), old.infer(sent)
        expected = policy.predict_chunk(observe())
        np.testing.assert_array_equal(first["actions"], expected)
        np.testing.assert_array_equal(second["actions"], expected)
        assert first["policy_timing"]["infer_ms"] > 0
        assert "prev_total_ms" not in first["server_timing"]
        assert second["server_timing"]["prev_total_ms"] > 0
        with pytest.raises(
            RuntimeError, match=r"Error in inference server:\nobservation.state: not a finite"
        ):
            old.infer({**sent, "state": np.array([np.nan, 0])})
        old._ws.close()


WRONG = {
    "nothing": (b"", "not a message"),
    "wrong msgpack": (b"\xc1\xc1", "not a message"),
    "cut off": (pack(message(observe()))[:-5], "incomplete"),
    "pickle": (pickle.dumps(message(observe())), "not a message"),
    "text": ("hello", "text message"),
    "extension": (msgpack.packb({"state": msgpack.ExtType(1, b"x")}), "not a message"),
    "object array": (
        msgpack.packb(
            {"state": {b"__ndarray__": True, b"data": b"0" * 8, b"dtype": "|O", b"shape": [1]}}
        ),
        "dtype is '|O'",
    ),
    "NaN": (pack({**message(observe()), "state": np.array([0.0, np.nan])}), "finite number in y"),
    "wrong shape": (pack({**message(observe()), "state": np.zeros(7)}), "(7,)"),
    "renamed camera": (
        pack({"state": np.zeros(2), "images": {"top": observe().images["top"], "hand": 0}}),
        "not known: images/hand",
    ),
    "policy refuses": (pack(message(observe(x=666))), "number of the beast"),
    "policy has a bug": (pack(message(observe(x=667))), "the policy failed (KeyError)"),
    "policy says NaN": (pack(message(observe(x=668))), "not a finite number in dy"),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """One server for all the bad clients, so that each is served after the others."""
    with serving() as running:
        yield running


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_message_gets_its_reason_and_harms_nobody(shared: Running, kind: str) -> None:
    sent, words = WRONG[kind]
    with remote_policy(shared.url) as good, client(shared) as bad:
        good.predict_chunk(observe(1))
        said, code = refusal(bad, sent)
        assert words in said
        assert "Traceback" not in said
        assert code == 1011
        np.testing.assert_array_equal(
            good.predict_chunk(observe(2)), SeeingPolicy().predict_chunk(observe(2))
        )
    assert shared.server.status.snapshot().events[-1].text == said


def test_a_message_of_300_megabytes_is_refused_before_it_is_read(shared: Running) -> None:
    with client(shared) as bad:
        header = b"\x82\xff" + (300_000_000).to_bytes(8, "big") + b"mask"
        bad.socket.sendall(header + bytes(1000))
        with pytest.raises(ConnectionClosed) as closed:
            bad.recv(10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    with client(shared) as bad:
        with suppress(ConnectionClosed):
            bad.send(bytes(40_000_000))
        with pytest.raises(ConnectionClosed):
            bad.recv(10)
    with remote_policy(shared.url) as good:
        good.predict_chunk(observe())


def test_noise_that_is_not_http(shared: Running) -> None:
    with socket.create_connection(("127.0.0.1", shared.port)) as noise:
        noise.sendall(b"\x16\x03\x01" + bytes(range(256)) * 20)
        noise.settimeout(10)
        with suppress(ConnectionError):  # closed or reset: both are an end
            while noise.recv(1000):
                pass
    assert get(shared, "/healthz") == (200, "OK\n")


def test_clients_that_wait_form_a_batch_and_get_their_own_chunks() -> None:
    policy = SeeingPolicy()
    with serving(policy, largest_batch=4) as running:
        clients = [remote_policy(running.url) for _ in range(6)]
        policy.may_answer.clear()
        with ThreadPoolExecutor(6) as pool:
            # One of them is at fault; its batch must not suffer.
            observations = [observe(seed, x=666 if seed == 4 else None) for seed in range(6)]
            first = pool.submit(clients[0].predict_chunk, observations[0])
            time.sleep(0.3)
            rest = [
                pool.submit(remote.predict_chunk, observation)
                for remote, observation in zip(clients[1:], observations[1:], strict=True)
            ]
            time.sleep(0.3)
            assert get(running, "/healthz") == (200, "OK\n")  # while the policy computes
            policy.may_answer.set()
            for seed, answer in enumerate([first, *rest]):
                if seed == 4:
                    with pytest.raises(RemotePolicyError, match="number of the beast"):
                        answer.result(10)
                    continue
                expected = SeeingPolicy().predict_chunk(observe(seed))
                np.testing.assert_array_equal(answer.result(10), expected)
        assert policy.batches[0] == 1
        assert max(policy.batches) == 4
        for remote in clients:
            remote.close()


def test_one_client_moves_an_arm() -> None:
    with serving() as running:
        left = remote_policy(running.url, arm="left")
        with pytest.raises(RemotePolicyError, match="arm left is controlled by 127"):
            remote_policy(running.url, arm="left")
        with (
            remote_policy(running.url, arm="right & more"),
            remote_policy(running.url),
            remote_policy(running.url),
        ):
            names = [str(client) for client in running.server.status.snapshot().clients]
            assert sum("(arm" in name for name in names) == 2
            assert any("(arm right & more)" in name for name in names)
        left.predict_chunk(observe())
        left.close()
        wait_until(lambda: not running.server.status.clients)
        remote_policy(running.url, arm="left").close()
        for wrong in ("x" * 61, "  "):
            with pytest.raises(RemotePolicyError, match="60 characters"):
                remote_policy(running.url, arm=wrong)
        with remote_policy(running.url, arm="left arm"):
            for same in ("Left Arm", " left  arm ", "LEFTARM", "\uff4ceft arm"):
                with pytest.raises(RemotePolicyError, match=r"arm .* is controlled by 127"):
                    remote_policy(running.url, arm=same)


def test_the_arm_of_a_client_that_died_is_free_again() -> None:
    with serving(stall_seconds=1.0) as running:
        with client(running, "/?arm=left") as raw:
            raw.socket.shutdown(socket.SHUT_RDWR)  # as the kernel does for a killed process
            wait_until(lambda: not running.server.status.clients)
            remote_policy(running.url, arm="left").close()
        # A client that is silent, as behind a network that fails: no closing, no answer to pings.
        with socket.create_connection(("127.0.0.1", running.port)) as silent:
            silent.sendall(handshake("/?arm=left"))
            wait_until(lambda: bool(running.server.status.clients))
            wait_until(lambda: not running.server.status.clients)
            assert "lost" in running.server.status.counters
            remote_policy(running.url, arm="left").close()


def test_a_client_that_does_not_read_is_dropped() -> None:
    """It asks and asks; the server neither waits for it nor keeps its answers."""
    with serving(stall_seconds=1.0) as running, remote_policy(running.url) as good:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", running.port))
            deaf.sendall(handshake("/?arm=deaf"))
            request = frame(pack(message(observe())))
            deaf.settimeout(0.2)
            deadline = time.monotonic() + 15
            reset = False
            while not reset:
                assert time.monotonic() < deadline
                try:
                    deaf.sendall(request * 100)
                except TimeoutError:  # the server has stopped to read, but is there for others
                    good.predict_chunk(observe())
                except ConnectionError:
                    reset = True
        while any("deaf" in client.arm for client in running.server.status.clients):
            assert time.monotonic() < deadline  # the server hears of it a moment later
            time.sleep(0.01)
        good.predict_chunk(observe())


def test_no_more_clients_than_the_limit() -> None:
    with serving(most_clients=2) as running, client(running), client(running):
        with pytest.raises(RemotePolicyError, match="2 clients are connected, which is the limit"):
            remote_policy(running.url)
        assert get(running, "/healthz")[0] == 200


def test_health_when_the_policy_hangs() -> None:
    policy = SeeingPolicy()
    with serving(policy, stall_seconds=1.0) as running:
        policy.may_answer.clear()
        with client(running) as raw:
            raw.send(pack(message(observe())))
            wait_until(lambda: get(running, "/healthz")[0] == 503)
            assert "has not answered" in get(running, "/healthz")[1]
            policy.may_answer.set()
            assert isinstance(raw.recv(10), bytes)
        assert get(running, "/healthz") == (200, "OK\n")


def test_stopping_while_the_policy_hangs_tells_the_client() -> None:
    policy = SeeingPolicy()
    policy.may_answer.clear()
    with ExitStack() as connections:
        with serving(policy) as running:
            raw = connections.enter_context(client(running))
            raw.send(pack(message(observe())))
            wait_until(lambda: running.server._predictor.busy_seconds() > 0)
        assert "shutting down" in raw.recv(10)
        policy.may_answer.set()


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


def test_importing_the_server_needs_no_torch() -> None:
    code = (
        "import sys, act_policy.control.serving.server, act_policy.control.policies.remote_policy;"
        "print(sorted({'torch', 'h5py', 'PIL', 'onnxruntime', 'hydra'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def run_once(**config: Any) -> None:
    with serving(**config):
        pass


def wait_until(true: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def handshake(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def frame(payload: bytes) -> bytes:
    """A binary frame whose mask is zero."""
    assert 126 <= len(payload) < 65536
    return b"\x82\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload
