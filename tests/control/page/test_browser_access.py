"""Which names and origins a page answers."""

import socket

import pytest

from act_policy.control.page.browser_access import is_own_host, is_own_origin


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8000", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8000", "192.168.1.7",
        socket.gethostname(), f"{socket.gethostname()}.local:8000", "robot.lab:8000",
    ],
)  # fmt: skip
def test_own_names(host: str) -> None:
    assert is_own_host(host, ("robot.lab",))


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "[",
    ],
)
def test_names_of_strangers(host: str | None) -> None:
    assert not is_own_host(host, ("robot.lab",))


def test_origins() -> None:
    assert is_own_origin(None, "127.0.0.1:8000")
    assert is_own_origin("http://127.0.0.1:8000", "127.0.0.1:8000")
    for other in ("http://127.0.0.1:9000", "http://evil.example", "null", ""):
        assert not is_own_origin(other, "127.0.0.1:8000")
