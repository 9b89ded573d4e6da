"""The commands as an owner types them, on the simulated arm."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from act_policy.control.commands.command_line import main
from tests.control import onnx_for_tests
from tests.paths import ROOT


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = onnx_for_tests.write_calm_policy(tmp_path_factory.mktemp("policy") / "p.onnx")
    return path


def command(name: str, policy: Path, *arguments: str) -> list[str]:
    words = [sys.executable, "-m", "act_policy.control", name, "--policy", str(policy)]
    return [*words, "--robot", "simulated", *arguments]


def test_check_reports_everything_and_sends_nothing(policy: Path, tmp_path: Path) -> None:
    config = tmp_path / "robot.toml"
    config.write_text('[joints."elbow.pos"]\nlow = -0.8\nhigh = 0.4\nmax_speed = 1\nmax_step = 1\n')
    done = subprocess.run(
        command("check", policy, "--seconds", "0.5", "--config", str(config)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    out = done.stdout
    assert "camera    front: 48x64, used as 48x64; brightness 0.4" in out
    assert "joint     elbow.pos: -0.25 rad; demonstrated -1 to 0.5" in out
    assert "elbow.pos (position): -0.8 to 0.4 rad, at most 1 per second" in out
    assert "limits from the file (low, high, max_speed, max_step)\n" in out
    assert "warning   limits of shoulder.pos, gripper.pos are only what the demonstrations" in out
    assert "policy    answers in" in out
    assert "nothing was sent" in out


def test_a_limit_missing_from_the_file_is_reported(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "robot.toml"
    config.write_text('[joints."elbow.pos"]\nlow = -0.8\nhigh = 0.4\n')
    main(command("check", policy, "--seconds", "0.2", "--config", str(config))[3:])
    out = capsys.readouterr().out
    assert "from the file (low, high) and demonstrations (max_speed, max_step)" in out
    assert "warning   limits of shoulder.pos, elbow.pos, gripper.pos are only" in out


def test_the_documented_config_runs_on_the_simulated_arm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of the owner's robot are in them, which the simulated arm has not."""
    documented = (ROOT / "docs" / "robot.md").read_text()
    config = tmp_path / "robot.toml"
    config.write_text(documented.split("```toml\n")[1].split("```")[0])
    joints = ("shoulder_pan.pos", "wrist_roll.pos", "gripper.pos")
    schema = replace(onnx_for_tests.SCHEMA, state_names=joints, action_names=joints)
    path = onnx_for_tests.write_calm_policy(tmp_path / "p.onnx", schema)
    main(command("check", path, "--seconds", "0.2", "--config", str(config))[3:])
    out = capsys.readouterr().out
    assert "wrist_roll.pos (position)" in out
    assert "limits from the file (low, high, max_speed, max_step)\n" in out


def test_check_reports_what_it_cannot_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = onnx_for_tests.write_calm_policy(tmp_path / "p.onnx", statistics=False)
    names = onnx_for_tests.SCHEMA.action_names
    config = tmp_path / "robot.json"
    config.write_text(json.dumps({"joints": {name: {"low": -1, "high": 1} for name in names}}))
    words = command("check", path, "--seconds", "0.2", "--config", str(config))
    main(words[3:])
    out = capsys.readouterr().out
    assert "joint     elbow.pos: 0 rad; the policy does not say what was demonstrated" in out
    assert "warning   where shoulder.pos, elbow.pos, gripper.pos may be is not known" in out


