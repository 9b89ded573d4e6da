"""The time of a step is compared with the planned one, once; lines tell the time that is left."""

import io
import re
import sys
from pathlib import Path

import pytest

from act_policy.errors import UserError
from act_policy.training.callbacks.planned_time import PlannedTime
from act_policy.training.callbacks.progress import Progress
from act_policy.training.run.resume import steps_within
from tests.training.training_for_tests import run_training


@pytest.mark.parametrize(
    ("planned", "minutes", "words"),
    [
        (1e-9, None, "are other programs busy.*: training will take 10 s, not 1 s"),
        (1e-9, 0.1, "there is time for about 6 of 10 steps; training ends in time"),
        (1e9, None, "training will take .*, not .*; afterwards, resume=RUN"),
        (None, None, ""),
    ],
)
def test_a_step_that_takes_another_time_is_reported_once(
    demonstrations: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    planned: float | None,
    minutes: float | None,
    words: str,
) -> None:
    clock = iter(range(10**6))
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    own = PlannedTime(
        1.0 if planned is None else planned, patience=3.0, clock=lambda: float(next(clock))
    )  # whose clock ticks once a step
    run_training(demonstrations, tmp_path, callbacks=[own], max_minutes=minutes)
    told = [line for line in stream.getvalue().splitlines() if "as planned" in line]
    if planned is None:
        assert told == []
        return
    (line,) = told
    assert re.search(words, line)
    assert ("other programs" in line) == (planned < 1)


def test_lines_tell_the_time_that_is_left(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    run_training(demonstrations, tmp_path, callbacks=[Progress(line_seconds=0.0)])
    lines = stream.getvalue().splitlines()
    assert re.search(r"train \d\.\d+  \d+ s left$", lines[0])
    assert lines[-1].endswith(" 0 s left")


def test_a_larger_budget_moves_the_end(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path, max_steps=4, validate_every=2)
    checkpoint = run.checkpoints / "last.ckpt"
    minutes = run.training.minutes
    assert steps_within(checkpoint, 3 * minutes) == pytest.approx(12, abs=1)
    with pytest.raises(UserError, match=r"has \d+\.\d minutes of training already"):
        steps_within(checkpoint, minutes / 2)
