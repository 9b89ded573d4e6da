"""A policy server's status as a page for people: what it serves, how fast, and what went wrong."""

import time
from typing import Any

import numpy as np

from act_policy.control.page.view import CHART_SIZE, draw_chunk, show_camera
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.serving.status import EVENTS_KEPT, RATE_SECONDS, Exchange, ServerStatus
from act_policy.report.chart import Chart, draw_lines
from act_policy.report.page import render_page
from act_policy.report.pieces import Image, Table, tabulate
from act_policy.types import Schema

REFRESH_SECONDS = 2


def status_page(
    status: ServerStatus, schema: Schema, metadata: dict[str, Any], warnings: list[str]
) -> str:
    """Return the page as HTML; its text from clients is escaped."""
    now, latencies = time.time(), status.latencies
    return render_page(
        "status",
        f"Policy server: {metadata['policy'].get('name', 'policy')}",
        REFRESH_SECONDS,
        warnings=warnings,
        activity=tabulate(("", ""), _list_activity(status, latencies, now)),
        latencies=_draw_latencies(latencies) if len(latencies) else None,
        clients=tabulate(
            ("client", "connected for", "requests"),
            [
                (str(client), _format_duration(now - client.since), client.requests)
                for client in status.clients
            ],
        ),
        last=None if status.last is None else _show_exchange(status.last, schema, now),
        event_counts=", ".join(f"{kind}: {n}" for kind, n in sorted(status.counters.items())),
        events_kept=EVENTS_KEPT,
        events=tabulate(
            ("when", "client", "what"),
            [
                (_format_ago(now - event.time), event.client, event.text)
                for event in reversed(status.events)
            ],
        ),
        policy=tabulate(
            ("", ""),
            [
                *metadata["policy"].items(),
                ("rate", f"{schema.rate:g} steps per second"),
                ("chunk", f"{metadata['chunk_length']} actions"),
                ("action", _join_names(schema.actions)),
            ],
        ),
        inputs=_tabulate_inputs(schema, metadata["observation_keys"]),
        tasks=_tabulate_tasks(schema),
    )


def _list_activity(
    status: ServerStatus, latencies: np.ndarray, now: float
) -> list[tuple[str, str]]:
    """List requests, their rate and their latency, as names and values."""
    facts = [
        ("running for", _format_duration(now - status.started)),
        ("requests answered", f"{status.requests:,}"),
        (f"requests per second, last {RATE_SECONDS:g} s", f"{status.rate:.1f}"),
    ]
    if len(latencies):
        middle, late, worst = np.percentile(latencies, (50, 99, 100))
        facts += [
            ("latency in the server, p50", f"{middle:.1f} ms"),
            ("p99", f"{late:.1f} ms"),
            ("worst", f"{worst:.1f} ms"),
        ]
    return facts


def _draw_latencies(latencies: np.ndarray) -> Chart:
    """Draw the outline of a histogram of 40 bins; the last one counts all beyond p99 too."""
    low, high = latencies.min(), np.percentile(latencies, 99)
    counts, edges = np.histogram(
        np.minimum(latencies, high), bins=40, range=(low, max(high, low + 0.1))
    )
    outline = np.repeat(edges, 2), np.concatenate([[0], np.repeat(counts, 2), [0]])
    return draw_lines(
        {"requests": outline},
        "latency in the server, ms",
        "requests",
        f"Latency of the last {len(latencies)} requests",
        CHART_SIZE,
    )


def _show_exchange(last: Exchange, schema: Schema, now: float) -> dict[str, Any]:
    """Lay out the observation for the template and draw the actions, one chart per unit."""
    images: list[tuple[Image, str]] | None
    try:
        seen = ((name, last.observation.images[name]) for name in schema.camera_names)
        images = [show_camera(pixels, name, pixels.shape[:2]) for name, pixels in seen]
    except ImportError:  # pillow is missing
        images = None
    values = map(float, last.observation.state)
    state = zip(schema.state_names, values, schema.state_units, strict=True)
    told = schema.task_index(last.observation.task)
    return {
        "client": last.client,
        "ago": _format_ago(now - last.time),
        "task": None if told is None else schema.tasks[int(told)],
        "images": images,
        "state": tabulate(("state", "value", "unit"), state),
        "charts": draw_chunk(last.chunk, schema),
    }


def _tabulate_inputs(schema: Schema, keys: dict[str, Any]) -> Table:
    """List what a client must send."""
    rows = [
        (keys["cameras"][camera.name], f"camera {camera.name}", f"{camera.height} x {camera.width}")
        for camera in schema.cameras
    ]
    rows.append((keys["state"], "state", _join_names(schema.states)))
    if schema.environment_state_names:
        names = ", ".join(schema.environment_state_names)
        rows.append((keys["environment_state"], "environment state", names))
    if schema.chooses_task:
        words = f"one of the {len(schema.tasks)} tasks below, in the same words"
        rows.append((ObservationKeys.from_dict(keys).task, "task", words))
    return tabulate(
        ("key in the client's message", "input", "size, names and units, or words"), rows
    )


def _tabulate_tasks(schema: Schema) -> Table | None:
    """List the tasks of which a client must choose one; None where there is nothing to choose."""
    return tabulate(("task",), [(task,) for task in schema.tasks]) if schema.chooses_task else None


def _join_names(names_and_units: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({unit})" if unit else name for name, unit in names_and_units)


def _format_ago(seconds: float) -> str:
    return f"{_format_duration(seconds)} ago".replace(" ", "\N{NO-BREAK SPACE}")  # on one line


def _format_duration(seconds: float) -> str:
    """Format seconds: 12 s, 3 min 4 s, 2 h 10 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
