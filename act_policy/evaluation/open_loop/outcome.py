"""What a training has come to, and what to try next, from errors on held-out demonstrations."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from act_policy.evaluation.open_loop.score import HOLD_STILL, NEAREST, POLICY, OpenLoop
from act_policy.report.learning_curves import Row

NO_BETTER = 0.9
"""A policy whose error is more than this share of a baseline's does not beat it."""
OVERFITTED = 2.0
"""Times the error in training. On dial-turn 0.20 and 0.08 with 50 demonstrations meant 55 of 100,
0.12 and 0.09 with 200 meant 89 (docs/recipe.md)."""
NAMES = {HOLD_STILL: "holding still", NEAREST: "the nearest demonstration"}


class Course(NamedTuple):
    """How a training went.

    train_l1: over the last tenth of the logged steps.
    held_out_l1: the least.
    still_falls: whether the last held-out loss is the least.
    minutes: that it took.
    """

    train_l1: float
    held_out_l1: float
    still_falls: bool
    minutes: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Course":
        """Summarise the rows of metrics.csv, of which some have a held-out loss."""
        train = [row["train_l1"] for row in rows if "train_l1" in row]
        last = train[-max(len(train) // 10, 1) :]
        held_out = [row["held_out_l1"] for row in rows if "held_out_l1" in row]
        return cls(
            sum(last) / len(last),
            min(held_out),
            held_out[-1] == min(held_out),
            rows[-1].get("minutes", 0.0),
        )


def tell_error(result: OpenLoop) -> str:
    """Say in a line how far the policy is from what was demonstrated, beside the baselines."""
    baselines = ", ".join(
        f"{name} {result.normalised(who):.2f}"
        for who, name in NAMES.items()
        if who in result.errors
    )
    return (
        f"how good: off by {result.normalised(POLICY):.2f} standard deviations of the actions on "
        f"average ({baselines}), on {result.says}"
    )


def advise(result: OpenLoop, course: Course, run: str) -> str:
    """Say in a line what to try next; run is how the run is named in a command."""
    own = result.normalised(POLICY)
    better = [
        name
        for who, name in NAMES.items()
        if who in result.errors and own > NO_BETTER * result.normalised(who)
    ]
    longer = f"act-policy train resume={run} budget={max(round(2 * course.minutes), 1)}m"
    if better:
        return (
            f"next: it is no better than {' and '.join(better)}: look at the demonstrations "
            f"(act-policy inspect path={shlex.quote(f'{result.dataset.folder}')}), then train "
            f"longer ({longer})"
        )
    ratio = course.held_out_l1 / course.train_l1 if course.train_l1 else 1.0
    if ratio > OVERFITTED:
        return (
            "next: record more demonstrations: on those that it was trained on, the error is "
            f"{ratio:.1f} times smaller"
        )
    if course.still_falls:
        return (
            f"next: try it; training longer may help, since the error was still falling ({longer})"
        )
    return "next: try it; where it fails, record more demonstrations"
