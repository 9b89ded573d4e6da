"""Clients of a server that speak for themselves, byte by byte where they must."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.control.server_for_tests import (
    Running,
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
