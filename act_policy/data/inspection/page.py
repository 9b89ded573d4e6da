"""An inspection as one HTML page that needs nothing else."""

from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.camera_looks import CameraLook
from act_policy.data.inspection.finding import Finding, Verdict
from act_policy.data.inspection.inspect import Inspection
from act_policy.data.inspection.sentences import advice
from act_policy.data.inspection.tables import overview, verdict_line
from act_policy.report.page import (
    Part,
    figure,
    film_strip,
    line_chart,
    page,
    paragraph,
    row,
    section,
    table,
)

MOST_BYTES = 8_000_000
"""Episodes are shown until the page is so large: a browser and an e-mail still take it."""
POINTS = 200
"""Points of a curve; more would not be told apart at its width."""
LINES = 8
"""Dimensions in one chart: the page has so many colours."""


_VERDICT = {
    verdict: Markup('<strong style="color: var(--{})">{}</strong>').format(colour, verdict.value)
    for verdict, colour in ((Verdict.ERROR, "c5"), (Verdict.WARNING, "c4"), (Verdict.NOTE, "c6"))
}
"""Each verdict in its colour: red, ochre, grey."""


def inspection_page(inspection: Inspection) -> str:
    """Lay out findings, schema, statistics and some episodes with film strips and curves."""
    dataset = inspection.dataset
    parts: list[Part] = [_findings(inspection)]
    if dataset is not None:
        parts += [_schema(dataset), _dimensions(inspection), _lengths(dataset)]
        parts += _episodes(inspection, dataset, MOST_BYTES - sum(map(len, parts)))
    return page(f"Demonstrations in {inspection.folder.resolve().name}", *parts)


def _findings(inspection: Inspection) -> Part:
    rows = [
        (_VERDICT[f.verdict], f.kind.value, inspection.sentence(f), advice(f))
        for f in inspection.findings
    ]
    return section(
        "Findings",
        paragraph(f"{inspection.folder}: {verdict_line(inspection)}."),
        *([table(("verdict", "what", "found", "what to do"), rows)] if rows else []),
    )


def _schema(dataset: DemonstrationDataset) -> Part:
    cameras = [(c.name, f"{c.height}", f"{c.width}") for c in dataset.schema.cameras]
    return section(
        "Schema",
        row(
            table(("demonstrations", ""), overview(dataset)),
            table(("camera", "height", "width"), cameras),
        ),
    )


def _dimensions(inspection: Inspection) -> Part:
    head = ("field", "name", "unit", "mean", "std", "min", "max", "remark")
    return section("Ranges and statistics", table(head, [tuple(d) for d in inspection.dimensions]))


def _lengths(dataset: DemonstrationDataset) -> Part:
    """How many steps each episode has, in their order."""
    steps = (np.arange(dataset.episode_count), dataset.lengths)
    chart = line_chart({"steps": steps}, "episode", "steps", size=(900, 180))
    return section("Length of the episodes", chart)


def _episodes(
    inspection: Inspection, dataset: DemonstrationDataset, most_bytes: int
) -> Iterator[Part]:
    """Some episodes in full, as many as fit."""
    looks: dict[int, list[CameraLook]] = {episode: [] for episode in inspection.shown}
    for seen in inspection.looks:
        looks[seen.episode].append(seen)
    made: list[Part] = []
    for episode, of_episode in looks.items():
        part = _episode(inspection, dataset, episode, of_episode)
        if made and sum(map(len, made)) + len(part) > most_bytes:
            break
        made.append(part)
    count = dataset.episode_count
    said = f"{len(made)} of {count} are shown in full"
    if len(made) == len(looks) < count:
        said += ", spread over all but for those that warnings name"
    said += ". Images are shrunk, curves keep their lowest and highest values."
    yield section("Episodes", paragraph(said))
    yield from made


def _episode(
    inspection: Inspection, dataset: DemonstrationDataset, episode: int, looks: list[CameraLook]
) -> Part:
    schema = dataset.schema
    seconds = dataset.lengths[episode] / schema.rate
    concerned = [f for f in inspection.findings if episode in f.episodes]
    about = [f"{dataset.lengths[episode]} steps, {seconds:.2f} s", dataset.instructions[episode]]
    parts: list[Part] = [paragraph(". ".join(filter(None, about)))]
    if concerned:
        parts.append(paragraph("Findings: " + _kinds(concerned)))
    for seen in looks:
        labels = [f"{step / schema.rate:.2f} s" for step in seen.steps]
        if seen.images:
            parts.append(figure(film_strip(seen.images, labels), f"camera {seen.camera}"))
        else:
            parts.append(paragraph(f"camera {seen.camera}: no image can be decoded"))
    charts = [
        *_charts("state", dataset.state(episode), schema.state_names, schema.rate),
        *_charts("action", dataset.action(episode), schema.action_names, schema.rate),
    ]
    return section(dataset.episode_names[episode], *parts, row(*charts))


def _kinds(findings: list[Finding]) -> str:
    return ", ".join(dict.fromkeys(f"{f.kind} ({f.verdict})" for f in findings))


def _charts(field: str, values: np.ndarray, names: tuple[str, ...], rate: float) -> Iterator[Part]:
    for first in range(0, len(names), LINES):
        shown = range(first, min(first + LINES, len(names)))
        curves = {names[i]: _thinned(values[:, i], rate) for i in shown}
        yield line_chart(curves, "seconds", field, size=(540, 220))


def _thinned(values: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and values of a curve, the lowest and the highest of each part where it is long."""
    if len(values) <= POINTS:
        kept = np.arange(len(values))
    else:
        parts = np.array_split(np.arange(len(values)), POINTS // 2)
        finite = np.where(np.isfinite(values), values, 0.0)
        ends = [[p[finite[p].argmin()], p[finite[p].argmax()]] for p in parts]
        kept = np.unique(np.concatenate(ends))
    return kept / rate, values[kept]
