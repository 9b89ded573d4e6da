"""However a command ends, the arm rests and its robot is disconnected, and there is one message."""

import os
import pty
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.recording.recording import recover
from tests.control.campaign.drive import Life, drive
from tests.control.campaign.fake_policy import SO101, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n"
ENTER, QUIT = (0.0, "\n"), (1.5, "q")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sine_policy(tmp_path_factory.mktemp("policy") / "policy.onnx", SO101)


def check_rests(life: Life, moved: bool) -> None:
    """Disconnected at last; after a motion the last command repeats the one before."""
    assert "Traceback" not in life.error + life.output
    assert life.calls[-1] == "disconnect"
    assert life.calls.count("disconnect") == 1
    if moved:
        assert life.calls[-2] == "send"
        (_, before), (_, last) = life.sent[-2:]
        assert last == before
    else:
        assert life.sent == []


def words_of(command: str, folder: Path) -> list[str]:
    """What a command cannot do without."""
    return ["--out", str(folder / "out"), "--episodes", "2"] if command == "trials" else []


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("check", signal.SIGTERM),
        ("run", signal.SIGQUIT),
        pytest.param("check", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("check", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("check", signal.SIGQUIT, marks=pytest.mark.slow),
        pytest.param("shadow", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("trials", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("trials", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("run", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("run", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_before_anything_moves(
    policy: Path, tmp_path: Path, command: str, end: signal.Signals
) -> None:
    """While the check looks, and to every process of the group."""
    life = drive(
        tmp_path, policy, [(0.2, end)], command=command, since="connect",
        options=[*words_of(command, tmp_path), "--seconds", "30"],
    )  # fmt: skip
    check_rests(life, moved=False)
    assert life.code in (128 + end, 0)  # 0 if shadow has begun by then
    assert life.error == ""


@pytest.mark.parametrize(
    "end",
    [
        signal.SIGQUIT,
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_the_arm_moves(policy: Path, tmp_path: Path, end: signal.Signals) -> None:
    life = drive(tmp_path, policy, [ENTER, (1.5, end)], config=CONFIG)
    check_rests(life, moved=True)
    assert life.code == 0
    assert life.kinds()[-1] == "end"
    assert f"ended by {end.name}" in life.output


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM])
@pytest.mark.parametrize("command", ["trials", "shadow"])
def test_a_signal_while_another_command_moves_the_arm(
    policy: Path, tmp_path: Path, command: str, end: signal.Signals
) -> None:
    led = ["--drive", "--operator", "tests.control.campaign.fake_robots:leader"]
    life = drive(
        tmp_path, policy, [ENTER, (1.5, end)], command=command, config=CONFIG,
        options=led if command == "shadow" else words_of(command, tmp_path),
    )  # fmt: skip
    check_rests(life, moved=True)
    assert (life.code, life.error) == (0, "")


def test_a_bunch_of_signals_does_not_keep_the_robot_connected(policy: Path, tmp_path: Path) -> None:
    """A system that shuts down sends two at once; one of them comes during the disconnecting."""
    keys = [(0.2, signal.SIGTERM), (0.2, signal.SIGHUP), (0.21, signal.SIGTERM)]
    life = drive(tmp_path, policy, keys, command="check", since="connect", fault="slow_disconnect")
    check_rests(life, moved=False)
    assert life.code in (128 + signal.SIGTERM, 128 + signal.SIGHUP)


def test_a_full_disk_silences_no_event(policy: Path, tmp_path: Path) -> None:
    life = drive(tmp_path, policy, [ENTER, QUIT], config=CONFIG, options=["--log", "/dev/full"])
    check_rests(life, moved=True)
    assert life.code == 0
    assert life.error == (
        "log /dev/full: No space left on device; lines that cannot be written are lost\n"
    )
    for event in ("start: ", "running: ", "end: "):
        assert f"\n{event}" in life.output


@pytest.mark.slow
def test_a_disk_that_is_full_amid_a_recording_holds_up_nothing(
    policy: Path, tmp_path: Path
) -> None:
    """No file of the command may grow beyond a megabyte, as far as 13 steps."""
    folder = tmp_path / "recorded"
    life = drive(
        tmp_path, policy, [ENTER, (2.5, "q")], config=CONFIG, fault="full_disk",
        options=["--record", str(folder)],
    )  # fmt: skip
    check_rests(life, moved=True)
    at, detail = next((at, detail) for at, kind, detail in life.events if kind == "recording")
    assert detail == "File too large: the rest is not recorded"
    assert (life.times() > at).sum() > 20
    assert np.ptp(life.values("shoulder_lift.pos")[life.times() > at]) > 5
    assert "ended by key q; " in life.output  # the summary
    assert "\n  recording: 1\n" in life.output
    assert len(recover(folder)) + len(list(folder.glob("*.hdf5"))) > 0


def fill(descriptor: int) -> None:
    """Write until nothing more fits: the next write blocks."""
    os.set_blocking(descriptor, False)
    with suppress(BlockingIOError):
        while True:
            os.write(descriptor, b" " * 64)
    os.set_blocking(descriptor, True)


@pytest.mark.slow
def test_a_terminal_that_nobody_reads_holds_up_nothing(policy: Path, tmp_path: Path) -> None:
    reads, writes = os.pipe()
    fill(writes)
    try:
        life = drive(
            tmp_path, policy, [(2.0, "\n"), (5.0, " "), (5.5, "q")], config=CONFIG,
            since="connect", terminal=writes, patience=20.0,
        )  # fmt: skip
    finally:
        os.close(reads)
        os.close(writes)
    check_rests(life, moved=True)
    assert life.code == 1  # it ended while holding, and not because it was killed
    assert {"start", "running", "operator stop"} <= set(life.kinds())
    assert np.diff(life.times()).max() < 3.0


def test_a_terminal_that_is_stopped_holds_up_nothing(policy: Path, tmp_path: Path) -> None:
    """A terminal whose window stands still: it takes keys, but shows nothing any more."""
    window, terminal = pty.openpty()
    fill(terminal)
    keys = [(2.0, "\n"), (3.5, "\n"), (5.0, "\n"), (6.5, "q")]  # early ones may be discarded
    try:
        life = drive(
            tmp_path, policy, keys, config=CONFIG, since="connect", terminal=terminal,
            window=window, patience=20.0,
        )  # fmt: skip
    finally:
        os.close(window)
        os.close(terminal)
    check_rests(life, moved=True)
    assert life.code == 0  # and not killed
    assert life.kinds()[-1] == "end"


@pytest.mark.slow
def test_a_second_signal_gets_out_of_a_driver_that_hangs(policy: Path, tmp_path: Path) -> None:
    keys = [ENTER, (1.8, signal.SIGTERM), (2.8, signal.SIGTERM)]
    life = drive(tmp_path, policy, keys, config=CONFIG, fault="hang_send:1.0")
    assert "Traceback" not in life.error + life.output
    assert life.calls[-2:] == ["send", "disconnect"]
    assert life.code == 130


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fault": "raise_disconnect"},
            "error: robot tests.control.campaign.fake_robots:make: cannot be disconnected: "
            "ConnectionError('failed to write Torque_Enable'); its motors may still be powered\n",
        ),
        (
            {"robot": "make_nothing"},
            "error: robot tests.control.campaign.fake_robots:make_nothing failed: "
            "OSError('no such port')\n",
        ),
        (
            {"command": "shadow", "options": ["--operator", "{}:broken_leader"]},
            "error: operator {}:broken_leader failed: OSError('no leader')\n",
        ),
        (
            {"command": "shadow", "options": ["--operator", "{}:leader"], "fault": "raise_leader"},
            "error: the operator's device failed: ConnectionError('no status packet')\n",
        ),
        (
            {"command": "shadow", "options": ["--release", "{}:broken_release"]},
            "error: the release hook failed: OSError('no torque')\n",
        ),
    ],
)  # fmt: skip
def test_what_drivers_and_hooks_raise_is_one_message(
    policy: Path, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    def fill(text: str) -> str:
        return text.replace("{}", "tests.control.campaign.fake_robots")

    words = list(map(fill, options.pop("options", [])))  # type: ignore[call-overload]
    settings = {"command": "check", **options}
    life = drive(tmp_path, policy, [], options=[*words, "--seconds", "0.3"], **settings)  # type: ignore[arg-type]
    assert life.error == fill(message)
    assert life.code == 2
    assert "Traceback" not in life.output
    if settings.get("robot") is None:
        assert life.calls[-1] == "disconnect"


def test_an_error_and_a_failed_disconnect_are_both_told(policy: Path, tmp_path: Path) -> None:
    life = drive(tmp_path, policy, [], robot="make_dark", fault="raise_disconnect")
    first, second = life.error.splitlines()
    assert "not started" in first
    assert "cannot be disconnected" in second


def test_a_check_names_every_camera_with_a_problem_once(policy: Path, tmp_path: Path) -> None:
    life = drive(tmp_path, policy, [], command="check", robot="make_dark")
    assert life.code == 2
    for camera in ("front", "wrist"):
        assert life.output.count(f"camera {camera} is black") == 1
