"""The report of trials: one page with the success rate and the film of each episode."""

import base64
from pathlib import Path
from typing import Any

from act_policy.control.trials.results import TrialResults
from act_policy.intervals import wilson_interval
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import tabulate

REPORT = "report.html"
FILMS = "films"


def write_report(folder: Path, results: TrialResults) -> None:
    """Write report.html.

    Args:
        folder: holds films/, of which each episode's is put into the page if it is there.
        results: of at least one episode.

    Raises:
        UserError: the page cannot be written.
    """
    n = len(results.episodes)
    low, high = wilson_interval(results.successes, n)
    subject = {name: _as_text(value) for name, value in results.subject.items()}
    page = render_page(
        "trials",
        "Trials on a robot",
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
                f"episode {episode.episode}: {'success' if episode.success else 'failure'}",
                f"{episode.seconds:g} s, ended by {episode.ended_by}",
            )
            for episode in results.episodes
        ],
        made_with=tabulate(("", ""), subject.items()),
    )
    write_page(folder / REPORT, page)


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)


def _encode_film(path: Path) -> str | None:
    """The film as an address that holds it; None where it was not made."""
    if not path.is_file():
        return None
    return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}"
