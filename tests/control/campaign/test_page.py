"""`--page` of every command: the robot in a browser, and the loop none the wiser."""

import http.client
import re
import socket
import time
from pathlib import Path

import pytest

from tests.browser import headings, image_widths, opened
from tests.control.campaign.drive import LIMITS, Person, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n" + "".join(
    LIMITS.format(name=name) for name in SO101_NAMES
)
REFRESH = re.compile('<meta http-equiv="refresh"[^>]*>')
"""By which a browser would load the page again while it is looked at."""

MODES = {
    "check": "check: nothing is sent",
    "shadow": "shadow: nothing is sent",
    "run": "running",
    "trials": "episode 1",
}
WORDS = {"check": [], "shadow": [], "run": [], "trials": ["--out", "{}/out", "--seconds", "60"]}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def ask(port: int, headers: dict[str, str]) -> tuple[int, str]:
    """The status and the text of the answer; 0 where nobody answers."""
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        asked.request("GET", "/", headers=headers)
        answer = asked.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        asked.close()


@pytest.mark.slow
@pytest.mark.parametrize("command", MODES)
def test_every_command_shows_its_robot(tmp_path: Path, command: str) -> None:
    port, seen = free_port(), tmp_path / "seen.html"

    def live(person: Person) -> None:
        if command in ("run", "trials"):
            person.press("\n")
        text, end = "", time.monotonic() + 20
        while time.monotonic() < end:
            status, text = ask(port, {})
            if status == 200 and MODES[command] in text and text.count("<img") == 2:
                break
            person.look_on(0.1)
        seen.write_text(REFRESH.sub("", text))
        assert ask(port, {"Host": "evil.example"})[0] == 403
        person.press("q")

    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    words = [word.replace("{}", str(tmp_path)) for word in WORDS[command]]
    life = drive(
        tmp_path, policy, live, command=command, config=CONFIG, since="connect",
        options=[*words, "--page", str(port)],
    )  # fmt: skip
    assert (life.code, life.error) == (0, "")
    assert f"http://127.0.0.1:{port}/" in life.output
    text = seen.read_text()
    assert MODES[command] in text
    assert all(name in text for name in SO101_NAMES)
    with opened(seen) as page:
        assert headings(page)[:2] == ["Cameras", "Joints"]
        assert image_widths(page) == [128, 128]
        assert page.locator("svg.joint .measured").count() == 6
    assert ask(port, {}) == (0, "")  # it ends with its command


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused_before_anything_moves(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        life = drive(tmp_path, policy, [], config=CONFIG, options=["--page", str(port)])
    assert life.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in life.error
    assert life.sent == []
