"""Training that is killed or asked to stop at random moments, and goes on until it is finished.

    python -m tests.training.killed_runs END COUNT PROCESSES WORKERS FOLDER [SEED]

END is kill or stop: SIGKILL, or one of the signals that ask training to stop. Every process is a
copy of this one, which has loaded everything and computed nothing; several find each other as tasks
of SLURM do. Each life is the same command with resume=auto; a run that is finished is compared with
one that was never interrupted, to the bit, and the next one begins.
"""

import csv
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from act_policy.cli import commands, entry, train  # noqa: F401
from act_policy.training.engine.launch import end_when_orphaned
from tests.training.several_processes import PATIENCE, free_port, srun_environment
from tests.training.training_for_tests import write_demonstrations

STOP = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
NOTICE = 20.0  # seconds in which processes notice that one of them has ended
CLOCK = ("minutes", "samples_per_second")  # columns that are not functions of the step


class Life:
    """One start of the command, in one process or several."""

    def __init__(self, processes: int, arguments: list[str], log: Path) -> None:
        port = free_port()
        self.log = log
        self.children = [self._start(rank, processes, port, arguments) for rank in range(processes)]
        self.codes: dict[int, int] = {}
        self.began = time.monotonic()

    def _start(self, rank: int, processes: int, port: int, arguments: list[str]) -> int:
        if child := os.fork():
            return child
        code: Any = 1
        try:
            with self.log.open("w" if rank == 0 else "a") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            end_when_orphaned()
            if processes > 1:
                os.environ |= srun_environment(rank, processes, port)
            commands.run("train", arguments)
        except SystemExit as end:
            code = end.code
        finally:
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)

    def is_over(self) -> bool:
        for child in self.children:
            if child not in self.codes:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    self.codes[child] = os.waitstatus_to_exitcode(status)
        return len(self.codes) == len(self.children)

    def wait(self, seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while not self.is_over() and time.monotonic() < limit:
            time.sleep(0.005)
        return self.is_over()

    def send(self, number: int, everyone: bool) -> None:
        """Signal every process, or one: the others must notice."""
        running = [child for child in self.children if child not in self.codes]
        for child in running if everyone else random.sample(running, min(1, len(running))):
            os.kill(child, number)

    def end_codes(self) -> list[int]:
        if not self.wait(PATIENCE):
            self.send(signal.SIGKILL, everyone=True)
            raise AssertionError(f"does not end: {self.log.read_text()}")
        return [self.codes[child] for child in self.children]


def result(run: Path) -> dict[str, Any]:
    """Everything of a finished run that must not depend on its interruptions."""
    found: dict[str, Any] = {}
    for name in ("last", "best"):
        saved = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
        for key in ("global_step", "epoch", "state_dict", "optimizer_states", "callbacks"):
            found[f"{name} {key}"] = saved[key]
    with (run / "metrics.csv").open() as file:
        found["rows"] = [
            {name: value for name, value in row.items() if name not in CLOCK}
            for row in csv.DictReader(file)
        ]
    return found


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two results differ, to the bit."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [where]
    if isinstance(one, dict) and one.keys() == other.keys():
        return [d for key in one for d in differences(one[key], other[key], f"{where} {key}")]
    if isinstance(one, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [d for number, pair in pairs for d in differences(*pair, f"{where} {number}")]
    return [] if one == other else [f"{where}: {one!r} and {other!r}"]


def saved_step(run: Path) -> int:
    """The step of the last checkpoint, which can be read; -1 before the first."""
    paths = (run / "checkpoints").glob("[a-z]*.ckpt")
    saved = [torch.load(path, weights_only=True) for path in paths]
    return max([int(each["global_step"]) for each in saved], default=-1)


def main(end: str, count: int, processes: int, workers: int, folder: Path, seed: int) -> None:
    random.seed(seed)
    demonstrations = write_demonstrations(folder / "demonstrations")
    run, log = folder / "straight", folder / "log.txt"

    def start() -> Life:
        arguments = ["experiment=tiny", f"data.path={demonstrations}", f"out={run}", "resume=auto"]
        arguments += ["max_steps=60", "validate_every=4", "log_every=3", f"data.workers={workers}"]
        return Life(processes, arguments, log)

    life = start()
    assert set(life.end_codes()) == {0}, log.read_text()
    straight, longest = result(run), time.monotonic() - life.began
    sent = finished = before = 0
    step, is_done = -1, True
    while sent < count or not is_done:
        if is_done:
            run, step = folder / f"run{finished + 1}", -1
        life = start()
        if sent < count and not life.wait(random.uniform(0, longest)):
            sent += 1
            number = random.choice(STOP) if end == "stop" else signal.SIGKILL
            life.send(number, everyone=random.random() < 0.5)
            if not life.wait(NOTICE):  # it waits for a process that ended before they had met
                life.send(number, everyone=True)
        codes = life.end_codes()
        now = saved_step(run)
        assert now >= step, f"step {step} was saved, now {now} is"
        step, is_done = now, codes[0] == 0
        if end == "stop":
            # the second signal of its kind, if it had to be sent, ends at once
            allowed = [0, 75] + [-each for each in STOP if processes > 1]
            assert codes[0] in allowed, (codes, log.read_text())
        before += now < 0
        if is_done:
            assert not differences(straight, result(run)), differences(straight, result(run))[:5]
            finished += 1
    print(
        f"{sent} signals, {before} of them before the first checkpoint of a run; {finished} runs "
        f"finished, each equal to the uninterrupted one ({longest:.1f} s)"
    )


if __name__ == "__main__":
    end, count, processes, workers, folder, *seed = sys.argv[1:]
    main(end, int(count), int(processes), int(workers), Path(folder), int(*seed or ["0"]))
