"""What a person should know of demonstrations before training on them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from rich.table import Table

from act_policy.data.dataset import DemonstrationDataset

STILL = 1e-3
"""A step of less than this share of a dimension's deviation is no motion."""
LONG_IDLE_SECONDS, LONG_IDLE_SHARE = 1.0, 0.2
"""A still stretch is reported when it takes at least both: that time, that share of an episode."""


class DimensionReport(NamedTuple):
    """One dimension of state or action over the finite values of all episodes."""

    field: str
    name: str
    unit: str
    mean: float
    std: float
    min: float
    max: float
    remark: str


def report_dimensions(
    dataset: DemonstrationDataset, std_floor: float = 1e-2
) -> list[DimensionReport]:
    """Statistics of each dimension; the remark says what is unusual: constant, not finite, ..."""
    schema, reports = dataset.schema, []
    episodes = range(dataset.episode_count)
    for field, arrays, names, units in (
        ("state", map(dataset.state, episodes), schema.state_names, schema.state_units),
        ("action", map(dataset.action, episodes), schema.action_names, schema.action_units),
    ):
        values = np.concatenate(list(arrays)).astype(np.float64)
        for dimension, (name, unit) in enumerate(zip(names, units, strict=True)):
            column = values[:, dimension]
            finite = column[np.isfinite(column)]
            low, high = (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
            std = finite.std() if len(finite) else np.nan
            remarks = []
            if len(finite) < len(column):
                remarks.append(f"{len(column) - len(finite)} values are not finite")
            if low == high:
                remarks.append("constant")
            elif std < std_floor:
                remarks.append(f"nearly constant: std below the floor {std_floor:g}")
            mean = finite.mean() if len(finite) else np.nan
            reports.append(
                DimensionReport(field, name, unit, mean, std, low, high, "; ".join(remarks))
            )
    return reports


def find_warnings(dataset: DemonstrationDataset) -> list[str]:
    """Say what would make a policy learn the wrong thing although every file is in order."""
    with np.errstate(invalid="ignore"):  # values that are not finite have a warning of their own
        return [
            *_not_finite(dataset),
            *_constant(dataset),
            *_failures(dataset),
            *_actions_against_states(dataset),
            *_idle_stretches(dataset),
        ]


def _not_finite(dataset: DemonstrationDataset) -> Iterator[str]:
    for episode, name in enumerate(dataset.episode_names):
        for field, values, names in (
            ("state", dataset.state(episode), dataset.schema.state_names),
            ("action", dataset.action(episode), dataset.schema.action_names),
        ):
            broken = np.argwhere(~np.isfinite(values))
            if len(broken):
                step, dimension = broken[0]
                yield (
                    f"{name}: {len(broken)} values of {field} are not finite, first "
                    f"{names[dimension]} at step {step}; training will refuse the episode"
                )


def _constant(dataset: DemonstrationDataset) -> Iterator[str]:
    constant = [
        f"{row.field} {row.name} ({row.min:.4g})"
        for row in report_dimensions(dataset)
        if row.min == row.max
    ]
    if constant:
        yield (
            f"the same at every step: {', '.join(constant)}; a policy keeps it there, and learns "
            "nothing from it. If it should have moved, look for what the recording misses."
        )


def _failures(dataset: DemonstrationDataset) -> Iterator[str]:
    failed = [
        name
        for name, outcome in zip(dataset.episode_names, dataset.outcomes, strict=True)
        if outcome is False
    ]
    if failed:
        yield (
            f"{len(failed)} of {dataset.episode_count} demonstrations failed: {', '.join(failed)}"
        )


def _actions_against_states(dataset: DemonstrationDataset) -> Iterator[str]:
    """Compare position targets with the joint of the same name and unit."""
    schema = dataset.schema
    named_states = zip(schema.state_names, schema.state_units, strict=True)
    states = {named: dimension for dimension, named in enumerate(named_states)}
    pairs = [
        (states[named], action, named[0])
        for action, named in enumerate(zip(schema.action_names, schema.action_units, strict=True))
        if named in states
    ]
    same = []
    for state, action, name in pairs:
        position = [dataset.state(e)[:, state] for e in range(dataset.episode_count)]
        target = [dataset.action(e)[:, action] for e in range(dataset.episode_count)]
        motion = np.concatenate([np.abs(np.diff(p)) for p in position])
        lead = np.concatenate(target) - np.concatenate(position)
        motion, lead = motion[np.isfinite(motion)], lead[np.isfinite(lead)]
        if not motion.any() or len(lead) == 0:
            continue
        if np.abs(lead).mean() < 0.01 * motion.mean():
            same.append(name)
        reach = np.ptp(np.concatenate(position))
        if abs(lead.mean()) > max(3 * lead.std(), 0.1 * reach):
            yield (
                f"action {name} is off its state by {lead.mean():.3g} throughout (deviation "
                f"{lead.std():.2g}): is one of them calibrated differently?"
            )
    if same:
        yield (
            f"action equals the current state in {', '.join(same)}: a policy would learn to "
            "stand still; record the commanded or the next position"
        )


def _idle_stretches(dataset: DemonstrationDataset) -> Iterator[str]:
    """Find long stretches in which neither state nor action changes."""
    episodes = range(dataset.episode_count)
    both = [np.concatenate([dataset.state(e), dataset.action(e)], axis=1) for e in episodes]
    deviation = np.concatenate(both).std(axis=0)
    moving = deviation > 0
    for name, values in zip(dataset.episode_names, both, strict=True):
        step = np.abs(np.diff(values, axis=0))[:, moving] / deviation[moving]
        still = (step < STILL).all(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], still, [0]])))
        starts, ends = edges[::2], edges[1::2]
        if len(starts) == 0:
            continue
        longest = int(np.argmax(ends - starts))
        length = int(ends[longest] - starts[longest])
        seconds = length / dataset.schema.rate
        if seconds >= LONG_IDLE_SECONDS and length >= LONG_IDLE_SHARE * len(values):
            yield (
                f"{name}: nothing moves for {seconds:.1f} s from step {starts[longest]} on "
                f"({length} of {len(values)} steps); a policy may learn to wait there for ever"
            )


