"""Clients that are wrong, greedy or hostile get their reason and harm nobody."""

import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import msgpack
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from act_policy.control.policies.remote_policy import RemotePolicyError
from act_policy.control.policies.wire import pack
from tests.control.server_for_tests import (
    Running,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)
from tests.control.serving.clients_for_tests import client, frame, get, handshake, refusal

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
