"""Run jobs in parallel processes under a watchdog, for simulators that may hang or crash."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from act_policy.errors import UserError

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

Handler = Callable[[JobT, Callable[[], None]], ResultT]
"""Does one job; calls its second argument regularly as a sign of life."""

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "LP_NUM_THREADS": "0",  # Mesa's software renderer: no thread but the caller's
}

_START_SECONDS = 600.0
"""Patience with a process that starts: its imports may take minutes on an overloaded machine."""


class WorkerError(RuntimeError):
    """A worker process failed, died or hung.

    how: one of these words and the cause, without the job.
    """

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


def usable_cores() -> int:
    """Return how many processes can really run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    make_handler: Callable[[], Handler[JobT, ResultT]],
    jobs: Sequence[JobT],
    workers: int,
    stuck_seconds: float = 180.0,
    on_result: Callable[[JobT, ResultT], Iterable[JobT] | None] = lambda job, result: None,
    mark_rerun: Callable[[ResultT, str], ResultT] = lambda result, why: result,
) -> list[ResultT]:
    """Do every job in one of `workers` fresh processes; return results in the jobs' order.

    Each process calls `make_handler` once (it must be picklable) and computes on one thread, so
    results do not depend on the number of workers. on_result may return further jobs; they and
    their results are appended.

    A process that fails, dies or hangs at a job is ended, and the job is done once more in a new
    process. mark_rerun then notes in its result why; a job must be able to bear the repetition.

    Raises:
        UserError: raised by the handler, passed on unchanged.
        WorkerError: a worker raised anything else at the same job twice, died or gave no sign for
            `stuck_seconds`, or could not start.
    """
    results: dict[int, ResultT] = {}
    again: dict[int, str] = {}  # jobs that ended a process, and how
    jobs = list(jobs)
    waiting = deque(range(len(jobs)))
    live: list[_Worker[JobT]] = []

    def start() -> _Worker[JobT]:
        with _limit_threads(), _ignore_interrupts():
            return _Worker(make_handler)

    try:
        live.extend(start() for _ in range(min(workers, len(jobs))))
        while len(results) < len(jobs):
            ready = wait([worker.connection for worker in live], timeout=0.5)
            for position, worker in enumerate(live):
                try:
                    if worker.connection not in ready:
                        if not worker.is_idle:
                            worker.check_alive(stuck_seconds)
                        continue
                    kind, value = worker.receive()
                except WorkerError as error:
                    if worker.index < 0 or worker.index in results or worker.index in again:
                        raise
                    again[worker.index] = error.how
                    print(f"warning: {error}\nIt is done once more.", file=sys.stderr)
                    worker.end()
                    waiting.appendleft(worker.index)
                    live[position] = start()
                    continue
                if kind == "done":
                    index = worker.index
                    if index in again:
                        value = mark_rerun(value, again[index])
                    results[index] = value
                    for job in on_result(jobs[index], value) or ():
                        waiting.append(len(jobs))
                        jobs.append(job)
                worker.is_idle = worker.is_idle or kind != "alive"
            for worker in live:
                if worker.is_idle and waiting:
                    index = waiting.popleft()
                    worker.give(index, jobs[index])
    finally:
        for worker in live:
            worker.end()
    return [results[index] for index in range(len(jobs))]


class _Worker(Generic[JobT]):
    """One process, seen from the parent."""

    def __init__(self, make_handler: Callable[[], Handler[JobT, Any]]):
        context = multiprocessing.get_context("spawn")  # a GL context and torch do not survive fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, make_handler), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe ends when the worker dies
        self.index = -1
        self.doing = "while starting"
        self.is_idle = False
        self.heard_at = time.monotonic()

    def give(self, index: int, job: JobT) -> None:
        self.index, self.doing, self.is_idle = index, f"at {job}", False
        self.heard_at = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` finds that it has died
            self.connection.send(job)

    def receive(self) -> tuple[str, Any]:
        try:
            kind, value = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(5)
            cause = _cause(self.process.exitcode)
            raise WorkerError(
                f"a worker process died {self.doing}: {cause}", f"died: {cause}"
            ) from None
        if kind == "refused":
            raise UserError(value)
        if kind == "failed":
            cause = value.strip().splitlines()[-1]
            raise WorkerError(f"a worker process failed {self.doing}:\n{value}", f"failed: {cause}")
        self.heard_at = time.monotonic()
        return kind, value

    def check_alive(self, stuck_seconds: float) -> None:
        limit = stuck_seconds if self.index >= 0 else max(stuck_seconds, _START_SECONDS)
        if (silent := time.monotonic() - self.heard_at) > limit:
            backend = os.environ.get("MUJOCO_GL", "unset")
            raise WorkerError(
                f"a worker process (pid {self.process.pid}) hung {self.doing}: no sign of life for "
                f"{silent:.0f} s, so it was ended. If it was rendering, another backend may work: "
                f"set MUJOCO_GL to egl, osmesa or glfw (now {backend})",
                f"hung: no sign of life for {limit:.0f} s",
            )

    def end(self) -> None:
        self.connection.close()
        self.process.kill()  # it holds nothing that needs cleaning up
        self.process.join()


def _work(connection: Connection, make_handler: Callable[[], Handler[Any, Any]]) -> None:
    """Receive jobs and send results in a worker process until the parent closes the pipe."""
    end_with_parent()
    said_at = time.monotonic()

    def alive() -> None:
        nonlocal said_at
        if time.monotonic() - said_at > 1.0:
            said_at = time.monotonic()
            connection.send(("alive", None))

    try:
        handle = make_handler()
        connection.send(("ready", None))
        while True:
            connection.send(("done", handle(connection.recv(), alive)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent has ended
    except UserError as error:
        connection.send(("refused", str(error)))
    except BaseException:
        connection.send(("failed", traceback.format_exc()))


def end_with_parent() -> None:
    """End this worker when its parent process ends, even if a fork server started the worker.

    A worker whose parent was killed must not keep writing alongside the next run's workers, nor
    hold the parent's pipes open.
    """

    def exit_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def _limit_threads() -> Iterator[None]:
    """Give numeric libraries in child processes one thread, through the environment."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Let child processes ignore Ctrl-C, which reaches them too but is handled by the parent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cause(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = "; out of memory?" if name == "SIGKILL" else ""
        return f"ended by {name}{hint}"
    return f"exit code {exit_code}"
