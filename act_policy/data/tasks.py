"""Tasks: what the operator was told to do, in words, step by step."""

from collections.abc import Sequence

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, place_of
from act_policy.errors import UserError, list_some


def list_tasks(dataset: DemonstrationDataset) -> tuple[str, ...]:
    """Return every instruction of a dataset once, in the order of its episodes."""
    told = (text for e in range(len(dataset.episodes)) for text in dataset.instructions(e))
    return tuple(dict.fromkeys(text for text in told if text))


def task_ends(dataset: DemonstrationDataset, episode: int) -> np.ndarray:
    """Return int64 (T,), for each step the last one before the instruction changes."""
    numbers = np.zeros(int(dataset.lengths[episode]), np.int64)
    for number, steps in enumerate(dataset.instructions(episode).values()):
        numbers[steps] = number
    ends = np.append(np.flatnonzero(np.diff(numbers)), len(numbers) - 1)
    last: np.ndarray = ends[np.searchsorted(ends, np.arange(len(numbers)))]
    return last


def number_tasks(dataset: DemonstrationDataset, tasks: Sequence[str]) -> np.ndarray | None:
    """Return int64 (steps of all episodes,), the index of each one's task.

    None where there are fewer than two tasks.

    Raises:
        UserError: the operator was told none of them at a step.
    """
    if len(tasks) < 2:
        return None
    numbers = {text: number for number, text in enumerate(tasks)}
    every = []
    for episode in range(len(dataset.episodes)):
        found = np.full(int(dataset.lengths[episode]), -1)
        for text, steps in dataset.instructions(episode).items():
            found[steps] = numbers.get(text, -1)
        if (found < 0).any():
            raise UserError(
                f"{place_of(dataset, episode)}: step {int(np.argmin(found))} has none of the "
                f"{len(tasks)} instructions {list_some([repr(task) for task in tasks])}. Leave the "
                "episode out with data.select.exclude=[...], give it one (convert_dataset.py "
                "instruction=...), or set data.select.tasks=false, and the policy is told none"
            )
        every.append(found)
    return np.concatenate(every)
