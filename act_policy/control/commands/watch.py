"""Show the joints live while a person moves them: which is which, which way, and how far."""

import sys
import time
from collections.abc import Callable

import numpy as np

from act_policy.control.commands.deployment import Deployment
from act_policy.control.pacing import Pacer
from act_policy.control.robots.robot import call_owner
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.types import Schema

WATCH_RATE = 5.0
"""Lines per second."""

MOVED = 0.02
"""Of a joint's demonstrated range: a joint that went so far since the last line is marked."""


def watch_joints(
    deployment: Deployment,
    seconds: float | None,
    release: Callable[[], None] | None,
    prints: bool,
) -> None:
    """Read the joints until q, a signal or the end of the time. Sends no command.

    Args:
        deployment: whose robot is watched.
        seconds: None goes on.
        release: the owner's hook that makes the arm limp, so that it can be moved.
        prints: them, too; a page shows them anyway.

    Raises:
        UserError: the robot or the hook fails.
    """
    contract, schema = deployment.contract, deployment.contract.schema
    if release is not None:
        call_owner("the release hook", release)
        deployment.say("the arm was let go; support it")
    low, high = contract.ranges.state_low, contract.ranges.state_high
    least = most = before = np.full(schema.state_size, np.nan)
    operator, pacer, reader = OperatorInput(), Pacer(1 / WATCH_RATE), deployment.reader()
    in_place = sys.stdout.isatty()  # else the lines follow one another
    up = ""
    with operator.listening():
        what = "move the joints one by one, there and back" if prints else "the page stays"
        deployment.say(f"{what}; q ends")
        while not operator.ended and (seconds is None or time.monotonic() - pacer.begun < seconds):
            # no image is looked at: a camera that fails must not keep the joints from being seen
            state = contract.observation(reader.read_patiently(), look=False).state
            least, most = np.fmin(least, state), np.fmax(most, state)
            lines = _describe(schema, state, before, least, most, low, high)
            if prints:
                deployment.say(up + "\n".join(lines))
            if in_place:
                up = f"\x1b[{len(lines)}A"
            before = state
            pacer.wait()
    deployment.say("nothing was sent")


def _describe(
    schema: Schema,
    state: np.ndarray,
    before: np.ndarray,
    least: np.ndarray,
    most: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> list[str]:
    """One line per joint: value, the way it went so far, and what was demonstrated."""
    width = max(map(len, schema.state_names))
    lines = []
    for i, (name, unit) in enumerate(schema.states):
        change = state[i] - before[i]
        still = not abs(change) > MOVED * max(high[i] - low[i], 1e-6)  # NaN is still
        moves = " " if still else "+" if change > 0 else "-"
        known = np.isfinite([low[i], high[i]]).all()
        demonstrated = f"demonstrated {low[i]:.4g} to {high[i]:.4g}" if known else ""
        outside = "OUTSIDE" if known and not low[i] <= state[i] <= high[i] else ""
        lines.append(
            f"{moves} {name:<{width}} {state[i]:>9.4g} {unit:<6} went {least[i]:.4g} to "
            f"{most[i]:.4g}; {demonstrated} {outside}".rstrip()
        )
    return lines
