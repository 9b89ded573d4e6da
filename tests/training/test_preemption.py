"""Signals of a scheduler, kills, and runs that go on as if nothing had happened."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning
import pytest

from act_policy.system.stop_signals import STOP_SIGNALS, StoppedBySignal, stopped_by_signals
from tests.paths import ROOT
from tests.training.killed_runs import differences, result
from tests.training.training_for_tests import run_training


@pytest.fixture(autouse=True)
def heeded_signals() -> Iterator[None]:
    """A job in the background of a script ignores SIGINT, and so does what it starts."""
    before = {each: signal.signal(each, signal.SIG_DFL) for each in STOP_SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize("stop_at", [3, 5])  # five is the step of the first held-out loss
def test_a_run_that_was_asked_to_stop_goes_on_as_if_it_had_not_been(
    demonstrations: Path, tmp_path: Path, number: signal.Signals, stop_at: int
) -> None:
    if number != signal.SIGTERM and stop_at == 5:
        pytest.skip("once is enough")

    class Send(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step == stop_at - 1:
                signal.raise_signal(number)
                # the second one does not ask
                assert {signal.getsignal(each) for each in STOP_SIGNALS} == {signal.SIG_DFL}

    run_training(demonstrations, tmp_path / "straight")
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    with pytest.raises(StoppedBySignal, match=f"after step {stop_at}; go on with resume="):
        run_training(demonstrations, tmp_path / "run", callbacks=[Send()])
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before
    assert (tmp_path / "run" / "checkpoints" / "best.ckpt").is_file()  # to look at what there is
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    run_training(demonstrations, tmp_path / "run", checkpoint=last)
    assert not differences(result(tmp_path / "straight"), result(tmp_path / "run"))


def test_a_signal_before_the_first_step_ends_with_the_same_exit_code() -> None:
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    with pytest.raises(StoppedBySignal, match="same command") as stopped, stopped_by_signals():
        signal.raise_signal(signal.SIGUSR1)
    assert stopped.value.exit_code == 75
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("processes", [1, 2])
def test_interrupted_at_random_moments(tmp_path: Path, end: str, processes: int) -> None:
    command = [sys.executable, "-m", "tests.training.killed_runs", end, "20", str(processes), "0"]
    done = subprocess.run(
        [*command, str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "each equal to the uninterrupted one" in done.stdout
