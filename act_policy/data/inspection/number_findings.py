"""Findings from states, actions and lengths: a function per kind, thresholds and their reasons.

A threshold may be wrong for a dataset that nobody has seen yet, so only what would make a policy
learn the wrong thing is a warning; what may well be intended is a note.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from act_policy.data.inspection.evidence import Evidence
from act_policy.data.inspection.finding import Details, Finding, Kind, Verdict
from act_policy.data.inspection.stillness import longest_still_stretch
from act_policy.data.inspection.tracking_findings import (
    contradicted,
    equal,
    exchanged,
    follows,
    inverted,
    lagging,
    movements,
    offset,
    scaled,
)

RATE_TOLERANCE = 0.02
"""Share by which the rate may be off: at 0.02 a chunk of 50 steps ends one step too late."""
GAP = 1.5
"""A step that takes longer than this many periods lacks a frame."""
IDLE_SECONDS, IDLE_SHARE = 1.0, 0.2
"""An idle stretch counts when it lasts at least both. People pause for less than a second, and
less than a fifth of an episode hardly weighs in the loss."""
UNWRITTEN_LEAST = 2
"""Steps at the end at which all numbers are zero: one may be a coincidence."""
JUMP_SHARE, JUMP_FACTOR = 0.3, 10.0
"""A jump is a step of more than this share of a joint's reach, and more than this factor times its
fast steps (their 95th percentile): no motor does that, a lost message or a wrapped angle does."""
SWITCH_SHARE = 0.8
"""A dimension that spends this share of its steps at the ends of its reach is a gripper or a
switch: it may jump."""
EARLY_SHARE, EARLY_LEAST = 0.5, 4
"""An episode ends early below this share of the median length of its instruction's episodes; with
fewer episodes than the second number the median means nothing."""
SHORT_SECONDS = 1.0
"""A manipulation of less than a second is rare; a wrong rate is not."""
CHUNK_SHARE = 0.5
"""A chunk longer than this share of an episode makes at least a quarter of its targets padding."""


def find(evidence: Evidence) -> list[Finding]:
    """Everything unusual that shows without decoding an image."""
    return [finding for search in SEARCHES for finding in search(evidence)]


def not_finite(evidence: Evidence) -> Iterator[Finding]:
    """Report NaN and infinite values, which training refuses."""
    dataset = evidence.dataset
    for field, read, names in (
        ("state", dataset.state, dataset.schema.state_names),
        ("action", dataset.action, dataset.schema.action_names),
    ):
        episodes: Details = {}
        for episode in range(len(dataset.episodes)):
            broken = np.argwhere(~np.isfinite(read(episode)))
            if len(broken):
                step, dimension = broken[0].tolist()
                episodes[episode] = {
                    "count": len(broken),
                    "dimension": names[dimension],
                    "step": step,
                }
        if episodes:
            yield Finding(Verdict.ERROR, Kind.NOT_FINITE, field, episodes=episodes)


def constant(evidence: Evidence) -> Iterator[Finding]:
    """Report dimensions that never move: a warning where the joint's other half does move."""
    reports, count = evidence.dimensions, evidence.dataset.schema.state_size
    still = {place for place, report in enumerate(reports) if report.min == report.max}
    suspect: set[int] = set()
    for pair in evidence.pairs:
        halves = still & {pair.state, count + pair.action}
        if len(halves) == 1:
            suspect |= halves
    for field in (range(count), range(count, len(reports))):
        if still.issuperset(field):
            suspect.update(field)
    for verdict, chosen in ((Verdict.WARNING, still & suspect), (Verdict.NOTE, still - suspect)):
        if chosen:
            rows = [reports[place] for place in sorted(chosen)]
            values = {f"{row.field} {row.name}": row.min for row in rows}
            yield Finding(verdict, Kind.CONSTANT, detail={"values": values})


def nearly_constant(evidence: Evidence) -> Iterator[Finding]:
    """Report dimensions that move less than the normaliser's floor: they count less in the loss."""
    floor, reports = evidence.config.std_floor, evidence.dimensions
    low = [r for r in reports if r.min < r.max and r.std < floor]
    if low:
        moving = sum(r.min < r.max for r in reports)
        yield Finding(
            # If most are below it the unit is large, and the whole policy would learn less.
            Verdict.WARNING if len(low) > moving / 2 else Verdict.NOTE,
            Kind.NEARLY_CONSTANT,
            detail={
                "floor": floor,
                "deviations": {f"{r.field} {r.name}": (r.std, r.unit) for r in low},
            },
        )


