"""Web pages of strangers get nothing from a policy server, whatever names they point at it."""

import http.client

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from act_policy.control.page.browser_access import SECURITY_HEADERS
from tests.control.server_for_tests import Running, serving


def ask(running: Running, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()


def test_a_name_that_points_here_is_refused() -> None:
    with serving(names=("robot.lab",)) as running:
        for host, status in (
            (f"127.0.0.1:{running.port}", 200),
            (f"localhost:{running.port}", 200),
            ("robot.lab", 200),
            ("evil.example", 403),
            (f"evil.example:{running.port}", 403),
            ("", 403),
        ):
            assert ask(running, Host=host).status == status, host
        refused = running.server.status.counters["refused"]
        assert refused == 3
        body = ask(running, Host="evil.example").read()
        assert b"observation" not in body
        assert b"names=[NAME]" in body


def test_a_page_of_another_origin_is_refused() -> None:
    with serving() as running:
        for origin, status in (
            (f"http://127.0.0.1:{running.port}", 200),
            ("http://evil.example", 403),
            ("null", 403),
        ):
            assert ask(running, Origin=origin).status == status, origin


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://127.0.0.1"}])
def test_a_websocket_of_a_page_is_refused(headers: dict[str, str]) -> None:
    with serving() as running:
        if "Host" in headers:
            upgrade = {
                "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            }  # fmt: skip
            assert ask(running, **upgrade, **headers).status == 403
            return
        with pytest.raises(InvalidStatus, match="403"):
            connect(running.url, origin=headers["Origin"])  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/", "/healthz", "/nothing"])
def test_every_answer_has_the_security_headers(path: str) -> None:
    with serving() as running:
        answer = ask(running, path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
