"""The process beside training runs, rests and ends as training says."""

import multiprocessing
import sys
import threading
import time
from pathlib import Path

import pytest

from act_policy.cli.training import rollouts
from act_policy.cli.training.rollouts import Gate
from act_policy.training.rollouts.evaluator import Evaluator

# Says that it can rest, and writes down what it is told.
LISTEN = """
import os, sys
os.write(1, b'r')
while word := os.read(0, 1):
    open(sys.argv[1], 'ab').write(word)
"""


def wait_for(what: object) -> None:
    deadline = time.monotonic() + 60
    while not what() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.01)


def test_a_process_is_told_to_rest_and_to_run_once_each(tmp_path: Path) -> None:
    told = tmp_path / "told"
    evaluator = Evaluator((sys.executable, "-c", LISTEN))
    assert not evaluator.is_running
    evaluator.start(told, 0)
    wait_for(lambda: evaluator.can_rest)
    assert evaluator.can_rest
    for runs in (True, False, False, True, True, False):
        evaluator.let_run(runs)
    wait_for(lambda: told.is_file() and len(told.read_bytes()) == 3)
    assert told.read_bytes() == b"-+-"
    assert evaluator.is_running
    evaluator.end()
    assert not evaluator.is_running
    evaluator.end()


def test_a_closed_gate_holds_a_step_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("spawn")
    gate = Gate(context.RawValue("b", False), context.RawValue("b", False))
    opener = threading.Timer(0.2, setattr, (gate.is_open, "value", True))
    begun = time.monotonic()
    opener.start()
    gate.pass_through()
    assert time.monotonic() - begun >= 0.2
    assert gate.is_reached.value
    opener.join()
    gate.is_open.value = False
    monkeypatch.setattr(rollouts, "SIGN_OF_LIFE", 0.05)
    gate.pass_through()
