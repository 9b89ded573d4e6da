"""Parallel jobs: order, and what is said when a process fails, dies or hangs."""

import os
import time
from functools import partial
from pathlib import Path

import pytest

from act_policy import UserError
from act_policy.system.processes import WorkerError, run_jobs
from tests.evaluation.evaluation_for_tests import make_job


def test_results_come_in_the_order_of_the_jobs() -> None:
    done: list[tuple[int, int]] = []
    results = run_jobs(
        partial(make_job, ""), range(5), workers=2, on_result=lambda job, r: done.append((job, r))
    )
    assert results == [0, 1, 4, 9, 16]
    assert sorted(done) == list(enumerate(results))


def test_no_job_needs_no_process() -> None:
    assert run_jobs(partial(make_job, "no start"), [], workers=2) == []


def test_each_process_computes_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert run_jobs(partial(make_job, "threads"), [0], workers=1) == [1]
    assert os.environ["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize("kind", ["no start", "bad input"])
def test_the_users_mistake_keeps_its_message(kind: str) -> None:
    with pytest.raises(UserError, match=r"^(nothing to start with|file x: broken)$"):
        run_jobs(partial(make_job, kind), range(4), workers=1)


def test_a_bug_is_reported_with_its_job_and_traceback() -> None:
    found = r"(?s)failed at 2:.*do_job.*KeyError: 'somewhere deep'"
    with pytest.raises(WorkerError, match=found) as error:
        run_jobs(partial(make_job, "bug"), range(4), workers=2)
    assert error.value.how == "failed: KeyError: 'somewhere deep'"


def test_a_crash_is_reported_with_its_job() -> None:
    with pytest.raises(WorkerError, match="died at 2: exit code 7"):
        run_jobs(partial(make_job, "crash"), range(4), workers=2)


def test_a_stuck_process_is_ended_by_the_watchdog() -> None:
    began = time.monotonic()
    with pytest.raises(WorkerError, match=r"hung at 2: no sign of life for \d s, so"):
        run_jobs(partial(make_job, "hang"), range(4), workers=2, stuck_seconds=4.0)
    assert time.monotonic() - began < 50  # twice; it would have slept for a minute


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("crash", "died: exit code 7"),
        ("bug", "failed: KeyError: 'somewhere deep'"),
        pytest.param("hang", "hung: no sign of life for 4 s", marks=pytest.mark.slow),
    ],
)
def test_what_ends_a_process_once_is_done_again_and_named(
    kind: str, how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    marked: list[tuple[int, str]] = []
    results = run_jobs(
        partial(make_job, kind, tmp_path / "done"),
        range(5),
        workers=2,
        stuck_seconds=4.0,
        mark_rerun=lambda result, why: (marked.append((result, why)), result)[1],
    )
    assert results == [0, 1, 4, 9, 16]
    assert marked == [(4, how)]
    assert "at 2" in capfd.readouterr().err


@pytest.mark.slow
def test_a_process_that_has_done_its_share_is_not_taken_for_stuck() -> None:
    assert run_jobs(partial(make_job, "long"), [2, 1], workers=2, stuck_seconds=2.5) == [4, 1]


@pytest.mark.slow
def test_a_long_job_that_shows_life_is_left_alone() -> None:
    assert run_jobs(partial(make_job, "long"), [2], workers=1, stuck_seconds=2.5) == [4]
