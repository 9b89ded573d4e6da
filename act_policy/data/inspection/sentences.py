"""Findings in words: what was found, where, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from act_policy.data.inspection.finding import Finding, Kind, Verdict

MOST_LISTED = 5
"""Episodes that a sentence names; it counts the others."""


def sentence(finding: Finding, episode_names: Sequence[str]) -> str:
    """Say what was found and where, without a full stop.

    Args:
        finding: what to put into words.
        episode_names: of all episodes of the dataset.
    """
    subject, detail = finding.subject, finding.detail
    listed = _listed(finding, episode_names)
    match finding.kind:
        case Kind.BROKEN_FILE | Kind.MISPLACED_IMAGES:
            return f"{detail['error']}"
        case Kind.UNLIKE_FILE:
            if "error" in detail:
                return f"{detail['error']}"
            differences = "; ".join(
                f"{name}: {here} here, {there} there"
                for name, (here, there) in detail["differences"].items()
            )
            return (
                f"{subject}: differs from {detail['alike']} of {detail['count']} episodes: "
                f"{differences}"
            )
        case Kind.READER_NOTE:
            return str(detail["note"])
        case Kind.NOT_FINITE:
            return f"{subject} is not a finite number in {listed}"
        case Kind.FAILED:
            return f"marked as failed: {listed}"
        case Kind.ACTION_IS_STATE:
            return f"action equals the current state in {', '.join(detail['dimensions'])}"
        case Kind.OFFSET:
            value, unit = detail["offset"], detail["unit"]
            degrees = f" ({np.rad2deg(value):.1f} degrees)" if unit == "rad" else ""
            return (
                f"action {subject} is off its later state by {value:.3g}{_behind(unit)}{degrees} "
                f"throughout (deviation {detail['deviation']:.2g}{_behind(unit)})"
            )
        case Kind.CONSTANT:
            values = (f"{name} ({value:.4g})" for name, value in detail["values"].items())
            return f"the same at every step: {', '.join(values)}"
        case Kind.NEARLY_CONSTANT:
            deviations = (
                f"{name} ({std:.2g}{_behind(unit)})"
                for name, (std, unit) in detail["deviations"].items()
            )
            return (
                f"their deviation is below the normaliser's floor of {detail['floor']:g}: "
                f"{', '.join(deviations)}"
            )
        case Kind.RATE:
            return (
                f"the dataset says {detail['stated']:g} steps per second, its timestamps say "
                f"otherwise in {listed}"
            )
        case Kind.GAPS:
            return f"steps that took longer than {detail['periods']:g} periods in {listed}"
        case Kind.JUMPS:
            return f"{subject} jumps within one step in {listed}"
        case Kind.IDLE:
            return f"nothing moves for a long time in {listed}"
        case Kind.DUPLICATES:
            return f"states and actions are those of another episode in {listed}"
        case Kind.ENDS_EARLY:
            return f"far shorter than the others: {listed}"
        case Kind.SHORT:
            return listed
        case Kind.LONG_CHUNK:
            return (
                f"chunk_length {detail['chunk_length']} is more than half of {listed}; "
                f"{detail['padded']:.0%} of all targets are padding"
            )
        case Kind.NUMBERS_LEFT_OUT:
            missing = detail["missing"]
            some = ", ".join(map(str, missing[:10])) + (", ..." if missing[10:] else "")
            return (
                f"no episode has number {some} ({len(missing)} between {detail['lowest']} and "
                f"{detail['highest']})"
            )
        case Kind.UNDECODABLE:
            more = detail["count"] - 1
            rest = f" And {more} more of this camera in this episode." if more else ""
            return f"{detail['error']}{rest}"
        case Kind.BLACK_CAMERA | Kind.EMPTY_CAMERA:
            shows = "black" if finding.kind is Kind.BLACK_CAMERA else "of one colour"
            return f"every image of camera {subject} that was looked at is {shows} in {listed}"
        case Kind.FROZEN_CAMERA:
            return f"camera {subject} shows the same although the robot moves in {listed}"


def _listed(finding: Finding, names: Sequence[str]) -> str:
    """Name the first few episodes, each with its remark, and say how many there are."""
    some = [
        f"{names[episode]}: {remark}"
        if (remark := _remark(finding.kind, detail, names))
        else names[episode]
        for episode, detail in list(finding.episodes.items())[:MOST_LISTED]
    ]
    count = len(finding.episodes)
    more = [f"and {count - MOST_LISTED} more"] if count > MOST_LISTED else []
    return f"{count} of {len(names)} episodes ({'; '.join(some + more)})"


def _remark(kind: Kind, detail: Mapping[str, Any], names: Sequence[str]) -> str:
    """Say what was found in one episode; empty where its name says it all."""
    match kind:
        case Kind.NOT_FINITE:
            return "{count} values, first {dimension} at step {step}".format(**detail)
        case Kind.RATE:
            return "{measured:.4g}".format(**detail)
        case Kind.GAPS if detail["count"] > 1:
            return "{count} gaps, {seconds:.2f} s after step {step} and later".format(**detail)
        case Kind.GAPS:
            return "{seconds:.2f} s after step {step}".format(**detail)
        case Kind.JUMPS:
            turn = ", a whole turn" if detail["whole_turn"] else ""
            return "{dimension} by {size:.3g} after step {step}".format(**detail) + turn
        case Kind.IDLE:
            return "{seconds:.1f} s from step {step} on, {steps} of {length} steps".format(**detail)
        case Kind.DUPLICATES:
            return f"the same as {names[detail['same_as']]}"
        case Kind.ENDS_EARLY:
            return "{length} steps, half of them have {median:g} or more".format(**detail)
        case Kind.SHORT:
            return "{seconds:.2g} s".format(**detail)
        case Kind.LONG_CHUNK:
            return "{length} steps".format(**detail)
        case Kind.FROZEN_CAMERA:
            return "steps {first} to {last}".format(**detail)
    return ""


_SHOWS_NOTHING = "Leave the camera or the episodes out: a policy would learn to do without it."
_KEPT_STILL = "A policy keeps it there, and learns nothing from it"

_ADVICE: dict[Kind | tuple[Kind, Verdict], str] = {
    Kind.BROKEN_FILE: "Training refuses the folder as it is: repair the file, move the episode out "
    "of it, or leave it out with unreadable=skip (data.unreadable= in training).",
    (Kind.BROKEN_FILE, Verdict.WARNING): "Training leaves the episode out (unreadable: skip).",
    Kind.UNLIKE_FILE: "Training refuses the folder as it is, with unreadable=skip too: leave the "
    "episode out with data.select.exclude=[...], move it out of the folder, or choose cameras that "
    "all have with cameras=[...] (data.cameras= in training).",
    Kind.READER_NOTE: "The rest can be trained on; check that this is what you meant.",
    Kind.NOT_FINITE: "Leave these episodes out, or record them again.",
    Kind.FAILED: "Leave them out: a policy imitates failures too.",
    Kind.ACTION_IS_STATE: "A policy would learn to stand still: record the commanded or the next "
    "position.",
    Kind.OFFSET: "Is one of them calibrated differently? On the robot the policy would be off by "
    "as much: calibrate again, or correct the recording.",
    Kind.CONSTANT: f"{_KEPT_STILL}. If it should have moved, look for what the recording misses.",
    (Kind.CONSTANT, Verdict.WARNING): f"{_KEPT_STILL}; the joint did move: look for what the "
    "recording misses.",
    Kind.NEARLY_CONSTANT: "Training takes them for almost constant. If these movements matter, "
    "lower std_floor (data.std_floor= in training); if they are noise, leave it.",
    Kind.RATE: "Correct the rate: a policy would move too fast or too slow by as much.",
    Kind.GAPS: "Frames were lost while recording; relieve the computer that records.",
    Kind.JUMPS: "Look for lost messages there; an angle that jumps by a whole turn must be "
    "unwrapped. Leave the episodes out, or correct them.",
    Kind.IDLE: "A policy may learn to wait there for ever: trim what is idle, or leave the "
    "episodes out.",
    Kind.DUPLICATES: "Leave them out: they count twice in training, and may be both held out and "
    "trained on.",
    Kind.ENDS_EARLY: "Was the recording stopped before the task was done? Then leave them out.",
    Kind.SHORT: "Is the rate of {rate:g} steps per second right?",
    Kind.LONG_CHUNK: "A shorter chunk_length trains on as much and wastes less.",
    Kind.NUMBERS_LEFT_OUT: "All right if they were removed on purpose.",
    Kind.MISPLACED_IMAGES: "Copy or record the episode again, or leave it out.",
    Kind.UNDECODABLE: "Repair the file, or let training leave them out with undecodable=skip "
    "(data.undecodable= in training).",
    (Kind.UNDECODABLE, Verdict.WARNING): "Training leaves them out (undecodable: skip).",
    Kind.BLACK_CAMERA: _SHOWS_NOTHING,
    Kind.EMPTY_CAMERA: _SHOWS_NOTHING,
    Kind.FROZEN_CAMERA: "The camera hung, or does not see the robot: leave it or the episodes out.",
}
"""By kind, or by kind and verdict where the verdict makes a difference."""


def advice(finding: Finding) -> str:
    """Say in a sentence what to do about it."""
    by_verdict = _ADVICE.get((finding.kind, finding.verdict))
    return (by_verdict or _ADVICE[finding.kind]).format(**finding.detail)


def _behind(unit: str) -> str:
    """A unit to be written behind a number."""
    return f" {unit}" if unit and unit != "0..1" else ""
