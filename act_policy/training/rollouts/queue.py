"""Which policy of a run is evaluated next, and what becomes of the results."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

from lightning.pytorch.loggers.logger import Logger
from tqdm import tqdm

from act_policy.report.pieces import format_count
from act_policy.training.rollouts.bounded_share import BoundedShare
from act_policy.training.rollouts.evaluator import Evaluator
from act_policy.training.rollouts.records import (
    Record,
    RolloutFolder,
    read_record,
    write_record,
)
from act_policy.training.rollouts.simulated_tasks import SimulatedTask
from act_policy.training.run.metrics_file import MetricsFile

FIRST_SEED = 70_000
"""Of the initial states: neither those of `evaluate` nor those of `tune`."""
POLITE = 10
"""Niceness of the process: Linux gives it a tenth of a core that training wants, too."""
ATTEMPTS = 3
"""Times that the process may die at one policy before the policy is given up."""


@dataclass(frozen=True)
class RolloutConfig:
    """How policies are evaluated while training goes on.

    command: of the evaluating process, see `Evaluator`.
    seeds: of the initial states, the same for every policy.
    max_steps: end of an episode; None is the environment's own.
    quality: of the images, fast or exact.
    tasks: among which the seeds are dealt out in turn.
    """

    command: tuple[str, ...]
    seeds: tuple[int, ...]
    max_steps: int | None
    quality: str
    tasks: tuple[SimulatedTask, ...] = (SimulatedTask(),)


def choose_seeds(number: int, demonstrated: Sequence[int]) -> tuple[int, ...]:
    """Return seeds of initial states that nobody demonstrated."""
    shown = set(demonstrated)
    return tuple(islice((seed for seed in count(FIRST_SEED) if seed not in shown), number))


class RolloutQueue:
    """Evaluates the policies of a run one after the other, in a process beside training.

    One policy is under way and one waits. Where a third comes, the waiting one is left out.

    Args:
        run: the run folder.
        config: how policies are evaluated.
        loggers: get the success rate of each policy, in the row of its step.
    """

    def __init__(self, run: Path, config: RolloutConfig, loggers: Iterable[Logger]) -> None:
        self.folder = RolloutFolder(run)
        self.config = config
        self.share = BoundedShare()
        self.left_out = 0
        """Policies that waited when a later one came."""
        self._loggers = list(loggers)
        self._evaluator = Evaluator(config.command)
        self._under_way: Record | None = None
        self._deaths = 0
        self._open: list[Record] = []

    def go_on(self, step: int) -> None:
        """Take up what a run that is resumed after this step has left."""
        records = self.folder.read(step)
        self._open = [record for record in records if record.is_open]
        for record in records:
            if not record.is_open and not record.logged:  # its process ended after a kill
                self._close(record, step)
            elif record.is_complete:
                self._log(record)
        self.folder.keep_best(step)

    def add(self, step: int, weights: str) -> None:
        """Let the policy of a step, which has been written, be evaluated."""
        config = self.config
        record = self.folder.propose(
            Record(step, weights, config.seeds, config.max_steps, config.quality, config.tasks)
        )
        if not record.is_open:  # trained again after a kill, and evaluated before
            self._close(record, step)
            return
        others = [each for each in self._open if each.step != step]
        begun = [each for each in others if each.episodes or each == self._under_way]
        for each in others:
            if each not in begun:
                self.folder.drop(each.step)
                self.left_out += 1
        self._open = [*begun, record]

    def attend(self, step: int) -> None:
        """After a training step: take results, start the process, let it run or rest."""
        if self._under_way is not None:
            if not self._evaluator.is_running:
                self._finish(step)
                self.share.let_run(False)
                return
            runs = not self._evaluator.can_rest or self.share.may_run()
            self._evaluator.let_run(runs)
            self.share.let_run(runs)
        elif self._open and self.share.may_start():
            self._start(POLITE)
            self.share.let_run(True)

    def evaluate_rest(self, step: int) -> None:
        """Evaluate what is still to be evaluated, now that training does not need the machine."""
        self.stop()
        if self._open:
            steps = " and ".join(str(record.step) for record in self._open)
            _say(f"the policy of step {steps} is evaluated in simulation before training ends")
        while self._open:
            self._start(0)
            self._evaluator.wait()
            self._finish(step)

    def stop(self) -> None:
        """End the process; what it has not finished is gone on with when the run is resumed."""
        self._evaluator.end()
        self._under_way = None

    def describe(self, step: int) -> str:
        """Say what was evaluated, which policy is the best, and what it cost."""
        closed = [record for record in self.folder.read(step) if record.is_complete]
        episodes = format_count(len(self.config.seeds), "episode")
        text = f"rollouts: {len(closed)} of the run's policies in {episodes} each"
        if (tasks := len(self.config.tasks)) > 1:
            text += f", dealt out among {tasks} tasks"
        if best := self.folder.keep_best(step):
            text += f"; best_success.ckpt is that of step {best.step}: {best}"
        if self.left_out:
            text += (
                f"; {self.left_out} left out, because others were still being evaluated (a larger "
                "rollout_every= or fewer rollout_episodes= helps)"
            )
        return f"{text}; {self.share.describe()}"

    def _start(self, niceness: int) -> None:
        self._under_way = self._open[0]
        self._evaluator.start(self.folder.record_path(self._under_way.step), niceness)

    def _finish(self, step: int) -> None:
        """Look at what the process has left."""
        assert self._under_way is not None
        before, self._under_way = self._under_way, None
        self._evaluator.end()
        record = read_record(self.folder.record_path(before.step))
        if record.is_open:
            self._deaths += 1
            if self._deaths < ATTEMPTS:
                return
            record = replace(record, failure=f"the process died {ATTEMPTS} times")
        self._deaths = 0
        self._open.remove(before)
        self._close(record, step)

    def _close(self, record: Record, step: int) -> None:
        """Log a result, and keep the policy if it is the best."""
        if record.is_complete:
            self._log(record)
        elif not record.logged:
            _say(f"warning: step {record.step} could not be evaluated: {record.failure}")
        write_record(self.folder.record_path(record.step), replace(record, logged=True))
        best = self.folder.keep_best(step)
        if record.is_complete and not record.logged:
            is_best = best is not None and best.step == record.step
            _say(f"step {record.step} in simulation: {record}" + ", the best so far" * is_best)

    def _log(self, record: Record) -> None:
        low, high = record.interval
        values = {
            "success_rate": record.successes / len(record.seeds),
            "success_low": low,
            "success_high": high,
        }
        for logger in self._loggers:
            # a resumed run's file may lack the value, and has it once; others have it already
            if isinstance(logger, MetricsFile) or not record.logged:
                logger.log_metrics(values, record.step)


def _say(text: str) -> None:
    """Print a line between those of a bar."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
