"""The page of a robot in a process of its own: whatever happens to it, the loop goes on."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from act_policy.control.page.board import BoardReader, BoardWriter
from act_policy.control.page.browser_access import SECURITY_HEADERS, is_own_host, is_own_origin
from act_policy.control.page.robot_page import PageSubject, robot_page
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.observed import ObservedRobot
from act_policy.control.robots.robot import Reading, Robot
from act_policy.errors import UserError
from act_policy.system.group_signals import unreached_by_group_signals

HOST = "127.0.0.1"
START_SECONDS = 30.0
REQUEST_SECONDS = 10.0


@contextmanager
def open_page(port: int, subject: PageSubject) -> Iterator[tuple[BoardWriter, str]]:
    """Serve the page to browsers of this machine; yield its board and its address.

    Args:
        port: 0 takes a free one.
        subject: what it is about.

    Raises:
        UserError: the port is taken.
    """
    board = BoardWriter(subject.contract.schema, subject.chunk_length)
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(port, subject, board.name, theirs), daemon=True)
    try:
        with unreached_by_group_signals():
            process.start()
        theirs.close()
        answer: int | str = "it did not start"
        if pipe.poll(START_SECONDS):
            try:
                answer = pipe.recv()
            except EOFError:
                answer = "its process ended"
        if isinstance(answer, str):
            raise UserError(f"page {port}: {answer}")
        yield board, f"http://{HOST}:{answer}/"
    finally:
        pipe.close()  # which the process takes for the end
        process.join(0.5)
        if process.is_alive():
            process.kill()
            process.join()
        board.close()


def show_robot(robot: Robot, board: BoardWriter, contract: Contract) -> Robot:
    """Show what passes to and from a robot, under the policy's names."""
    schema, config = contract.schema, contract.config
    state = [config.state.get(name, name) for name in schema.state_names]
    actions = [config.actions.get(name, name) for name in schema.action_names]

    def on_reading(reading: Reading) -> None:
        joints = [reading.joints.get(name, np.nan) for name in state]
        board.show_reading(contract.frames(reading), np.array(joints, np.float64))

    def on_command(command: Mapping[str, float]) -> None:
        values = [command.get(name, np.nan) for name in actions]
        board.show_command(np.array(values, np.float64))

    return ObservedRobot(robot, on_reading, on_command)


def _serve(port: int, subject: PageSubject, memory: str, pipe: Connection) -> None:
    """Answer browsers until the other end of the pipe is closed, for whatever reason."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the loop
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)
    reader = BoardReader(memory, subject.contract.schema, subject.chunk_length)
    try:
        handler = _handler(lambda: robot_page(subject, reader.read()))
        server = _PageServer((HOST, port), handler)
    except (OSError, OverflowError) as error:
        pipe.send(f"cannot listen on {HOST}:{port}: {getattr(error, 'strerror', error)}")
        return
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_address[1])
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(0)


class _PageServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that went away; the terminal belongs to the loop."""


def _handler(draw: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            hosts, origins = (self.headers.get_all(name, []) for name in ("Host", "Origin"))
            host = hosts[0] if len(hosts) == 1 else None
            if not is_own_host(host) or not all(is_own_origin(each, host) for each in origins):
                self._answer(HTTPStatus.FORBIDDEN, "use this machine's name or address\n", "plain")
            elif self.path.partition("?")[0] != "/":
                self._answer(HTTPStatus.NOT_FOUND, "there is only /\n", "plain")
            else:
                self._answer(HTTPStatus.OK, draw(), "html")

        def _answer(self, status: HTTPStatus, body: str, kind: str) -> None:
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            for name, value in SECURITY_HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log no requests."""

        def version_string(self) -> str:
            return "act_policy"

    return Handler
