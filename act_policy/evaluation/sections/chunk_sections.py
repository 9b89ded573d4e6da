"""Predicted chunks beside what was done, and open-loop errors, as sections of a page."""

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from act_policy.evaluation.open_loop import POLICY, Chunk, OpenLoop
from act_policy.evaluation.report import errors_in_words
from act_policy.report.page import details, line_chart, paragraph, row, section, table
from act_policy.types import Schema

CHART = (275, 190)
"""Four beside each other."""
EXECUTED, MEASURED = "executed", "measured"
"""Actions that were carried out, and what the joints then did."""

LEAST_SPAN = 0.02
"""Of an axis of actions or errors, in any unit: smaller differences move no arm."""


def chunk_charts(
    schema: Schema, lines: Mapping[str, np.ndarray], chunks: Mapping[int, np.ndarray]
) -> Markup:
    """One chart an action: whole lines, and the predicted chunks from the step of each on.

    Args:
        schema: names and units.
        lines: name -> (T, a); the first is what the chunks are to be compared with.
        chunks: step -> (k, a).
    """
    charts = []
    broad = next(iter(lines))
    for i, (name, unit) in enumerate(zip(schema.action_names, schema.action_units, strict=True)):
        xs, ys = [], []
        for step, chunk in sorted(chunks.items()):
            # a gap between one chunk and the next
            xs.append(np.append(step + np.arange(len(chunk)), step + len(chunk)))
            ys.append(np.append(chunk[:, i], np.nan))
        curves = {"predicted": (np.concatenate(xs), np.concatenate(ys))}
        curves |= {
            label: (np.arange(len(line)), line[:, i])
            for label, line in lines.items()
            if np.isfinite(line[:, i]).any()
        }
        charts.append(
            line_chart(curves, "step", "", named(name, unit), CHART, False, LEAST_SPAN, broad)
        )
    return row(*charts)


def joints(schema: Schema, states: np.ndarray) -> np.ndarray:
    """Of states (T, s) those that are actions too, by name and unit, NaN for the others: (T, a)."""
    columns = {
        state: i for i, state in enumerate(zip(schema.state_names, schema.state_units, strict=True))
    }
    found = np.full((len(states), schema.action_size), np.nan)
    for i, action in enumerate(zip(schema.action_names, schema.action_units, strict=True)):
        if action in columns:
            found[:, i] = states[:, columns[action]]
    return found


def closest(executed: np.ndarray, demonstrations: Sequence[np.ndarray]) -> np.ndarray:
    """The demonstration (T, a) whose actions differ least from those executed (t, a).

    Compared step by step as far as both go, each action in its standard deviations.
    """
    scale = np.concatenate(demonstrations).std(axis=0).clip(min=1e-6)

    def difference(demonstration: np.ndarray) -> float:
        steps = min(len(executed), len(demonstration))
        apart = np.abs(executed[:steps] - demonstration[:steps]) / scale
        return float(apart.mean())

    return min(demonstrations, key=difference)


def open_loop_section(result: OpenLoop) -> Markup:
    """Errors a joint beside the baselines', then over the horizon."""
    schema = result.schema
    rows = [
        [name, unit or "-", *errors_in_words(result.of_joints(who)[i] for who in result.errors)]
        for i, (name, unit) in enumerate(zip(schema.action_names, schema.action_units, strict=True))
    ]
    rows.append(
        ["mean of error / standard deviation", "-"]
        + [f"{result.normalised(who):.3f}" for who in result.errors]
    )
    charts = []
    for i, (name, unit) in enumerate(zip(schema.action_names, schema.action_units, strict=True)):
        horizon = np.arange(1, len(result.counts) + 1)
        curves = {words(who): (horizon, errors[:, i]) for who, errors in result.errors.items()}
        charts.append(
            line_chart(curves, "steps ahead", "", named(name, unit), CHART, least_span=LEAST_SPAN)
        )
    return section(
        "Open-loop error",
        paragraph(
            f"Mean absolute difference between the actions demonstrated and those predicted from "
            f"what was observed, over {len(result.chunks)} chunks of {result.says} "
            f"(in {result.dataset.folder}). {holding_still(result)}{nearest(result)}"
        ),
        table(["action", "unit", *(words(who) for who in result.errors)], rows),
        details("Error over the horizon", row(*charts), unfolded=True),
    )


def open_loop_chunks_section(result: OpenLoop) -> Markup:
    """Of the first scored episode what was demonstrated, measured and predicted."""
    episode = result.episodes[0]
    states, actions = result.dataset.state(episode), result.dataset.action(episode)
    lines = {"demonstrated": actions, MEASURED: joints(result.schema, states)}
    return section(
        "Predicted chunks and a demonstration",
        paragraph(f"Episode {result.dataset.episode_names[episode]}."),
        chunk_charts(result.schema, lines, apart(result.chunks, episode)),
    )


def apart(chunks: Sequence[Chunk], episode: int) -> dict[int, np.ndarray]:
    """Step -> chunk of those predictions of an episode that do not overlap."""
    chosen: dict[int, np.ndarray] = {}
    end = 0
    for chunk in chunks:
        if chunk.episode == episode and chunk.step >= end:
            chosen[chunk.step] = chunk.predicted
            end = chunk.step + len(chunk.predicted)
    return chosen


def holding_still(result: OpenLoop) -> str:
    """Say what holding still repeats."""
    kinds = set(result.held.values())
    if kinds == {"state"}:
        return "Holding still keeps every joint where it is. "
    if kinds == {"last action"}:
        return "Holding still repeats the last action, as no action is a state by name and unit. "
    repeated = ", ".join(name for name, kind in result.held.items() if kind != "state")
    return f"Holding still keeps every joint where it is and repeats the last {repeated}. "


def nearest(result: OpenLoop) -> str:
    """Say among what the nearest demonstration is sought."""
    if result.pool is None:
        return ""
    return f"The nearest demonstration is the one of the most similar state among {result.pool}."


def words(who: str) -> str:
    """As it is called on the page."""
    return "policy" if who == POLICY else who.replace("_", " ")


def named(name: str, unit: str) -> str:
    """Name with unit."""
    return f"{name} ({unit})" if unit else name
