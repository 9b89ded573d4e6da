"""Keys, signals and hooks: stop always wins, ends are clean."""

import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from act_policy.control.safety.operator_input import BUNCH_SECONDS, OperatorInput


def test_keys() -> None:
    operator = OperatorInput()
    assert operator.stop_requested() == ""
    operator.key("\n")
    assert operator.go_requested()
    assert not operator.go_requested()
    operator.key("t")
    assert operator.handover_requested()
    assert not operator.handover_requested()
    operator.key("x")
    assert operator.stop_requested() == "key"
    assert operator.stop_requested() == ""
    operator.key("q")
    assert operator.ended == "key q"


def test_a_stop_withdraws_a_start() -> None:
    operator = OperatorInput()
    operator.key("\n")
    operator.key("p")
    operator.key(" ")
    assert operator.stop_requested() == "key"
    assert not operator.go_requested()
    assert not operator.park_requested()


def test_what_is_forgotten_is_not_a_stop() -> None:
    operator = OperatorInput()
    for key in "\npt":
        operator.key(key)
    operator.stop("SIGUSR1")
    operator.key("q")
    operator.forget()
    assert not operator.go_requested()
    assert not operator.park_requested()
    assert not operator.handover_requested()
    assert operator.stop_requested() == "SIGUSR1"
    assert operator.ended == "key q"


def test_the_owners_hook_is_asked_every_time() -> None:
    pressed = [False, True, False]
    operator = OperatorInput(lambda: pressed.pop(0))
    assert [operator.stop_requested() for _ in range(3)] == ["", "stop hook", ""]


def test_a_hook_that_cannot_be_asked_stops() -> None:
    def unplugged() -> bool:
        raise OSError("no pedal")

    assert OperatorInput(unplugged).stop_requested() == "the stop hook failed: OSError('no pedal')"


def test_signals_and_keys_while_listening(tmp_path: Path) -> None:
    operator = OperatorInput()
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / "keys").write_text("\n")
    with (tmp_path / "keys").open() as keys, operator.listening(keys):
        wait_for(operator.go_requested)
        assert wait_for(operator.stop_requested) == "the keyboard is gone"
        os.kill(os.getpid(), signal.SIGUSR1)
        assert operator.stop_requested() == "SIGUSR1"
        assert operator.ended == ""
        os.kill(os.getpid(), signal.SIGHUP)  # the terminal is gone: an arm must not go on alone
        assert operator.ended == "SIGHUP"
        os.kill(os.getpid(), signal.SIGTERM)  # a system that shuts down sends several
        time.sleep(BUNCH_SECONDS + 0.1)
        with pytest.raises(KeyboardInterrupt, match="a second SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def wait_for(asked: Callable[[], Any]) -> Any:
    for _ in range(500):
        if answer := asked():
            return answer
        time.sleep(0.01)
    raise AssertionError("the key was not seen")


def test_every_key_of_a_terminal_arrives() -> None:
    ours, theirs = pty.openpty()
    operator = OperatorInput()
    # the keyboard goes first: whoever reads from it is waiting
    with (
        os.fdopen(theirs) as keys,
        os.fdopen(ours, "wb", buffering=0) as keyboard,
        operator.listening(keys),
    ):
        # Ctrl-S, Ctrl-Q, Ctrl-V, Ctrl-Z, Ctrl-\\, half a letter, and a space after it
        for key in (b"\x13", b"\x11", b"\x16", b"\x1a", b"\x1c", b"\xe9", b" "):
            keyboard.write(key)
            assert wait_for(operator.stop_requested) == "key"
        keyboard.write(b"\n")
        wait_for(operator.go_requested)
        keyboard.write(b"q")
        wait_for(lambda: operator.ended)


def test_a_terminal_that_is_gone_stops_and_lets_the_run_end() -> None:
    ours, theirs = pty.openpty()
    operator = OperatorInput()
    with os.fdopen(theirs) as keys, operator.listening(keys):
        os.close(ours)
        assert wait_for(operator.stop_requested).startswith("the keyboard is gone")


def test_no_stop_is_lost_at_whatever_moment_it_comes() -> None:
    def press_at(step: int) -> tuple[OperatorInput, str, bool]:
        """Press a key before the given instruction of stop_requested, as a signal may."""
        operator, count = OperatorInput(), -1

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal count
            if frame.f_code is not OperatorInput.stop_requested.__code__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                count += 1
                if count == step:
                    operator.stop("SIGUSR1")
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            said = operator.stop_requested()
        finally:
            sys.settrace(before)
        return operator, said, count >= step

    for step in range(200):
        operator, said, pressed = press_at(step)
        if not pressed:
            break
        assert "SIGUSR1" in (said, operator.stop_requested()), step
    assert step > 10