def rate(evidence: Evidence) -> Iterator[Finding]:
    """Compare the stated rate with the timestamps, and look for gaps in these."""
    wrong: Details = {}
    gaps: Details = {}
    for episode, times in enumerate(evidence.timestamps):
        if times is None or len(times) < 2 or not np.isfinite(times).all():
            continue
        periods = np.diff(times)
        measured = 1 / np.median(periods) if np.median(periods) > 0 else np.inf
        # a recording of an uneven loop repeats steps or leaves some out: its mean rate is right
        mean = len(periods) / max(times[-1] - times[0], 1e-9)
        if min(abs(measured / evidence.rate - 1), abs(mean / evidence.rate - 1)) > RATE_TOLERANCE:
            wrong[episode] = {"measured": float(measured)}
        elif len(late := np.flatnonzero(periods > GAP / evidence.rate)):
            gaps[episode] = {
                "count": len(late),
                "seconds": float(periods[late].max()),
                "step": int(late[0]),
            }
    if wrong:
        detail = {"stated": evidence.rate}
        yield Finding(Verdict.WARNING, Kind.RATE, detail=detail, episodes=wrong)
    if gaps:
        yield Finding(Verdict.WARNING, Kind.GAPS, detail={"periods": GAP}, episodes=gaps)


def idle(evidence: Evidence) -> Iterator[Finding]:
    """Report long stretches in which neither state nor action changes."""
    episodes: Details = {}
    both = [np.hstack(pair) for pair in zip(evidence.states, evidence.actions, strict=True)]
    for episode, still in enumerate(longest_still_stretch(both, round(evidence.rate))):
        length = len(both[episode])
        if len(still) >= max(IDLE_SECONDS * evidence.rate, IDLE_SHARE * length):
            episodes[episode] = {
                "seconds": len(still) / evidence.rate,
                "step": still.start,
                "steps": len(still),
                "length": length,
            }
    if episodes:
        yield Finding(Verdict.WARNING, Kind.IDLE, episodes=episodes)


def unwritten(evidence: Evidence) -> Iterator[Finding]:
    """Report ends of episodes at which every number is zero: room that a recorder did not fill."""
    episodes: Details = {}
    for episode, both in enumerate(zip(evidence.states, evidence.actions, strict=True)):
        written = np.flatnonzero(np.hstack(both).any(axis=1))
        length, end = len(both[0]), int(written[-1]) + 1 if len(written) else 0
        if both[0].shape[1] and length - end >= UNWRITTEN_LEAST:
            episodes[episode] = {"step": end, "length": length}
    if episodes:
        yield Finding(Verdict.WARNING, Kind.UNWRITTEN, episodes=episodes)


def jumps(evidence: Evidence) -> Iterator[Finding]:
    """Report positions that change by more in one step than a joint can move."""
    schema = evidence.dataset.schema
    targets = sorted({pair.action for pair in evidence.pairs if follows(evidence, pair)})
    for field, every, names, dimensions in (
        ("state", evidence.states, schema.state_names, list(range(schema.state_size))),
        # An action that is not a position may jump: a velocity, a gripper's command.
        ("action", evidence.actions, schema.action_names, targets),
    ):
        episodes: Details = {}
        values = np.concatenate(every)
        low, reach = values.min(axis=0), np.ptp(values, axis=0)
        ends = (np.abs(values - low) < 0.1 * reach) | (np.abs(values - low - reach) < 0.1 * reach)
        steps = [np.abs(np.diff(episode, axis=0)) for episode in every if len(episode) > 1]
        if not steps:
            continue
        fast = np.quantile(np.concatenate(steps), 0.95, axis=0)
        limit = np.maximum(JUMP_SHARE * reach, JUMP_FACTOR * fast)
        for dimension in dimensions:
            # An angle that wraps is at both ends of its reach like a switch, and jumps by a turn.
            turn = next((t for t in (2 * np.pi, 360.0) if 0.9 < reach[dimension] / t < 1.1), None)
            if reach[dimension] == 0 or (turn is None and ends[:, dimension].mean() > SWITCH_SHARE):
                continue
            for episode, moved in enumerate(every):
                step = np.abs(np.diff(moved[:, dimension]))
                most = limit[dimension] if turn is None else min(limit[dimension], 0.9 * turn)
                if len(at := np.flatnonzero(step > most)):
                    size = float(step[at[0]])
                    detail = {
                        "dimension": names[dimension],
                        "size": size,
                        "step": int(at[0]),
                        "whole_turn": turn is not None and size > 0.9 * turn,
                    }
                    episodes.setdefault(episode, detail)
        if episodes:
            yield Finding(Verdict.WARNING, Kind.JUMPS, field, episodes=episodes)


