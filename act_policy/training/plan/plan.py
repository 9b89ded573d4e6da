"""A plan as a value, and as the table that a person reads before training begins."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from act_policy.training.plan.facts import DataFacts, MachineFacts, Workload


class Choice(NamedTuple):
    """One line of a plan.

    name: what was chosen.
    value: the choice.
    shown: the choice in words.
    reason: why.
    change: the setting that changes it.
    settings: key -> value, what the run is to be trained with; empty where the user chose.
    """

    name: str
    value: Any
    shown: str
    reason: str
    change: str
    settings: Mapping[str, Any] = {}  # never changed


@dataclass(frozen=True)
class Plan:
    """Every choice, and the time and disk that they take.

    choices: in the order in which they are shown.
    workload: what a training step computes.
    steps: of training.
    step_seconds: of one of them.
    cache_seconds, cache_bytes: to decode the images that are not in the cache yet, and to keep
        them; 0 without a cache.
    budget_seconds: time for all of it; None without a limit.
    """

    choices: tuple[Choice, ...]
    workload: Workload
    steps: int
    step_seconds: float
    cache_seconds: float
    cache_bytes: int
    budget_seconds: float | None

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting that the plan decides: key -> value."""
        return {key: value for one in self.choices for key, value in one.settings.items()}

    @property
    def training_seconds(self) -> float:
        """Of all steps, without held-out losses and checkpoints."""
        return self.steps * self.step_seconds

    def __getitem__(self, name: str) -> Choice:
        """Return the choice of this name."""
        return next(choice for choice in self.choices if choice.name == name)


def show_plan(
    plan: Plan, data: DataFacts, machine: MachineFacts, where: str, run_bytes: int = 0
) -> str:
    """Lay out a plan: the facts, a line per choice with its setting and reason, time and disk.

    where: the demonstrations.
    run_bytes: of the checkpoints that the run keeps.
    """
    cameras = ", ".join(f"{c.name} {c.height}x{c.width}" for c in data.cameras)
    lines = [
        f"plan for {where}",
        f"  {_count(len(data.lengths), 'demonstration')}, {show_seconds(data.frames / data.rate)} "
        f"in all at {data.rate:g} steps a second; {cameras}; {data.state_size} state and "
        f"{data.action_size} action dimensions",
        "",
    ]
    names = max(len(choice.name) for choice in plan.choices)
    values = max(len(choice.shown) for choice in plan.choices)
    settings = max(len(choice.change) for choice in plan.choices)
    for choice in plan.choices:
        what = f"  {choice.name:<{names}}  {choice.shown:<{values}}"
        lines.append(f"{what}  {choice.change:<{settings}}  {choice.reason}")
    time = f"about {show_seconds(plan.training_seconds)} of training"
    disk = f"about {max(run_bytes / 1e9, 0.1):.1f} GB for the run"
    if plan.cache_seconds:
        time += f" after {show_seconds(plan.cache_seconds)} of decoding"
    if plan.cache_bytes:
        disk = f"{show_bytes(plan.cache_bytes)} in {machine.cache}, {disk}"
    if plan.budget_seconds is not None:
        time += f"; the budget is {show_seconds(plan.budget_seconds)}"
    lines += ["", f"  time: {time}", f"  disk: {disk}; {show_bytes(machine.free_disk)} are free"]
    return "\n".join(lines)


def show_seconds(seconds: float) -> str:
    """Write a time for a person: "40 s", "12 min" or "3 h 20 min"."""
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def show_bytes(size: int) -> str:
    """Write a size for a person: "30 MB" or "3.7 GB"."""
    return f"{max(size / 1e6, 1):.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
