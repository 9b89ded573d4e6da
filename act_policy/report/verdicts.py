"""Verdicts on pairs of policies: as plain values, in sentences, and as charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from act_policy.judging.schedule import Schedule
from act_policy.judging.verdict import MOST_FURTHER_PAIRS, Verdict, forecast_pairs, trace_bounds
from act_policy.report.chart import Chart, draw_lines


def list_verdicts(names: Sequence[str], schedule: Schedule, margin: float) -> list[dict[str, Any]]:
    """Return every pair's verdict and what it rests on, as plain values.

    Args:
        names: of the schedule's policies.
        schedule: with the outcomes so far.
        margin: of the schedule.
    """
    verdicts = []
    for pair, judgement in schedule.judged.items():
        further = None
        if not judgement.is_decided:
            further = forecast_pairs(*schedule.outcomes(pair), margin, schedule.of_each)
        verdicts.append(
            {
                "a": names[pair[0]],
                "b": names[pair[1]],
                "verdict": judgement.verdict.name.lower(),
                "difference": judgement.difference,
                "interval": [judgement.low, judgement.high],
                "pairs": judgement.pairs,
                "discordant": judgement.discordant,
                "further_pairs": further,
            }
        )
    return verdicts


def say_verdict(verdict: Mapping[str, Any], margin: float) -> str:
    """Say in a sentence what is known of a pair, with the difference in percentage points."""
    a, b, pairs = verdict["a"], verdict["b"], verdict["pairs"]
    kind = Verdict[verdict["verdict"].upper()]
    if kind in (Verdict.A_BETTER, Verdict.B_BETTER):
        sign = 1 if kind is Verdict.B_BETTER else -1
        better, worse = (b, a) if sign > 0 else (a, b)
        low, high = sorted(100 * sign * bound for bound in verdict["interval"])
        return (
            f"{better} is better than {worse}: after {pairs} initial states it succeeded "
            f"{100 * sign * verdict['difference']:.0f} percentage points more often "
            f"(its advantage is between {low:.1f} and {high:.1f})."
        )
    low, high = (100 * bound for bound in verdict["interval"])
    rest = f"between {low:+.1f} and {high:+.1f} percentage points after {pairs} initial states"
    if kind is Verdict.NO_DIFFERENCE:
        return (
            f"{a} and {b} do not differ by more than {100 * margin:g} percentage points: "
            f"the success rate of the second minus that of the first is {rest}."
        )
    more = verdict["further_pairs"]
    future = (
        f"more than {MOST_FURTHER_PAIRS} more would be needed"
        if more is None
        else f"about {more} more would probably do"
    )
    return (
        f"Cannot tell {a} and {b} apart yet: the success rate of the second minus that of the "
        f"first is {rest}; {future}."
    )


def draw_courses(
    names: Sequence[str],
    schedule: Schedule,
    verdicts: Sequence[Mapping[str, Any]],
    margin: float,
) -> list[Chart]:
    """Draw for each of these verdicts how the difference and its bounds developed."""
    charts = []
    for verdict in verdicts:
        pair = names.index(verdict["a"]), names.index(verdict["b"])
        a, b = (outcomes[: verdict["pairs"]] for outcomes in schedule.outcomes(pair))
        course = trace_bounds(a, b, schedule.of_each)
        pairs = np.arange(1, len(course.low) + 1)
        ends = pairs[[0, -1]] if len(pairs) else pairs
        lines = {
            f"{verdict['b']} minus {verdict['a']}": (pairs, 100 * course.difference),
            "highest it may be": (pairs, 100 * course.high),
            "lowest it may be": (pairs, 100 * course.low),
            "no difference": (ends, np.zeros(len(ends))),
        }
        if margin > 0:
            lines["margin"] = (
                np.array([*ends, np.nan, *ends]),
                np.repeat([100 * margin, np.nan, -100 * margin], [len(ends), 1, len(ends)]),
            )
        charts.append(
            draw_lines(
                lines,
                "initial states",
                "percentage points",
                "Difference of the success rates",
                size=(620, 320),
            )
        )
    return charts
