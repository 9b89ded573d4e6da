"""Findings from states, actions and lengths: one function each, with its threshold and the reason.

A finding may be wrong about a dataset it has never seen, so a warning is given only for what would
make a policy learn the wrong thing; what may well be intended is a note.
"""

import hashlib
import re
from collections.abc import Callable, Iterator

import numpy as np

from act_policy.data.inspection.evidence import Evidence
from act_policy.data.inspection.inspection import Finding, Verdict, report_dimensions, worst_first
from act_policy.data.inspection.stillness import longest_still_stretch
from act_policy.data.inspection.tracking_findings import equal, follows, offset, with_unit

RATE_TOLERANCE = 0.02
"""Share by which the rate may be off: at 0.02 a chunk of 50 steps ends one step too late."""
GAP = 1.5
"""A step of so many periods lacks a frame."""
IDLE_SECONDS, IDLE_SHARE = 1.0, 0.2
"""An idle stretch counts when it takes at least both. People pause for less than a second, and
what takes less than a fifth of an episode hardly weighs in the loss."""
JUMP_SHARE, JUMP_FACTOR = 0.3, 10.0
"""A jump is a step of more than this share of a joint's reach and so many times its fast steps
(their 95th percentile): no motor does that, a lost message or a wrapped angle does."""
SWITCH_SHARE = 0.8
"""A dimension that is this often at one end of its reach is a gripper or a switch: it may jump."""
EARLY_SHARE, EARLY_LEAST = 0.5, 4
"""An episode ends early below this share of the median of its instruction, which needs so many
episodes to mean something."""
SHORT_SECONDS = 1.0
"""A manipulation of less than a second is rare, a rate that is stated wrong is not."""
CHUNK_SHARE = 0.5
"""Above this share of an episode a quarter of its targets and more are padding."""


def find(evidence: Evidence) -> list[Finding]:
    """Everything unusual that shows without decoding an image, the worst first."""
    return worst_first([found for finding in FINDINGS for found in finding(evidence)])


def not_finite(evidence: Evidence) -> Iterator[Finding]:
    """Report NaN and infinite values, which training refuses."""
    dataset = evidence.dataset
    for field, read, names in (
        ("state", dataset.state, dataset.schema.state_names),
        ("action", dataset.action, dataset.schema.action_names),
    ):
        remarks = {}
        for episode in range(dataset.episode_count):
            broken = np.argwhere(~np.isfinite(read(episode)))
            if len(broken):
                step, dimension = broken[0]
                remarks[episode] = f"{len(broken)} values, first {names[dimension]} at step {step}"
        if remarks:
            yield Finding(
                Verdict.ERROR,
                "values that are not finite",
                f"{field} is not a finite number in {evidence.listed(remarks)}",
                "Leave these episodes out, or record them again.",
                tuple(remarks),
            )


def constant(evidence: Evidence) -> Iterator[Finding]:
    """Report what never moves: a warning where the same joint's other half does move."""
    schema = evidence.dataset.schema
    reports = report_dimensions(evidence.dataset)
    rows = {
        "state": reports[: schema.state_size],
        "action": reports[schema.state_size :],
    }
    still = {field: {i for i, r in enumerate(rows[field]) if r.min == r.max} for field in rows}
    suspect = set()
    for pair in evidence.pairs:
        if (pair.state in still["state"]) != (pair.action in still["action"]):
            half = "state" if pair.state in still["state"] else "action"
            suspect.add((half, getattr(pair, half)))
    for field in rows:
        if len(still[field]) == len(rows[field]):
            suspect |= {(field, dimension) for dimension in still[field]}
    every = [(field, dimension) for field in rows for dimension in sorted(still[field])]
    for verdict, chosen in (
        (Verdict.WARNING, [place for place in every if place in suspect]),
        (Verdict.NOTE, [place for place in every if place not in suspect]),
    ):
        if chosen:
            named = ", ".join(
                f"{field} {rows[field][i].name} ({rows[field][i].min:.4g})" for field, i in chosen
            )
            advice = "A policy keeps it there, and learns nothing from it"
            yield Finding(
                verdict,
                "constant dimensions",
                f"the same at every step: {named}",
                f"{advice}; the joint did move: look for what the recording misses."
                if verdict is Verdict.WARNING
                else f"{advice}. If it should have moved, look for what the recording misses.",
            )


def nearly_constant(evidence: Evidence) -> Iterator[Finding]:
    """Report what moves less than the normaliser's floor, and so counts less in the loss."""
    floor = evidence.config.std_floor
    reports = report_dimensions(evidence.dataset, floor)
    low = [r for r in reports if r.min < r.max and r.std < floor]
    if low:
        named = ", ".join(f"{r.field} {r.name} ({r.std:.2g}{with_unit(r.unit)})" for r in low)
        moving = sum(r.min < r.max for r in reports)
        yield Finding(
            # if most are so small the unit is large, and the whole policy would learn less
            Verdict.WARNING if len(low) > moving / 2 else Verdict.NOTE,
            "nearly constant dimensions",
            f"their deviation is below the normaliser's floor of {floor:g}: {named}",
            "Training takes them for almost constant. If these movements matter, lower std_floor "
            "(data.std_floor= in training); if they are noise, leave it.",
        )


