"""Findings in words: what was found, where, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from act_policy.data.inspection.finding import Finding, Kind, Verdict
from act_policy.errors import list_some

_SENTENCES = {
    Kind.BROKEN_FILE: "{error}",
    Kind.OTHER_NAMES: "{error}",
    Kind.UNLIKE_FILE: "{error}",
    Kind.READER_NOTE: "{note}",
    Kind.NO_CAMERA: "{reasons}",
    Kind.NOT_FINITE: "{subject} is not a finite number in {listed}",
    Kind.FAILED: "marked as failed: {listed}",
    Kind.RATE: "the dataset says {stated:g} steps per second, its timestamps say otherwise in "
    "{listed}",
    Kind.GAPS: "steps that took longer than {periods:g} periods in {listed}",
    Kind.JUMPS: "{subject} jumps within one step in {listed}",
    Kind.IDLE: "nothing moves for a long time in {listed}",
    Kind.DUPLICATES: "states and actions are those of another episode in {listed}",
    Kind.UNWRITTEN: "state and action are zero up to the end in {listed}",
    Kind.ENDS_EARLY: "far shorter than the others: {listed}",
    Kind.SHORT: "{listed}",
    Kind.LONG_CHUNK: "chunk_length {chunk_length} is more than half of {listed}; {padded:.0%} of "
    "all targets are padding",
    Kind.MISPLACED_IMAGES: "{error}",
    Kind.BLACK_CAMERA: "every image of camera {subject} that was looked at is black in {listed}",
    Kind.EMPTY_CAMERA: "every image of camera {subject} that was looked at is of one colour in "
    "{listed}",
    Kind.FROZEN_CAMERA: "camera {subject} shows the same although the robot moves in {listed}",
    Kind.SAME_IMAGES: "cameras {subject} and {other} show the same images in {listed}",
}
"""To be filled with the subject, the details and the list of episodes; `sentence` has the rest."""

_REMARKS = {
    Kind.NOT_FINITE: "{count} values, first {dimension} at step {step}",
    Kind.RATE: "{measured:.4g}",
    Kind.GAPS: "{seconds:.2f} s after step {step}",
    Kind.JUMPS: "{dimension} by {size:.3g} after step {step}",
    Kind.IDLE: "{seconds:.1f} s from step {step} on, {steps} of {length} steps",
    Kind.UNWRITTEN: "from step {step} on, of {length}",
    Kind.ENDS_EARLY: "{length} steps, half of them have {median:g} or more",
    Kind.SHORT: "{seconds:.2g} s",
    Kind.LONG_CHUNK: "{length} steps",
    Kind.FROZEN_CAMERA: "steps {first} to {last}",
}
"""About one episode, filled with its details."""

_MOVES = {
    "displacement": "the state changes by the action at every step",
    "velocity": "the state changes by the action in every second",
    "motion": "the change of the state is proportional to the action",
}
_SHOWN = {
    "position": "a position",
    "target": "a position, or the velocity that the state is",
    "displacement": "a displacement",
    "velocity": "a velocity",
    "motion": "a displacement or a velocity",
}
"""What the numbers show of an action, `action_kinds.ShownKind`."""


def sentence(finding: Finding, episode_names: Sequence[str]) -> str:
    """Say what was found and where, without a full stop.

    Args:
        finding: what to put into words.
        episode_names: of all episodes of the dataset.
    """
    subject, detail = finding.subject, finding.detail
    names = list_some(detail.get("dimensions", ()))
    match finding.kind:
        case Kind.UNLIKE_FILE if "error" not in detail:
            differences = "; ".join(
                f"{name}: {here} here, {there} there"
                for name, (here, there) in detail["differences"].items()
            )
            return (
                f"{subject}: differs from {detail['alike']} of {detail['count']} episodes: "
                f"{differences}"
            )
        case Kind.INSTRUCTIONS:
            counts = (f"{text!r} ({n})" for text, n in detail["episodes_of"].items())
            return f"{detail['count']} in episodes that one policy learns: {list_some([*counts])}"
        case Kind.CONTRADICTED:
            shown = _SHOWN[detail["shown"]]
            return f"by name and unit a {detail['declared']}, by the numbers {shown}: {names}"
        case Kind.MOVEMENTS:
            return f"{_MOVES[detail['shown']]}: {names}"
        case Kind.ACTION_IS_STATE:
            return f"action equals the current state in {', '.join(detail['dimensions'])}"
        case Kind.INVERTED:
            return f"the state falls where the action rises: {names}"
        case Kind.EXCHANGED:
            pairs = (f"{a} by state {s}" for a, s in detail["followed_by"].items())
            return f"followed by another than their own: action {', '.join(pairs)}"
        case Kind.SCALE:
            degrees = ", as degrees and radians are" if detail["degrees"] else ""
            return f"action {subject} is {detail['scale']:.3g} times the state{degrees}"
        case Kind.OFFSET:
            value, unit = detail["offset"], detail["unit"]
            degrees = f" ({np.rad2deg(value):.1f} degrees)" if unit == "rad" else ""
            return (
                f"action {subject} is off its later state by {value:.3g}{_behind(unit)}{degrees} "
                f"throughout (deviation {detail['deviation']:.2g}{_behind(unit)})"
            )
        case Kind.LONG_LAG:
            lags = (f"{n} after {s:.2g} s ({k} steps)" for n, (k, s) in detail["lags"].items())
            return f"the state follows its action late: {list_some([*lags])}"
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
    listed = _list_episodes(finding, episode_names)
    return _SENTENCES[finding.kind].format(subject=subject, listed=listed, **detail)


def _list_episodes(finding: Finding, names: Sequence[str]) -> str:
    """Name the first few episodes, each with its remark, and say how many there are."""
    listed = []
    for episode, detail in finding.episodes.items():
        remark = _remark(finding.kind, detail, names)
        listed.append(f"{names[episode]}: {remark}" if remark else names[episode])
    return f"{len(listed)} of {len(names)} episodes ({list_some(listed)})"


def _remark(kind: Kind, detail: Mapping[str, Any], names: Sequence[str]) -> str:
    """Say what was found in one episode; empty where its name says it all."""
    remark = _REMARKS.get(kind, "").format(**detail)
    if kind is Kind.GAPS and detail["count"] > 1:
        return f"{detail['count']} gaps, {remark} and later"
    if kind is Kind.JUMPS and detail["whole_turn"]:
        return f"{remark}, a whole turn"
    if kind is Kind.DUPLICATES:
        return f"the same as {names[detail['same_as']]}"
    return remark


_SHOWS_NOTHING = "Leave the camera or the episodes out: a policy would learn to do without it."
_KEPT_STILL = "A policy keeps it there, and learns nothing from it"

_ADVICE: dict[Kind | tuple[Kind, Verdict], str] = {
    Kind.BROKEN_FILE: "Training refuses the folder as it is: repair the file, move the episode out "
    "of it, or leave it out with unreadable=skip (data.unreadable= in training).",
    Kind.OTHER_NAMES: "Nothing is wrong with the files: give that setting to every command; a run "
    "keeps it.",
    (Kind.BROKEN_FILE, Verdict.WARNING): "Training leaves the episode out (unreadable: skip).",
    Kind.UNLIKE_FILE: "Training refuses the folder as it is, with unreadable=skip too: leave the "
    "episode out with data.select.exclude=[...], move it out of the folder, or choose cameras that "
    "all have with cameras=[...] (data.cameras= in training).",
    Kind.READER_NOTE: "The rest can be trained on; check that this is what you meant.",
    Kind.NO_CAMERA: "A policy needs at least one: record one, or name it with features=... "
    "(data.features= in training).",
    Kind.NOT_FINITE: "Leave these episodes out, or record them again.",
    Kind.FAILED: "Leave them out: a policy imitates failures too.",
    Kind.INSTRUCTIONS: "Each becomes a task, and the policy is told which one to do. If they all "
    "mean the same, say data.select.tasks=false; 'data.select.instruction=\"{first}\"' trains one.",
    Kind.CONTRADICTED: "Which of them is right? If it is the data, describe them with "
    "schema=FILE.json (data.schema= in training), with action_units such as rad/step or rad/s. If "
    "the data mislead, leave the unit empty there, and the owner of the robot has to say it.",
    Kind.MOVEMENTS: "Say so, or a robot may take them for places to go to: describe the data with "
    "schema=FILE.json (data.schema= in training), with action_units such as rad/step for "
    "displacements or rad/s for velocities.",
    Kind.INVERTED: "Is the motor mounted or wired the other way round, or the calibration of one "
    "arm? Correct it, or the recording.",
    Kind.EXCHANGED: "Are two joints, motors or names exchanged? Correct the recording.",
    Kind.SCALE: "Are they in different units? Say so with schema=FILE.json (data.schema= in "
    "training), or convert one of them.",
    Kind.ACTION_IS_STATE: "A policy would learn to stand still: record the commanded or the next "
    "position.",
    Kind.OFFSET: "Is one of them calibrated differently? On the robot the policy would be off by "
    "as much: calibrate again, or correct the recording.",
    Kind.LONG_LAG: "Is the arm that slow? If states and images were taken late, or actions stored "
    "early, correct the recording, or use each action so many steps later with action_shift= "
    "(data.action_shift= in training).",
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
    Kind.UNWRITTEN: "The recorder made room for more steps than it wrote: cut them off in the "
    "files, or leave the episodes out; a policy would learn to go to zero.",
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
    Kind.SAME_IMAGES: "Was one recorded under two names? Then one view is missing: record it, or "
    "leave {other} out by naming the others with cameras=[...] (data.cameras= in training).",
}
"""By kind, or by kind and verdict where the verdict makes a difference."""


def advice(finding: Finding) -> str:
    """Say in a sentence what to do about it."""
    by_verdict = _ADVICE.get((finding.kind, finding.verdict))
    return (by_verdict or _ADVICE[finding.kind]).format(**finding.detail)


def _behind(unit: str) -> str:
    """A unit to be written behind a number."""
    return f" {unit}" if unit and unit != "0..1" else ""
