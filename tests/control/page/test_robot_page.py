"""The page of a robot: what it shows, in a browser, and that the loop never waits for it."""

import http.client
import os
import signal
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from act_policy import UserError
from act_policy.control.chunks.asynchronous import Answer
from act_policy.control.config import RobotConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.page.board import MOST_EVENTS, BoardReader, BoardWriter
from act_policy.control.page.browser_access import SECURITY_HEADERS
from act_policy.control.page.process import open_page, show_robot
from act_policy.control.page.robot_page import PageSubject, robot_page
from act_policy.control.robots.contract import Contract
from tests.browser import headings, image_widths, opened
from tests.control.loop_for_tests import CHUNK_LENGTH, RANGES, SCHEMA, Arm, Clock

CONTRACT = Contract(SCHEMA, RANGES, RobotConfig())
SUBJECT = PageSubject("policy.onnx", "my_robot:make", CONTRACT, CHUNK_LENGTH)
HOSTILE = "<script>alert(1)</script>"


def fill(board: BoardWriter) -> None:
    """A life of a robot."""
    board.describe = lambda: ("holding", f"a fault {HOSTILE}")
    arm = show_robot(Arm(Clock()), board, CONTRACT)
    arm.get_observation()
    arm.send_action({"shoulder": 0.25, "gripper": 0.5, "base": 0.1})
    board.show_answer(Answer(time.monotonic(), np.zeros((CHUNK_LENGTH, 3), np.float32)))
    board.add_event("camera", f"front is {HOSTILE}")


@pytest.fixture
def board() -> Any:
    with ExitStack() as stack:
        made = BoardWriter(SCHEMA, CHUNK_LENGTH)
        stack.callback(made.close)
        yield made


def test_what_is_written_is_read(board: BoardWriter) -> None:
    reader = BoardReader(board.name, SCHEMA, CHUNK_LENGTH)
    empty = reader.read()
    assert empty.frames == {}
    assert empty.chunk is None
    assert np.isnan(empty.age)
    assert "not yet" in robot_page(SUBJECT, empty)
    fill(board)
    shown = reader.read()
    np.testing.assert_allclose(shown.state, [0.2, 0.5])
    np.testing.assert_allclose(shown.command, [0.25, 0.5, 0.1])
    assert {name: (f.shape, size) for name, (f, size) in shown.frames.items()} == {
        "front": ((4, 6, 3), (4, 6)),
        "wrist": ((4, 6, 3), (4, 6)),
    }
    assert shown.chunk is not None
    assert shown.events[0][1:] == ("camera", f"front is {HOSTILE}")
    for number in range(100):
        board.add_event("tick", str(number))
    assert [detail for _, _, detail in reader.read().events] == [
        str(number) for number in range(99, 99 - MOST_EVENTS, -1)
    ]


def test_a_velocity_is_shown_beside_what_was_measured_of_it() -> None:
    names, units = ("shoulder.pos", "x.vel"), ("deg", "m/s")
    schema = replace(
        SCHEMA, state_names=names, state_units=units, action_names=names, action_units=units
    )
    two = np.array([1.0, 0.5])
    contract = Contract(schema, DemonstratedRanges(-two, two, -two, two, {}), RobotConfig())
    with ExitStack() as stack:
        board = BoardWriter(schema, CHUNK_LENGTH)
        stack.callback(board.close)
        board.show_reading({}, np.array([0.7, 0.123]))
        shown = BoardReader(board.name, schema, CHUNK_LENGTH).read()
    html = robot_page(PageSubject("policy.onnx", "my_robot:make", contract, CHUNK_LENGTH), shown)
    assert html.count("<td>x.vel</td>") == 1
    assert "0.123" in html


def test_what_cannot_be_shown_is_no_fault(board: BoardWriter) -> None:
    """A driver's strange images, and a chunk of another length."""
    board.show_reading({"front": np.zeros((4, 6)), "wrist": np.zeros(3)}, np.zeros(2))
    board.show_reading({}, np.zeros(5))
    board.show_answer(Answer(0.0, np.zeros((2, 2))))
    board.show_answer(Answer(0.0, None, "it failed"))
    board.show_reading({"front": np.zeros((2000, 3000, 3), np.uint8)}, np.zeros(2))
    shown = BoardReader(board.name, SCHEMA, CHUNK_LENGTH).read()
    assert shown.chunk is None


def test_in_a_browser(tmp_path: Path) -> None:
    with open_page(0, SUBJECT) as (board, address):
        fill(board)
        with urllib.request.urlopen(address) as response:
            assert dict(SECURITY_HEADERS).items() <= dict(response.headers).items()
            html = response.read()
        host, port = address.removeprefix("http://").rstrip("/").split(":")
        for headers in ({"Host": "evil.example"}, {"Origin": "null"}, {}):
            asked = http.client.HTTPConnection(host, int(port), timeout=10)
            asked.request("GET", "/", headers=headers)
            assert asked.getresponse().status == (403 if headers else 200)
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            open_page(int(port), SUBJECT).__enter__()
    path = tmp_path / "robot.html"
    path.write_bytes(html)
    with opened(path) as page:
        assert headings(page) == ["Cameras", "Joints", "Last chunk", "Events", "What runs"]
        assert image_widths(page) == [6, 6]
        text = page.inner_text("body")
        assert f"holding: a fault {HOSTILE}" in text
        assert "-1.1 to 1.1" in text  # the shoulder's limits
        assert page.locator("svg.joint").count() == 3
        assert page.locator("svg.joint .measured").count() == 2  # nothing measures the base


def test_a_page_that_hangs_or_dies_holds_up_nothing() -> None:
    children = set(psutil.Process().children())
    with open_page(0, SUBJECT) as (board, _):
        (page,) = (
            p
            for p in set(psutil.Process().children()) - children
            if "spawn_main" in str(p.cmdline())
        )
        arm = show_robot(Arm(Clock()), board, CONTRACT)
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
            os.kill(page.pid, number)
            began = time.perf_counter()
            for _ in range(200):
                arm.get_observation()
                arm.send_action({"shoulder": 0.25, "gripper": 0.5, "base": 0.1})
                board.add_event("tick", "")
            assert time.perf_counter() - began < 2.0