def rate(evidence: Evidence) -> Iterator[Finding]:
    """Compare the rate stated with the timestamps, and look for missing frames in them."""
    wrong, gaps = {}, {}
    for episode, times in enumerate(evidence.timestamps):
        if times is None or len(times) < 2 or not np.isfinite(times).all():
            continue
        periods = np.diff(times)
        measured = 1 / np.median(periods) if np.median(periods) > 0 else np.inf
        if abs(measured / evidence.rate - 1) > RATE_TOLERANCE:
            wrong[episode] = f"{measured:.4g}"
        elif len(late := np.flatnonzero(periods > GAP / evidence.rate)):
            gaps[episode] = (
                f"{len(late)} gaps, {periods[late].max():.2f} s after step {late[0]} and later"
                if len(late) > 1
                else f"{periods[late[0]]:.2f} s after step {late[0]}"
            )
    if wrong:
        yield Finding(
            Verdict.WARNING,
            "rate",
            f"the dataset says {evidence.rate:g} steps per second, its timestamps say otherwise "
            f"in {evidence.listed(wrong)}",
            "Correct the rate: a policy would move too fast or too slow by as much.",
            tuple(wrong),
        )
    if gaps:
        yield Finding(
            Verdict.WARNING,
            "gaps in the timestamps",
            f"steps that took longer than {GAP:g} periods in {evidence.listed(gaps)}",
            "Frames were lost while recording; relieve the computer that records.",
            tuple(gaps),
        )


def idle(evidence: Evidence) -> Iterator[Finding]:
    """Report long stretches in which neither state nor action changes."""
    remarks = {}
    both = [np.hstack(pair) for pair in zip(evidence.states, evidence.actions, strict=True)]
    for episode, found in enumerate(longest_still_stretch(both, round(evidence.rate))):
        length = found.stop - found.start
        steps = len(both[episode])
        if length >= max(IDLE_SECONDS * evidence.rate, IDLE_SHARE * steps):
            remarks[episode] = (
                f"{length / evidence.rate:.1f} s from step {found.start} on, {length} of {steps} "
                "steps"
            )
    if remarks:
        yield Finding(
            Verdict.WARNING,
            "idle stretches",
            f"nothing moves for a long time in {evidence.listed(remarks)}",
            "A policy may learn to wait there for ever: trim what is idle, or leave the episodes "
            "out.",
            tuple(remarks),
        )


def jumps(evidence: Evidence) -> Iterator[Finding]:
    """Report positions that change by more in one step than a joint can move."""
    schema = evidence.dataset.schema
    targets = sorted({pair.action for pair in evidence.pairs if follows(evidence, pair)})
    for field, every, names, dimensions in (
        ("state", evidence.states, schema.state_names, list(range(schema.state_size))),
        # an action that is no position may jump: a velocity, a gripper's command
        ("action", evidence.actions, schema.action_names, targets),
    ):
        remarks: dict[int, str] = {}
        values = np.concatenate(every)
        low, reach = values.min(axis=0), np.ptp(values, axis=0)
        ends = (np.abs(values - low) < 0.1 * reach) | (np.abs(values - low - reach) < 0.1 * reach)
        steps = [np.abs(np.diff(episode, axis=0)) for episode in every if len(episode) > 1]
        if not steps:
            continue
        fast = np.quantile(np.concatenate(steps), 0.95, axis=0)
        limit = np.maximum(JUMP_SHARE * reach, JUMP_FACTOR * fast)
        for dimension in dimensions:
            # an angle that wraps is at both ends of its reach like a switch, and jumps by a turn
            turn = next((t for t in (2 * np.pi, 360.0) if 0.9 < reach[dimension] / t < 1.1), None)
            if reach[dimension] == 0 or (turn is None and ends[:, dimension].mean() > SWITCH_SHARE):
                continue
            for episode, moved in enumerate(every):
                step = np.abs(np.diff(moved[:, dimension]))
                most = limit[dimension] if turn is None else min(limit[dimension], 0.9 * turn)
                if len(at := np.flatnonzero(step > most)):
                    wrapped = turn is not None and step[at[0]] > 0.9 * turn
                    remarks.setdefault(
                        episode,
                        f"{names[dimension]} by {step[at[0]]:.3g} after step {at[0]}"
                        + (", a whole turn" if wrapped else ""),
                    )
        if remarks:
            yield Finding(
                Verdict.WARNING,
                "jumps",
                f"{field} jumps within one step in {evidence.listed(remarks)}",
                "Look for lost messages there; an angle that jumps by a whole turn must be "
                "unwrapped. Leave the episodes out, or correct them.",
                tuple(sorted(remarks)),
            )


