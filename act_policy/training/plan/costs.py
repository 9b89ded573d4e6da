"""The rules for time and disk: the budget, where decoded images are, how many steps there are."""

import math
import re
from typing import Any, NamedTuple

from act_policy.errors import UserError
from act_policy.training.plan.choices import BY_HAND
from act_policy.training.plan.facts import (
    ByHand,
    DataFacts,
    MachineFacts,
    Measured,
    Sizes,
    Workload,
)
from act_policy.training.plan.plan import Choice, show_bytes, show_seconds

CPU_BUDGET, NO_BUDGET = "1h", "none"
USED_FOR_STEPS = 0.9
"""Share of the time after decoding; the rest is for starting, held-out losses and checkpoints."""

LARGEST_CACHE, SHARE_OF_DISK, SHARE_OF_BUDGET = 20e9, 0.1, 0.25
"""Images are decoded while training if keeping them took more bytes, free disk or time."""
BLOCK = 4096
"""Bytes of which a file system keeps all or none: beside each JPEG as many are lost, about."""
MOST_WORKERS = 8
"""Each keeps up to a quarter of a gigabyte of decoded images."""

LEAST_SAMPLES, MOST_SAMPLES, MOST_PASSES = 64_000, 1_280_000, 100
"""Shown in a schedule however few or many demonstrations there are, and of each of their steps.
The least gave 94 of 100 cubes handed over; the others are not measured."""

CPU_SECONDS_PER_PIXEL, GPU_SECONDS_PER_PIXEL = 1e-6, 1e-8
"""Of training, per core and per GPU: a guess for the first draft, before a step is measured."""


def choose_budget(machine: MachineFacts, by_hand: ByHand) -> Choice:
    """Choose the time for all of it, in seconds, by which sizes and steps are chosen.

    None is without a limit. It also ends training, unless the user gave a number of steps alone.
    """
    name, change = "budget", "budget=30m"
    given = by_hand.get("budget")
    if given is None and (minutes := by_hand.get("max_minutes")) is not None:
        given = f"{minutes}m"
    if given is not None:
        seconds = parse_time("budget", given)
        return Choice(name, seconds, show_seconds(seconds), BY_HAND, change)
    if machine.gpu:
        return Choice(name, None, NO_BUDGET, "a GPU trains for as many steps as are enough", change)
    seconds = parse_time("budget", CPU_BUDGET)
    if by_hand.get("max_steps") is not None:
        return Choice(name, seconds, NO_BUDGET, "you set the number of steps", change)
    settings = {"budget": CPU_BUDGET}
    reason = "for decoding and training together; the default on a CPU"
    return Choice(name, seconds, show_seconds(seconds), reason, change, settings)


class Decoding(NamedTuple):
    """What it still takes until every image is in a cache."""

    seconds: float = 0.0
    bytes: int = 0


def choose_cache(
    data: DataFacts, machine: MachineFacts, by_hand: ByHand, sizes: Sizes, budget: float | None
) -> Choice:
    """Choose whether all images are decoded once and kept, as `Decoding`.

    None decodes them while training.
    """
    name, change = "decoding", "data.cache=null or FOLDER"
    workers = min(max(machine.cores - 1, 1) if machine.gpu else machine.cores, MOST_WORKERS)
    settings: dict[str, Any] = {"data.cache": None, "data.workers": workers}
    shown = f"while training, {workers} {'worker' if workers == 1 else 'workers'}"
    while_training = Choice(name, None, shown, BY_HAND, "data.cache=auto or FOLDER", settings)
    if by_hand.has("data.cache") and by_hand.get("data.cache") is None:
        return while_training
    if data.read_raw and sizes == tuple((c.height, c.width) for c in data.cameras):
        settings = {"data.cache": "auto", "data.cache_format": "raw", "data.workers": 0}
        reason = "the files hold the images raw"
        return Choice(name, Decoding(), "not needed", reason, change, settings)
    raw, compact = (_Cache(data, machine, sizes, kind) for kind in ("raw", "jpeg"))
    # a GPU does not wait for what several workers decode, and a CPU takes much longer itself
    compact_workers = workers if machine.gpu else 0
    if by_hand.has("data.cache") or by_hand.has("data.cache_format"):
        if by_hand.get("data.cache_format") == "jpeg":
            return compact.keep(BY_HAND, "data.cache_format=raw", compact_workers)
        return raw.keep(BY_HAND, change)
    if by_hand.get("data.undecodable") == "skip":
        reason = "to find the images that data.undecodable=skip leaves out"
        return raw.keep(reason, change)
    if (refused := raw.refuse(machine.free_disk, budget)) is None:
        return raw.keep("into a cache at this size, which later runs use too", change)
    if compact.refuse(machine.free_disk, budget) is None:
        reason = f"{refused}; as JPEG, values are off by {data.jpeg_error:.1g} of 255"
        return compact.keep(reason, "data.cache_format=raw", compact_workers)
    return while_training._replace(reason=refused)


