"""The HTML page of an inspection."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.camera_looks import CameraLook
from act_policy.data.inspection.evidence import ActionReport, DimensionReport
from act_policy.data.inspection.inspect import Inspection
from act_policy.data.inspection.sentences import advice
from act_policy.data.inspection.tables import (
    CAMERA_COLUMNS,
    list_cameras,
    overview,
    verdict_line,
)
from act_policy.report.chart import Chart, draw_lines
from act_policy.report.page import render_page
from act_policy.report.pieces import Image, encode_strip, tabulate

MOST_BYTES = 8_000_000
"""Limit of the episodes on a page: a browser still opens it, and an e-mail still takes it."""
POINTS = 200
"""Most points of a curve; at its width more could not be told apart."""
LINES = 8
"""Most dimensions in one chart: the page has 8 colours."""


class ShownEpisode(NamedTuple):
    """One episode on the page; strips: cameras with their encoded images."""

    name: str
    about: str
    findings: str
    strips: list[tuple[str, list[Image]]]
    charts: list[Chart]

    @property
    def size(self) -> int:
        """Bytes on the page, about."""
        images = sum(len(image.uri) for _, strip in self.strips for image in strip)
        return images + sum(len(chart.svg) for chart in self.charts)


def inspection_page(
    inspection: Inspection, augmented: Sequence[tuple[str, list[Image], list[Image]]] = ()
) -> str:
    """Lay out findings, schema, statistics and some episodes with film strips and curves.

    augmented: cameras with some images as recorded, and as training might see them.
    """
    dataset = inspection.dataset
    return render_page(
        "inspection",
        f"Demonstrations in {inspection.folder.resolve().name}",
        folder=inspection.folder,
        verdict=verdict_line(inspection),
        augmented=augmented,
        findings=[
            (f.verdict, f.kind.value, inspection.sentence(f), advice(f))
            for f in inspection.findings
        ],
        **({"overview": None} if dataset is None else _describe(inspection, dataset)),
    )


def _describe(inspection: Inspection, dataset: DemonstrationDataset) -> dict[str, Any]:
    """Values of the sections that need a dataset that can be read."""
    steps = (np.arange(len(dataset.episodes)), dataset.lengths)
    episodes = _show_episodes(inspection, dataset)
    return {
        "overview": tabulate(("demonstrations", ""), overview(dataset)),
        "cameras": tabulate(CAMERA_COLUMNS, list_cameras(dataset)),
        "dimensions": tabulate(DimensionReport._fields, inspection.dimensions),
        "actions": tabulate(ActionReport._fields, inspection.actions),
        "lengths": draw_lines({"steps": steps}, "episode", "steps", size=(900, 180)),
        "episodes": episodes,
        "episode_count": len(dataset.episodes),
        "spread": len(episodes) == len(inspection.shown) < len(dataset.episodes),
    }


def _show_episodes(inspection: Inspection, dataset: DemonstrationDataset) -> list[ShownEpisode]:
    """Lay out some episodes in full, as many as fit."""
    looks: dict[int, list[CameraLook]] = {episode: [] for episode in inspection.shown}
    for look in inspection.looks:
        looks[look.episode].append(look)
    shown: list[ShownEpisode] = []
    size = 0
    for episode, of_episode in looks.items():
        one = _show_episode(inspection, dataset, episode, of_episode)
        size += one.size
        if shown and size > MOST_BYTES:
            break
        shown.append(one)
    return shown


def _show_episode(
    inspection: Inspection, dataset: DemonstrationDataset, episode: int, looks: list[CameraLook]
) -> ShownEpisode:
    schema = dataset.schema
    seconds = dataset.lengths[episode] / schema.rate
    about = [
        f"{dataset.lengths[episode]} steps, {seconds:.2f} s",
        dataset.episodes[episode].instruction,
    ]
    kinds = [f"{f.kind} ({f.verdict})" for f in inspection.findings if episode in f.episodes]
    return ShownEpisode(
        dataset.episodes[episode].name,
        ". ".join(filter(None, about)),
        ", ".join(dict.fromkeys(kinds)),
        [
            (
                look.camera,
                encode_strip(look.images, [f"{step / schema.rate:.2f} s" for step in look.steps]),
            )
            for look in looks
        ],
        [
            *_draw("state", dataset.state(episode), schema.state_names, schema.rate),
            *_draw("action", dataset.action(episode), schema.action_names, schema.rate),
        ],
    )


def _draw(field: str, values: np.ndarray, names: tuple[str, ...], rate: float) -> Iterator[Chart]:
    for first in range(0, len(names), LINES):
        shown = range(first, min(first + LINES, len(names)))
        curves = {names[i]: _thin(values[:, i], rate) for i in shown}
        yield draw_lines(curves, "seconds", field, size=(540, 220))


def _thin(values: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Keep the lowest and highest value of each part of a long curve; return seconds, values."""
    if len(values) <= POINTS:
        kept = np.arange(len(values))
    else:
        parts = np.array_split(np.arange(len(values)), POINTS // 2)
        finite = np.where(np.isfinite(values), values, 0.0)
        ends = [[p[finite[p].argmin()], p[finite[p].argmax()]] for p in parts]
        kept = np.unique(np.concatenate(ends))
    return kept / rate, values[kept]