def duplicates(evidence: Evidence) -> Iterator[Finding]:
    """Report episodes whose states and actions are the same bit by bit."""
    dataset = evidence.dataset
    first: dict[bytes, int] = {}
    remarks = {}
    for episode in range(dataset.episode_count):
        content = hashlib.sha256(dataset.state(episode).tobytes())
        content.update(dataset.action(episode).tobytes())
        if (earlier := first.setdefault(content.digest(), episode)) != episode:
            remarks[episode] = f"the same as {dataset.episode_names[earlier]}"
    if remarks:
        yield Finding(
            Verdict.WARNING,
            "duplicated episodes",
            f"states and actions are those of another episode in {evidence.listed(remarks)}",
            "Leave them out: they count twice in training, and may be held out and trained on.",
            tuple(remarks),
        )


def lengths(evidence: Evidence) -> Iterator[Finding]:
    """Report episodes that end early, and a dataset of episodes too short to be true."""
    dataset = evidence.dataset
    told: dict[str, list[int]] = {}
    for episode, instruction in enumerate(dataset.instructions):
        told.setdefault(instruction, []).append(episode)
    early: dict[int, str] = {}
    for group in told.values():
        median = np.median(dataset.lengths[group])
        if len(group) >= EARLY_LEAST:
            early |= {
                episode: f"{dataset.lengths[episode]} steps, half of them have {median:g} or more"
                for episode in group
                if dataset.lengths[episode] < EARLY_SHARE * median
            }
    if early:
        yield Finding(
            Verdict.WARNING,
            "episodes that end early",
            f"far shorter than the others: {evidence.listed(early)}",
            "Was the recording stopped before the task was done? Then leave them out.",
            tuple(early),
        )
    short = {
        episode: f"{length / evidence.rate:.2g} s"
        for episode, length in enumerate(dataset.lengths)
        if length < SHORT_SECONDS * evidence.rate and episode not in early
    }
    if short:
        yield Finding(
            Verdict.NOTE,
            "episodes shorter than a second",
            evidence.listed(short),
            f"Is the rate of {evidence.rate:g} steps per second right?",
            tuple(short),
        )


def chunk(evidence: Evidence) -> Iterator[Finding]:
    """Compare the chunk with the episodes: what reaches past an episode's end is padding."""
    k = evidence.config.chunk_length
    if k is None:
        return
    steps = evidence.dataset.lengths
    remarks = {e: f"{n} steps" for e, n in enumerate(steps) if k > CHUNK_SHARE * n}
    if remarks:
        reached = [np.minimum(k, np.arange(n, 0, -1)).sum() for n in steps]
        padded = 1 - sum(reached) / (k * steps.sum())
        yield Finding(
            Verdict.WARNING if len(remarks) > len(steps) / 2 else Verdict.NOTE,
            "long chunk",
            f"chunk_length {k} is more than half of {evidence.listed(remarks)}; {padded:.0%} of "
            "all targets are padding",
            "A shorter chunk_length trains on as much and wastes less.",
            tuple(remarks),
        )


def failures(evidence: Evidence) -> Iterator[Finding]:
    """Report demonstrations of failure, which are imitated like any other."""
    failed = {e: "" for e, outcome in enumerate(evidence.dataset.outcomes) if outcome is False}
    if failed:
        yield Finding(
            Verdict.WARNING,
            "failed demonstrations",
            f"marked as failed: {evidence.listed(failed)}",
            "Leave them out: a policy imitates failures too.",
            tuple(failed),
        )


def numbering(evidence: Evidence) -> Iterator[Finding]:
    """Report numbers that the episodes' file names leave out."""
    used = evidence.dataset.episode_paths
    kinds = {(path.parent, path.suffix) for path in used}
    # files that cannot be read are there, too
    paths = [path for folder, suffix in kinds for path in folder.glob(f"[!.]*{suffix}")]
    numbers = [re.search(r"(\d+)$", path.stem) for path in paths]
    if len(set(used)) < len(used) or None in numbers:
        return
    found = {int(number[1]) for number in numbers if number}
    missing = sorted(set(range(min(found), max(found))) - found)
    if missing:
        some = ", ".join(map(str, missing[:10])) + (", ..." if missing[10:] else "")
        yield Finding(
            Verdict.NOTE,
            "numbers left out",
            f"no episode has number {some} ({len(missing)} between {min(found)} and {max(found)})",
            "All right if they were removed on purpose.",
        )


FINDINGS: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    not_finite,
    failures,
    equal,
    offset,
    constant,
    nearly_constant,
    rate,
    jumps,
    idle,
    duplicates,
    lengths,
    chunk,
    numbering,
)
