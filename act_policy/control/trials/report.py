"""The report of trials: one page with the success rate and the film of each episode."""

import base64
from pathlib import Path
from typing import Any, NamedTuple

from act_policy.control.trials.results import TrialEpisode, TrialResults
from act_policy.control.trials.turns import BlindTurns
from act_policy.intervals import wilson_interval
from act_policy.report.chart import Chart
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import Table, tabulate
from act_policy.report.verdicts import draw_courses, say_verdict

REPORT = "report.html"
FILMS = "films"


def write_report(folder: Path, results: TrialResults, turns: BlindTurns | None = None) -> None:
    """Write report.html.

    Args:
        folder: holds films/, of which each episode's is put into the page if it is there.
        results: of at least one episode.
        turns: of a comparison that is over; the page names its policies.

    Raises:
        UserError: the page cannot be written.
    """
    n = len(results.episodes)
    low, high = wilson_interval(results.successes, n)
    subject = {name: _as_text(value) for name, value in results.subject.items()}
    played = [""] * n
    if turns is not None:
        played = [f"{turns.names[policy]}, " for policy in results.played]
    page = render_page(
        "trials",
        "Trials on a robot",
        hidden=turns is None and bool(results.played),
        comparison=None if turns is None else _show_comparison(turns),
        success=tabulate(
            ("successes", "success rate", "95% interval", "discarded and repeated"),
            [
                (
                    f"{results.successes} of {n}",
                    f"{results.successes / n:.1%}",
                    f"{low:.1%} to {high:.1%}",
                    results.discarded,
                )
            ],
        ),
        films=[
            (
                _encode_film(folder / FILMS / episode.film) if episode.film else None,
                f"{who}episode {episode.episode}: {'success' if episode.success else 'failure'}",
                f"{_describe_state(episode)}{episode.seconds:g} s; ended: {episode.ended_by}",
            )
            for who, episode in zip(played, results.episodes, strict=True)
        ],
        made_with=tabulate(("", ""), subject.items()),
    )
    write_page(folder / REPORT, page)


class Comparison(NamedTuple):
    """What the page shows of a comparison: sentences, a row for each policy, and the bounds."""

    verdicts: list[str]
    table: Table
    courses: list[Chart]
    error: str


def _show_comparison(turns: BlindTurns) -> Comparison:
    compared, schedule = turns.compare(), turns.schedule()
    rows = []
    for policy in compared["policies"]:
        low, high = policy["interval"]
        rows.append(
            (
                *(policy["name"], policy["letters"]),
                f"{policy['successes']} of {policy['episodes']}",
                f"{policy['success_rate']:.1%}",
                f"{low:.1%} to {high:.1%}",
            )
        )
    return Comparison(
        [say_verdict(verdict, turns.margin) for verdict in compared["verdicts"]],
        tabulate(("policy", "letters", "successes", "success rate", "95% interval"), rows),
        draw_courses(turns.names, schedule, compared["verdicts"], turns.margin),
        f"{100 * (1 - turns.confidence):.3g}%",
    )


def _describe_state(episode: TrialEpisode) -> str:
    return "" if episode.state is None else f"initial state {episode.state}, "


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(_as_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return "none" if value is None else str(value)


def _encode_film(path: Path) -> str | None:
    """The film as an address that holds it; None where it was not made."""
    if not path.is_file():
        return None
    return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}"
