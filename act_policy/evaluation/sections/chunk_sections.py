"""Charts of predicted chunks and open-loop errors, as values for the report's template."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from act_policy.evaluation.open_loop.score import POLICY, Chunk, OpenLoop
from act_policy.evaluation.results import format_errors
from act_policy.report.chart import Chart
from act_policy.report.pieces import Table, format_count, tabulate
from act_policy.report.plot import plot_lines
from act_policy.types import Schema

CHART = (275, 190)
"""Width and height in pixels; four fit beside each other."""
EXECUTED, MEASURED = "executed", "measured"
"""Actions that were carried out, and what the joints then did."""

LEAST_SPAN = 0.02
"""Of an axis of actions or errors, in any unit: smaller differences move no arm."""


class EpisodeChunks(NamedTuple):
    """Charts of one episode and the words before them."""

    says: str
    charts: list[Chart]


class ErrorsShown(NamedTuple):
    """Open-loop errors.

    result: says which episodes were scored.
    chunks: how many of them, in words.
    held: a predicate, how holding still acts.
    table: errors of each action, of the policy and the baselines.
    charts: errors over the horizon, one per action.
    """

    result: OpenLoop
    chunks: str
    held: str
    table: Table
    charts: list[Chart]


def draw_chunks(
    schema: Schema, lines: Mapping[str, np.ndarray], chunks: Mapping[int, np.ndarray]
) -> list[Chart]:
    """Draw one chart per action: whole lines, and each predicted chunk from its step on.

    Args:
        schema: names and units.
        lines: name -> (T, a); the first is what the chunks are to be compared with.
        chunks: step -> (k, a).
    """
    charts = []
    broad = next(iter(lines))
    for i, (name, unit) in enumerate(schema.actions):
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
            plot_lines(
                curves, "step", "", label_action(name, unit), CHART, False, LEAST_SPAN, broad
            )
        )
    return charts


def match_joints(schema: Schema, states: np.ndarray) -> np.ndarray:
    """Order states (T, s) as actions of the same name and unit, (T, a); NaN where there is none."""
    found = np.full((len(states), schema.action_size), np.nan)
    for i, action in enumerate(schema.actions):
        if action in schema.states:
            found[:, i] = states[:, schema.states.index(action)]
    return found


def find_closest(executed: np.ndarray, demonstrations: Sequence[np.ndarray]) -> np.ndarray:
    """Find the demonstration (T, a) whose actions differ least from those executed (t, a).

    They are compared step by step up to the end of the shorter one, in standard deviations.
    """
    scale = np.concatenate(demonstrations).std(axis=0).clip(min=1e-6)

    def difference(demonstration: np.ndarray) -> float:
        steps = min(len(executed), len(demonstration))
        return float((np.abs(executed[:steps] - demonstration[:steps]) / scale).mean())

    return min(demonstrations, key=difference)


def show_errors(result: OpenLoop) -> ErrorsShown:
    """Lay out the errors of each joint beside those of the baselines, then over the horizon."""
    schema = result.schema
    rows = [
        [name, unit or "-", *format_errors(result.of_joints(who)[i] for who in result.errors)]
        for i, (name, unit) in enumerate(schema.actions)
    ]
    rows.append(
        ["mean of error / standard deviation", "-"]
        + [f"{result.normalised(who):.3f}" for who in result.errors]
    )
    predictors = {
        who: "policy" if who == POLICY else who.replace("_", " ") for who in result.errors
    }
    horizon = np.arange(1, len(result.counts) + 1)
    charts = []
    for i, (name, unit) in enumerate(schema.actions):
        curves = {predictors[who]: (horizon, errors[:, i]) for who, errors in result.errors.items()}
        title = label_action(name, unit)
        charts.append(plot_lines(curves, "steps ahead", "", title, CHART, least_span=LEAST_SPAN))
    table = tabulate(["action", "unit", *predictors.values()], rows)
    chunks = format_count(len(result.chunks), "chunk")
    return ErrorsShown(result, chunks, describe_holding_still(result), table, charts)


def show_demonstrated_chunks(result: OpenLoop) -> EpisodeChunks:
    """Draw what was demonstrated, measured and predicted in the first scored episode."""
    episode = result.episodes[0]
    states, actions = result.dataset.state(episode), result.dataset.action(episode)
    lines = {"demonstrated": actions, MEASURED: match_joints(result.schema, states)}
    chunks = choose_apart(result.chunks, episode)
    name = result.dataset.episodes[episode].name
    return EpisodeChunks(f"Episode {name}.", draw_chunks(result.schema, lines, chunks))


def choose_apart(chunks: Sequence[Chunk], episode: int) -> dict[int, np.ndarray]:
    """Choose predictions of an episode that do not overlap: step -> chunk."""
    chosen: dict[int, np.ndarray] = {}
    end = 0
    for chunk in chunks:
        if chunk.episode == episode and chunk.step >= end:
            chosen[chunk.step] = chunk.predicted
            end = chunk.step + len(chunk.predicted)
    return chosen


def describe_holding_still(result: OpenLoop) -> str:
    """Say what holding still repeats, after these two words."""
    names: dict[str, list[str]] = {}
    for name, kind in result.held.items():
        names.setdefault(kind, []).append(name)
    said = []
    if "state" in names:
        said.append("keeps every joint where it is")
    if zero := names.get("zero"):
        said.append(f"does not move {', '.join(zero)}")
    if last := names.get("last action"):
        said.append(f"repeats the last {', '.join(last)}")
    return " and ".join(said)


def label_action(name: str, unit: str) -> str:
    """Join name and unit, where there is one."""
    return f"{name} ({unit})" if unit else name