def duplicates(evidence: Evidence) -> Iterator[Finding]:
    """Report episodes whose states and actions are the same bit by bit."""
    dataset = evidence.dataset
    first: dict[bytes, int] = {}
    episodes: Details = {}
    for episode in range(len(dataset.episodes)):
        content = hashlib.sha256(dataset.state(episode).tobytes())
        content.update(dataset.action(episode).tobytes())
        if (earlier := first.setdefault(content.digest(), episode)) != episode:
            episodes[episode] = {"same_as": earlier}
    if episodes:
        yield Finding(Verdict.WARNING, Kind.DUPLICATES, episodes=episodes)


def lengths(evidence: Evidence) -> Iterator[Finding]:
    """Report episodes that end early, and episodes that are too short to be true."""
    dataset = evidence.dataset
    groups: dict[str, list[int]] = {}
    for episode, about in enumerate(dataset.episodes):
        groups.setdefault(about.instruction, []).append(episode)
    early: Details = {}
    for group in groups.values():
        median = np.median(dataset.lengths[group])
        if len(group) >= EARLY_LEAST:
            early |= {
                episode: {"length": int(dataset.lengths[episode]), "median": float(median)}
                for episode in group
                if dataset.lengths[episode] < EARLY_SHARE * median
            }
    if early:
        yield Finding(Verdict.WARNING, Kind.ENDS_EARLY, episodes=early)
    short = {
        episode: {"seconds": length / evidence.rate}
        for episode, length in enumerate(dataset.lengths)
        if length < SHORT_SECONDS * evidence.rate and episode not in early
    }
    if short:
        yield Finding(Verdict.NOTE, Kind.SHORT, detail={"rate": evidence.rate}, episodes=short)


def chunk(evidence: Evidence) -> Iterator[Finding]:
    """Compare the chunk with the episodes: beyond an episode's end it is padding."""
    k = evidence.config.chunk_length
    if k is None:
        return
    lengths = evidence.dataset.lengths
    episodes = {e: {"length": int(n)} for e, n in enumerate(lengths) if k > CHUNK_SHARE * n}
    if episodes:
        reached = [np.minimum(k, np.arange(n, 0, -1)).sum() for n in lengths]
        padded = 1 - sum(reached) / (k * lengths.sum())
        yield Finding(
            Verdict.WARNING if len(episodes) > len(lengths) / 2 else Verdict.NOTE,
            Kind.LONG_CHUNK,
            detail={"chunk_length": k, "padded": float(padded)},
            episodes=episodes,
        )


def failures(evidence: Evidence) -> Iterator[Finding]:
    """Report demonstrations of failure, which are imitated like any other."""
    failed: Details = {
        e: {} for e, about in enumerate(evidence.dataset.episodes) if about.outcome is False
    }
    if failed:
        yield Finding(Verdict.WARNING, Kind.FAILED, episodes=failed)


def instructions(evidence: Evidence) -> Iterator[Finding]:
    """Report several instructions, each of which becomes a task."""
    dataset = evidence.dataset
    told = (text for e in range(len(dataset.episodes)) for text in dataset.instructions(e))
    counts = Counter(text for text in told if text)
    if len(counts) > 1:
        first = next(iter(counts))
        detail = {"count": len(counts), "episodes_of": dict(counts), "first": first}
        yield Finding(Verdict.NOTE, Kind.INSTRUCTIONS, detail=detail)


def numbering(evidence: Evidence) -> Iterator[Finding]:
    """Report numbers that the episodes' file names leave out."""
    used = [episode.file for episode in evidence.dataset.episodes]
    kinds = {(path.parent, path.suffix) for path in used}
    # Files that cannot be read are there too.
    paths = [path for folder, suffix in kinds for path in folder.glob(f"[!.]*{suffix}")]
    numbers = [re.search(r"(\d+)$", path.stem) for path in paths]
    if len(set(used)) < len(used) or None in numbers:
        return
    present = {int(number[1]) for number in numbers if number}
    lowest, highest = min(present), max(present)
    if missing := sorted(set(range(lowest, highest)) - present):
        detail = {"missing": missing, "lowest": lowest, "highest": highest}
        yield Finding(Verdict.NOTE, Kind.NUMBERS_LEFT_OUT, detail=detail)


SEARCHES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    not_finite,
    failures,
    instructions,
    contradicted,
    movements,
    equal,
    inverted,
    exchanged,
    scaled,
    offset,
    lagging,
    constant,
    nearly_constant,
    rate,
    unwritten,
    jumps,
    idle,
    duplicates,
    lengths,
    chunk,
    numbering,
)
