"""Keys, signals and hooks: stop always wins, ends are clean."""

import os
import signal
import time
from pathlib import Path

import pytest

from act_policy.control.operator_input import OperatorInput


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
    operator.key(" ")
    assert operator.stop_requested() == "key"
    assert not operator.go_requested()


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
        for _ in range(500):
            if operator.go_requested():
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the key was not seen")
        os.kill(os.getpid(), signal.SIGUSR1)
        assert operator.stop_requested() == "SIGUSR1"
        assert operator.ended == ""
        os.kill(os.getpid(), signal.SIGHUP)  # the terminal is gone: an arm must not go on alone
        assert operator.ended == "SIGHUP"
        with pytest.raises(KeyboardInterrupt, match="a second SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
