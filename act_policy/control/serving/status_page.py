"""A policy server's status as a page for people: what it serves, how fast, and what went wrong."""

import time
from typing import Any

import numpy as np
from markupsafe import Markup

from act_policy.control.serving.status import EVENTS_KEPT, RATE_SECONDS, Exchange, Snapshot
from act_policy.report.page import figure, image, line_chart, page, paragraph, row, section, table
from act_policy.types import Schema

REFRESH_SECONDS = 2
CHART_SIZE = (560, 280)
LARGEST_WIDTH = 320
"""Pixels; wider images are shown smaller, and sent so."""


def status_page(
    status: Snapshot, schema: Schema, metadata: dict[str, Any], warnings: list[str]
) -> str:
    """Return the page as HTML; its text from clients is escaped."""
    return page(
        f"Policy server: {metadata['policy'].get('name', 'policy')}",
        *[paragraph(Markup("<strong>Warning:</strong> "), warning) for warning in warnings],
        _activity(status),
        *_last(status.last, schema),
        _interventions(status),
        _policy(schema, metadata),
        refresh_seconds=REFRESH_SECONDS,
    )


def _activity(status: Snapshot) -> Markup:
    """Rate, latency and who is connected."""
    facts = [
        ("running for", _duration(time.time() - status.started)),
        ("requests answered", f"{status.requests:,}"),
        (f"requests a second, last {RATE_SECONDS:g} s", f"{status.rate:.1f}"),
    ]
    charts = []
    if len(status.latencies):
        middle, late, worst = np.percentile(status.latencies, (50, 99, 100))
        facts += [
            ("latency in the server, p50", f"{middle:.1f} ms"),
            ("p99", f"{late:.1f} ms"),
            ("worst", f"{worst:.1f} ms"),
        ]
        charts = [
            line_chart(
                {"requests": _histogram(status.latencies)},
                "latency in the server, ms",
                "requests",
                f"Latency of the last {len(status.latencies)} requests",
                CHART_SIZE,
            )
        ]
    clients = [
        (client, _duration(time.time() - since), requests)
        for client, since, requests in status.clients
    ]
    return section(
        "Activity",
        row(table(("", ""), facts), *charts),
        table(("client", "connected for", "requests"), clients)
        if clients
        else paragraph("No client is connected."),
    )


def _last(last: Exchange | None, schema: Schema) -> list[Markup]:
    """What the policy saw last, and what it answered."""
    if last is None:
        return []
    ago = _duration(time.time() - last.time)
    try:
        images = [_camera(last.observation.images[name], name) for name in schema.camera_names]
    except ImportError:
        images = [paragraph("Images are shown where pillow is installed.")]
    state = [
        (name, float(value), unit)
        for name, value, unit in zip(
            schema.state_names, last.observation.state, schema.state_units, strict=True
        )
    ]
    seconds = np.arange(len(last.chunk)) / schema.rate
    charts = [
        line_chart(
            {
                name: (seconds, last.chunk[:, column])
                for column, (name, of) in enumerate(
                    zip(schema.action_names, schema.action_units, strict=True)
                )
                if of == unit
            },
            "seconds from the observation",
            unit,
            f"Actions in {unit}" if unit else "Actions without a unit",
            CHART_SIZE,
        )
        for unit in dict.fromkeys(schema.action_units)
    ]
    return [
        section(
            "Last observation",
            paragraph(f"From {last.client}, {ago} ago."),
            row(*images, table(("state", "value", "unit"), state)),
        ),
        section("Last chunk", row(*charts)),
    ]


def _interventions(status: Snapshot) -> Markup:
    """Clients that were refused, that failed, or that were lost."""
    if not status.events:
        return section("Errors and refusals", paragraph("None."))
    counts = ", ".join(f"{kind}: {count}" for kind, count in sorted(status.counters.items()))
    return section(
        "Errors and refusals",
        paragraph(f"{counts}. The last {EVENTS_KEPT} at most, the newest first:"),
        table(
            ("when", "client", "what"),
            [
                (f"{_duration(time.time() - event.time)} ago", event.client, event.text)
                for event in reversed(status.events)
            ],
        ),
    )


def _policy(schema: Schema, metadata: dict[str, Any]) -> Markup:
    """What the policy was trained on and must get."""
    keys = metadata["observation_keys"]
    rows = [
        (keys["cameras"][camera.name], f"camera {camera.name}", f"{camera.height} x {camera.width}")
        for camera in schema.cameras
    ]
    rows.append((keys["state"], "state", _names(schema.state_names, schema.state_units)))
    if schema.environment_state_names:
        names = ", ".join(schema.environment_state_names)
        rows.append((keys["environment_state"], "environment state", names))
    facts = [
        *metadata["policy"].items(),
        ("rate", f"{schema.rate:g} steps a second"),
        ("chunk", f"{metadata['chunk_length']} actions"),
        ("action", _names(schema.action_names, schema.action_units)),
    ]
    return section(
        "Policy",
        table(("", ""), facts),
        table(("key in the client's message", "input", "size, or names and units"), rows),
    )


def _names(names: tuple[str, ...], units: tuple[str, ...]) -> str:
    pairs = zip(names, units, strict=True)
    return ", ".join(f"{name} ({unit})" if unit else name for name, unit in pairs)


def _camera(pixels: np.ndarray, name: str) -> Markup:
    """A camera's image (h, w, 3); of a wide one every n-th pixel, a small one larger."""
    height, width, _ = pixels.shape
    step = -(-width // LARGEST_WIDTH)
    small = pixels[::step, ::step]
    scale = min(3.0, max(1.0, 240 / small.shape[1]))
    shown = image(small, f"what camera {name} saw last", scale)
    return figure(shown, f"{name}, {height} x {width}")


def _histogram(latencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outline of 40 bins as a line; what lies beyond p99 is in the last of them."""
    low, high = latencies.min(), np.percentile(latencies, 99)
    counts, edges = np.histogram(
        np.minimum(latencies, high), bins=40, range=(low, max(high, low + 0.1))
    )
    return np.repeat(edges, 2), np.concatenate([[0], np.repeat(counts, 2), [0]])


def _duration(seconds: float) -> str:
    """Seconds in words: 12 s, 3 min 4 s, 2 h 10 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
