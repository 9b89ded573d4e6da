"""A robot as a page for people: cameras, joints within their limits, the chunk, events."""

from typing import Any, NamedTuple

import numpy as np

from act_policy.control.page.board import MOST_EVENTS, Shown
from act_policy.control.page.view import draw_chunk, show_camera
from act_policy.control.robots.contract import Contract
from act_policy.report.page import render_page
from act_policy.report.pieces import Image, tabulate

REFRESH_SECONDS = 1
OLD_SECONDS = 2.0
"""A robot that has not been read for so long is reported."""

BAR = 240
"""Width in pixels of the bar on which a joint is shown."""


class PageSubject(NamedTuple):
    """What the page is about, and what does not change; policy and robot as the user named them."""

    policy: str
    robot: str
    contract: Contract
    chunk_length: int


def robot_page(subject: PageSubject, shown: Shown) -> str:
    """Return the page as HTML; text from drivers and hooks is escaped."""
    images: list[tuple[Image, str]] | None
    try:
        images = [
            show_camera(pixels, _name_camera(subject, name), size)
            for name, (pixels, size) in shown.frames.items()
        ]
    except ImportError:  # pillow is missing
        images = None
    return render_page(
        "robot",
        "Robot",
        REFRESH_SECONDS,
        mode=shown.mode,
        reason=shown.reason,
        old=None if shown.age < OLD_SECONDS else _format_age(shown.age),
        images=images,
        joints=_show_joints(subject, shown),
        bar=BAR,
        chunk=None if shown.chunk is None else draw_chunk(shown.chunk, subject.contract.schema),
        chunk_age=f"{shown.chunk_age:.1f} s",
        most_events=MOST_EVENTS,
        events=tabulate(
            ("when", "what", "detail"),
            [(_format_ago(shown.now - at), kind, detail) for at, kind, detail in shown.events],
        ),
        about=tabulate(
            ("", ""),
            [
                ("policy", subject.policy),
                ("robot", subject.robot),
                ("rate", f"{subject.contract.schema.rate:g} steps per second"),
                ("chunk", f"{subject.chunk_length} actions"),
                *([("task", subject.contract.task)] if subject.contract.task else []),
            ],
        ),
    )


def _name_camera(subject: PageSubject, name: str) -> str:
    robots = subject.contract.config.cameras.get(name, name)
    return name if robots == name else f"{name} (the robot's {robots})"


def _format_ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago".replace(" ", "\N{NO-BREAK SPACE}")  # on one line


def _format_age(age: float) -> str:
    return "not yet" if np.isnan(age) else f"for {age:.0f} s"


def _show_joints(subject: PageSubject, shown: Shown) -> list[dict[str, Any]]:
    """One line per action, and per state without one."""
    contract = subject.contract
    schema, space, ranges = contract.schema, contract.space, contract.ranges
    # a velocity is shown beside the state of its name, which its command does not wait for
    places = dict(zip(schema.state_names, range(len(schema.state_names)), strict=True))
    shown_by = [
        int(place) if place >= 0 else places.get(name, -1)
        for name, place in zip(schema.action_names, space.measured, strict=True)
    ]
    lines = [
        _show_joint(
            name,
            unit,
            space.kinds[i],
            measured=shown.state[shown_by[i]] if shown_by[i] >= 0 else np.nan,
            command=shown.command[i],
            limits=(space.low[i], space.high[i]),
            demonstrated=(ranges.action_low[i], ranges.action_high[i]),
        )
        for i, (name, unit) in enumerate(schema.actions)
    ]
    for i, (name, unit) in enumerate(schema.states):
        if i not in shown_by:
            demonstrated = ranges.state_low[i], ranges.state_high[i]
            nothing = (np.nan, np.nan)
            line = _show_joint(name, unit, "state", shown.state[i], np.nan, nothing, demonstrated)
            lines.append(line)
    return lines


def _show_joint(
    name: str,
    unit: str,
    kind: str,
    measured: float,
    command: float,
    limits: tuple[float, float],
    demonstrated: tuple[float, float],
) -> dict[str, Any]:
    """Values as text, and their places on a bar from the lowest to the highest of all."""
    values = np.array([measured, command, *limits, *demonstrated], np.float64)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    margin = 0.04 * max(high - low, 1e-9)
    places = (values - low + margin) / (high - low + 2 * margin) * BAR
    at = [round(float(place), 1) if np.isfinite(place) else None for place in places]
    outside = bool(measured < limits[0] or measured > limits[1])  # false where one is NaN
    return {
        "name": name,
        "unit": unit,
        "kind": kind,
        "measured": "-" if np.isnan(measured) else f"{measured:.4g}",
        "command": "-" if np.isnan(command) else f"{command:.4g}",
        "limits": " to ".join(f"{end:.4g}" for end in limits) if np.isfinite(limits).all() else "-",
        "at": at,
        "outside": outside,
    }
