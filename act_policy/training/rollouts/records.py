"""RUN/rollouts: policies of a run that are evaluated in simulation, and their episodes so far.

step_00000500.ckpt is the policy of step 500, step_00000500.json what is known of it. The training
process writes a record before its evaluation and after it, the evaluating process in between.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from act_policy.errors import UserError, writing
from act_policy.intervals import wilson_interval
from act_policy.system.atomic import atomic_file, link_or_copy
from act_policy.training.rollouts.simulated_tasks import SimulatedTask
from act_policy.training.run.run_folder import BEST_SUCCESS, ROLLOUT_FOLDER


@dataclass(frozen=True)
class Record:
    """One policy of a run and its episodes in simulation.

    step: of training, after which the policy was as it is.
    weights: `hash_weights` of it: the same step of a resumed run has the same ones.
    seeds: of the initial states.
    max_steps: end of an episode; None is the environment's own.
    quality: of the images, fast or exact.
    tasks: among which the seeds are dealt out in turn.
    episodes: those that are finished, as seed, success and steps.
    failure: why there will be no more of them; None where nothing went wrong.
    logged: whether the loggers have the result.
    """

    step: int
    weights: str
    seeds: tuple[int, ...]
    max_steps: int | None
    quality: str
    tasks: tuple[SimulatedTask, ...] = (SimulatedTask(),)
    episodes: tuple[Mapping[str, Any], ...] = ()
    failure: str | None = None
    logged: bool = False

    @property
    def missing_seeds(self) -> list[int]:
        """Seeds whose episodes have not been finished."""
        finished = {episode["seed"] for episode in self.episodes}
        return [seed for seed in self.seeds if seed not in finished]

    @property
    def missing(self) -> list[tuple[int, SimulatedTask]]:
        """Seeds whose episodes have not been finished, and their tasks, one task after another."""
        count = len(self.tasks)
        places = [(self.seeds.index(seed) % count, seed) for seed in self.missing_seeds]
        return [(seed, self.tasks[place]) for place, seed in sorted(places)]

    @property
    def is_complete(self) -> bool:
        """Whether every episode is finished."""
        return not self.missing_seeds

    @property
    def is_open(self) -> bool:
        """Whether episodes are still to be run."""
        return self.failure is None and not self.is_complete

    @property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(bool(episode["success"]) for episode in self.episodes)

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the success rate."""
        return wilson_interval(self.successes, len(self.seeds))

    def add(self, seed: int, success: bool, steps: int) -> "Record":
        """Return the record with one more episode; one that it has already is replaced."""
        others = [episode for episode in self.episodes if episode["seed"] != seed]
        return replace(self, episodes=(*others, {"seed": seed, "success": success, "steps": steps}))

    def is_same_measurement(self, other: "Record") -> bool:
        """Whether the same policy is evaluated in the same way."""
        blank: dict[str, Any] = {"episodes": (), "failure": None, "logged": False}
        return replace(self, **blank) == replace(other, **blank)

    def __str__(self) -> str:
        count, (low, high) = len(self.seeds), self.interval
        return (
            f"{self.successes} of {count} succeeded ({self.successes / count:.0%}, 95% interval "
            f"{low:.0%} to {high:.0%})"
        )


def read_record(path: Path) -> Record:
    """Read what `write_record` wrote; UserError if it is something else."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        plain["seeds"], plain["episodes"] = tuple(plain["seeds"]), tuple(plain["episodes"])
        if "tasks" in plain:  # an older version knew of one
            plain["tasks"] = tuple(SimulatedTask(*task) for task in plain["tasks"])
        return Record(**plain)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} cannot be read ({error}); remove it") from None


def write_record(path: Path, record: Record) -> None:
    """Write a record, as a whole or not at all."""
    with writing(path), atomic_file(path) as file:
        file.write((json.dumps(asdict(record), indent=1) + "\n").encode())


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Hash every value of a state dict, in hexadecimal."""
    digest = hashlib.sha256()
    for name, value in weights.items():
        content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(name.encode())
        digest.update(content.numpy().data)
    return digest.hexdigest()


class RolloutFolder:
    """The records of a run, and the policies that they are about.

    run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self.folder = run / ROLLOUT_FOLDER
        self.best_success = run / "checkpoints" / BEST_SUCCESS

    def record_path(self, step: int) -> Path:
        """Return where the record of a step is."""
        return self.folder / f"step_{step:08}.json"

    def policy_path(self, step: int) -> Path:
        """Return where the policy of a step is, until it is known not to be the best."""
        return self.record_path(step).with_suffix(".ckpt")

    def read(self, last_step: int) -> list[Record]:
        """Read the records up to a step, in the order of their steps.

        Later ones are of steps that a killed run has still to train again.
        """
        records = [read_record(path) for path in sorted(self.folder.glob("step_*.json"))]
        return [record for record in records if record.step <= last_step]

    def propose(self, record: Record) -> Record:
        """Keep a record whose policy was written; episodes of the very same policy stay."""
        path = self.record_path(record.step)
        if path.is_file() and (before := read_record(path)).is_same_measurement(record):
            return before
        write_record(path, record)
        return record

    def drop(self, step: int) -> None:
        """Forget a policy."""
        self.record_path(step).unlink(missing_ok=True)
        self.policy_path(step).unlink(missing_ok=True)

    def keep_best(self, last_step: int) -> Record | None:
        """Make the best policy best_success.ckpt, and remove those that are worse.

        The best has the highest lower end of the 95% interval of its success rate, and is the
        latest of equals. With equal numbers of episodes this is the highest success rate; a policy
        that was evaluated in fewer does not win by luck alone.
        """
        closed = [record for record in self.read(last_step) if not record.is_open]
        able = [r for r in closed if r.is_complete and self.policy_path(r.step).is_file()]
        best = max(able, key=lambda record: (record.interval[0], record.step), default=None)
        if best is not None:
            with writing(self.best_success):
                link_or_copy(self.policy_path(best.step), self.best_success)
        for record in closed:
            if record is not best:
                self.policy_path(record.step).unlink(missing_ok=True)
        return best