def summary_tables(dataset: DemonstrationDataset, dimensions: list[DimensionReport]) -> list[Table]:
    """Tables for a terminal: the whole, the episodes' lengths, cameras, dimensions."""
    schema, lengths = dataset.schema, dataset.lengths
    seeds = [seed for seed in dataset.seeds if seed is not None]
    known = [outcome for outcome in dataset.outcomes if outcome is not None]
    whole = Table(title="Demonstrations", show_header=False, title_justify="left")
    for name, value in (
        ("episodes", f"{dataset.episode_count}"),
        ("steps", f"{lengths.sum()}, {lengths.sum() / schema.rate:.1f} s"),
        (
            "length",
            f"shortest {lengths.min()}, median {np.median(lengths):g}, longest {lengths.max()}",
        ),
        ("rate", f"{schema.rate:g} steps per second"),
        ("task", schema.task or "not known"),
        ("seeds", f"{min(seeds)} to {max(seeds)}, {len(set(seeds))} in all" if seeds else "none"),
        ("outcomes", f"{sum(known)} of {len(known)} succeeded" if known else "not known"),
    ):
        whole.add_row(name, value)
    cameras = Table("camera", "height", "width", title="Cameras", title_justify="left")
    for camera in schema.cameras:
        cameras.add_row(camera.name, f"{camera.height}", f"{camera.width}")
    statistics = Table(
        *("field", "name", "unit", "mean", "std", "min", "max", "remark"),
        title="Dimensions",
        title_justify="left",
    )
    for row in dimensions:
        numbers = (f"{value:.4g}" for value in (row.mean, row.std, row.min, row.max))
        statistics.add_row(row.field, row.name, row.unit, *numbers, row.remark)
    return [whole, cameras, statistics]