def test_a_file_random_py_beside_the_user_is_not_imported(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise AssertionError('the standard library has this')")
    done = subprocess.run(
        command("check", policy, "--seconds", "0.2"),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stderr == ""
    assert "nothing was sent" in done.stdout


def test_errors_are_one_message_and_code_2(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[joints.wrist]\nlow = 0")
    done = subprocess.run(
        command("run", policy, "--config", str(tmp_path / "bad.toml")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: config: joints wrist are none of the policy's actions, "
        "shoulder.pos, elbow.pos, gripper.pos\n"
    )


ROBOT = """
class Arm:
    action_names = ("shoulder.pos", "elbow.pos", "gripper.pos")

    def connect(self):
        raise OSError("no such port")

    def get_observation(self): ...
    def send_action(self, action): ...
    def disconnect(self): ...


def make(schema):
    assert schema.rate == 20
    return Arm()


def renamed(schema):
    arm = Arm()
    arm.action_names = ("shoulder.pos", "elbow.pos", "jaw.pos")
    return arm
"""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("make", "robot my_arm:make: cannot be connected: OSError('no such port')"),
        (
            "renamed",
            "action names differ: the policy has elbow.pos, gripper.pos, shoulder.pos",
        ),
    ],
)
def test_a_robot_that_does_not_fit_is_refused_before_it_moves(
    policy: Path, tmp_path: Path, function: str, message: str
) -> None:
    (tmp_path / "my_arm.py").write_text(ROBOT)
    done = subprocess.run(
        [*command("run", policy)[:-2], "--robot", f"my_arm:{function}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The command, once it waits for the operator."""
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(process, "ready;")
        yield process
    finally:
        end(process)
        process.communicate(timeout=20)


def end(process: subprocess.Popen[str]) -> None:
    """Kill it and what it began: each of them holds the pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(process: subprocess.Popen[str], words: str) -> str:
    """Read on to a line; a process that does not say it within a minute is killed."""
    assert process.stdout is not None
    watchdog = threading.Timer(60, end, [process])
    watchdog.start()
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(words):
            watchdog.cancel()
            return line
    raise AssertionError(f"{words!r} is not in {said}; {process.communicate()[1]}")


# The machine that tests may be busy: only what does not depend on punctuality is looked at.
PATIENT = """
[safety]
max_tick_time = 30.0
max_answer_time = 30.0
frozen_camera_time = 30.0
"""


def press(process: subprocess.Popen[str], keys: str) -> None:
    assert process.stdin is not None
    process.stdin.write(keys)
    process.stdin.flush()


def options(tmp_path: Path) -> list[str]:
    (tmp_path / "robot.toml").write_text(PATIENT)
    return [
        *("--config", str(tmp_path / "robot.toml")),
        *("--log", str(tmp_path / "events.jsonl"), "--record", str(tmp_path / "runs")),
    ]


@pytest.mark.parametrize("end", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow)])
def test_a_signal_ends_a_run_cleanly(policy: Path, tmp_path: Path, end: str) -> None:
    with running(command("run", policy, *options(tmp_path))) as process:
        press(process, "\n")
        wait_for(process, "running")
        process.send_signal(getattr(signal, end))
        out, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode == 0
    assert f"ended by {end}; " in out
    assert "p99" in out
    events = (tmp_path / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in events]
    assert kinds[:2] == ["start", "running"]
    assert kinds[-1] == "end"
    assert os.listdir(tmp_path / "runs") == ["episode_000000.hdf5"]


def test_a_run_stops_resumes_and_ends_with_code_1_in_a_hold(policy: Path, tmp_path: Path) -> None:
    with running(command("run", policy, *options(tmp_path))) as process:
        for keys, answer in (("\n", "running"), (" ", "operator stop"), ("\n", "running")):
            press(process, keys)
            wait_for(process, answer)
        press(process, " ")
        wait_for(process, "operator stop")
        press(process, "q")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == "ended while holding: the operator stopped the robot (key)\n"
    assert "operator stop: 2" in out


def test_shadow_compares_and_logs(policy: Path, tmp_path: Path) -> None:
    log = tmp_path / "shadow.jsonl"
    done = subprocess.run(
        command("shadow", policy, "--seconds", "1", "--log", str(log)),
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert "steps compared with where the arm was a step later" in done.stdout
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert set(lines[-1]) == {"time", "state", "proposed", "age", "operator", "fault"}
    assert lines[-1]["proposed"]["gripper.pos"] == pytest.approx(0.49)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["check", "--seconds", "0.2"], ""),
        (["check", "--page", "0"], "error: import of jinja2 halted; None in sys.modules; run `pip"),
        (
            ["trials", "--out", "out"],
            "error: import of jinja2 halted; None in sys.modules; run `pip",
        ),
    ],
)
def test_only_pages_need_jinja2(policy: Path, tmp_path: Path, more: list[str], words: str) -> None:
    hidden = "import sys; sys.modules['jinja2'] = None; sys.path.append(sys.argv.pop(1)); "
    run = "from act_policy.control.commands.command_line import main; sys.exit(main(sys.argv[1:]))"
    options = ["--policy", str(policy), "--robot", "simulated"]
    done = subprocess.run(
        [sys.executable, "-c", hidden + run, str(ROOT), *more, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr.startswith(words)
    assert ("pip install" in done.stderr) == bool(words)
    assert len(done.stderr.splitlines()) == bool(words)
    assert done.returncode == (2 if words else 0)
