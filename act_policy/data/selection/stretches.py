"""Choose the stretches of each episode that are used: without still ends, by who acted."""

from typing import NamedTuple

import numpy as np

from act_policy.data.dataset import OPERATOR, DemonstrationDataset
from act_policy.data.selection.selection import Selection, moving_part
from act_policy.errors import UserError

SHORTEST = 2
"""Steps of a stretch; a single one shows no motion."""

NO_FAILURE = ("", "end")
"""How a recorded run of a policy may end without a failure: not known, or when it was over."""


class Stretches(NamedTuple):
    """Parts of episodes, in order; an episode may have several, or none.

    episode: int64 (n,).
    ends: int64 (n, 2), first step and end of each.
    """

    episode: np.ndarray
    ends: np.ndarray


def choose_stretches(dataset: DemonstrationDataset, selection: Selection) -> Stretches:
    """Find what a selection leaves of each episode.

    By `trim`, `operator`, `before_failure`, and by `instruction` where episodes have several.

    Raises:
        UserError: they leave nothing.
    """
    parts = moving_part(dataset, selection.trim)
    told = selection.instruction is not None and any(
        len(dataset.instructions(episode)) > 1 for episode in range(len(parts))
    )
    if selection.operator is None and selection.before_failure is None and not told:
        return Stretches(np.arange(len(parts)), parts)
    episodes, ends = [], []
    for episode, (first, end) in enumerate(parts):
        wanted = np.zeros(int(dataset.lengths[episode]) + 2, bool)  # with a border of False
        wanted[1:-1] = _wanted(dataset, episode, selection)
        wanted[: first + 1], wanted[end + 1 :] = False, False
        edges = np.flatnonzero(np.diff(wanted)).reshape(-1, 2)
        for edge in edges[edges[:, 1] - edges[:, 0] >= SHORTEST]:
            episodes.append(episode)
            ends.append(edge)
    if not episodes:
        raise UserError(
            f"{dataset.folder}: select.operator={selection.operator}, "
            f"select.before_failure={selection.before_failure} and "
            f"select.instruction={selection.instruction} leave no step"
        )
    return Stretches(np.array(episodes), np.array(ends))


def _wanted(dataset: DemonstrationDataset, episode: int, selection: Selection) -> np.ndarray:
    """Bool (T,): the steps to use."""
    steps, known = int(dataset.lengths[episode]), OPERATOR in dataset.vector_names
    person = np.ones(steps, bool)  # demonstrations are a person's from beginning to end
    if known:
        person = dataset.vector(episode, OPERATOR)[:, 0] > 0
    wanted = np.ones(steps, bool)
    if selection.operator is not None:
        wanted = person if selection.operator == "person" else ~person
    if (text := selection.instruction) is not None:
        wanted = wanted & dataset.instructions(episode).get(text, True)
    if selection.before_failure is not None:
        count = round(selection.before_failure * dataset.schema.rate)
        # a person had to take over
        failures: list[int] = (np.flatnonzero(~person[:-1] & person[1:]) + 1).tolist()
        if dataset.episodes[episode].ended not in NO_FAILURE and not person[-1]:
            failures.append(steps)
        for failure in failures:
            before = slice(max(0, failure - count), failure)
            wanted[before] &= person[before]
    return wanted