class _Cache:
    """A cache of all images at some sizes, in one format: "raw" or "jpeg"."""

    def __init__(
        self, data: DataFacts, machine: MachineFacts, sizes: Sizes, cache_format: str
    ) -> None:
        self._format = cache_format
        self._missing = machine.missing(sizes, cache_format)
        raw = data.frames * sum(height * width * 3 for height, width in sizes)
        self._size = compact_size(data, sizes) if cache_format == "jpeg" else raw
        images = self._missing.images * data.frames * len(sizes)
        seconds = images * data.decoding_seconds / machine.cores
        self._decoding = Decoding(seconds, int(self._missing.space * self._size))

    def refuse(self, free_disk: int, budget: float | None) -> str | None:
        """Say why decoding what is missing takes too much; None if it does not."""
        seconds, need = self._decoding
        if budget is not None and seconds > budget * SHARE_OF_BUDGET:
            return f"decoding first would take {show_seconds(seconds)}, too much of the budget"
        if need > (most := int(min(LARGEST_CACHE, free_disk * SHARE_OF_DISK))):
            whose = " (a tenth of the free disk)" if most < LARGEST_CACHE else ""
            return (
                f"a cache would take {show_bytes(need)}, more than the {show_bytes(most)}{whose} "
                "that are taken unasked"
            )
        return None

    def keep(self, reason: str, change: str, workers: int = 0) -> Choice:
        """Choose this cache, and say how much of it is there already."""
        when = "once"
        if (missing := self._missing.images) < 1:
            there = f"{math.floor(100 * (1 - missing))}% of the images are there already"
            if missing == 0:
                when, there = "done", "all images are there already, from an earlier run"
            reason = f"{BY_HAND}; {there}" if reason == BY_HAND else there
        settings: dict[str, Any] = {"data.cache": "auto", "data.cache_format": self._format}
        return Choice(
            "decoding",
            self._decoding,
            f"{when}, {'as JPEG, ' * (self._format == 'jpeg')}{show_bytes(self._size)}",
            reason,
            change,
            settings | {"data.workers": workers},
        )


def compact_size(data: DataFacts, sizes: Sizes) -> int:
    """Return the bytes that all images take as JPEG."""
    each = (data.jpeg_bytes * height * width + BLOCK for height, width in sizes)
    return int(data.frames * sum(each))


def choose_steps(
    data: DataFacts,
    by_hand: ByHand,
    held_out: int,
    batch: int,
    affordable_samples: float,
    step_seconds: float,
) -> Choice:
    """Choose how long to train."""
    name, change = "steps", "max_steps=N"
    wanted = enough_samples(data, held_out)
    steps = max(int(min(wanted, affordable_samples) / batch), 1)
    steps = steps // 10 * 10 or steps
    reason = "the most passes over the demonstrations that are planned"
    if wanted == LEAST_SAMPLES:
        reason = "the fewest that are planned where there is time"
    if wanted == MOST_SAMPLES:
        reason = "the most that are planned; more may be better"
    if affordable_samples < wanted:
        reason = f"what the budget allows: a step takes {step_seconds:.2g} s here"
    if (given := by_hand.get("max_steps")) is not None:
        steps, reason = given, BY_HAND
    passes = steps * batch / max(_count_shown(data, held_out), 1)
    shown = f"{steps:,}, {passes:.0f} passes" if passes > 5 else f"{steps:,}, {passes:.1f} passes"
    return Choice(name, steps, shown, reason, change, {"max_steps": steps})


def enough_samples(data: DataFacts, held_out: int) -> int:
    """Return how many samples are enough for so many demonstrations, some of them held out."""
    return min(max(MOST_PASSES * _count_shown(data, held_out), LEAST_SAMPLES), MOST_SAMPLES)


def _count_shown(data: DataFacts, held_out: int) -> int:
    """Count the steps that are trained on, about."""
    return round(data.frames * (1 - held_out / len(data.lengths)))


def estimate_step(workload: Workload, machine: MachineFacts, measured: Measured) -> float:
    """Estimate the seconds of a training step: measured, or by its pixels from the nearest one."""
    if workload in measured:
        return measured[workload]
    if not measured:
        per_core = CPU_SECONDS_PER_PIXEL / machine.cores
        return workload.pixels * (GPU_SECONDS_PER_PIXEL if machine.gpu else per_core)
    nearest = min(measured, key=lambda one: abs(math.log(one.pixels / workload.pixels)))
    return measured[nearest] * workload.pixels / nearest.pixels


def parse_time(name: str, given: Any) -> float:
    """Read a time such as "1h", "90m", "1h30m" or "45s" as seconds; UserError if it is none."""
    number = r"(\d+(?:\.\d+)?)"
    found = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s)?", str(given).strip())
    parts = found.groups() if found else (None, None, None)
    seconds = sum(float(p or 0) * unit for p, unit in zip(parts, (3600, 60, 1), strict=True))
    if not seconds > 0:
        raise UserError(f"{name}={given}: expected a time such as 30m, 1h or 1h30m")
    return seconds
