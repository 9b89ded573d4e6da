"""The demonstrations that a policy was trained on, as its rollouts need them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from act_policy.data.aloha.episode import read_recorded_config
from act_policy.data.lerobot.hub import is_at_hand
from act_policy.data.selection.demonstrations import RunReading, open_demonstrations
from act_policy.errors import UserError


class TrainingDemonstrations(NamedTuple):
    """The demonstrations that a policy was trained on.

    actions: (T, a) of each demonstration.
    seeds: of their initial states.
    config: how they were recorded, where it is known.
    tasks: what each demonstrates, in words; "" where it is not known.
    """

    actions: Sequence[np.ndarray]
    seeds: frozenset[int] = frozenset()
    config: Mapping[str, Any] = MappingProxyType({})
    tasks: Sequence[str] = ()

    def of_task(self, task: str | None) -> "TrainingDemonstrations":
        """Keep the actions that demonstrate a task, if there are any; the seeds stay."""
        if task is None or task not in self.tasks:
            return self
        pairs = list(zip(self.actions, self.tasks, strict=True))
        actions = [actions for actions, told in pairs if told == task]
        return self._replace(actions=actions, tasks=[task] * len(actions))


def find_demonstrations(
    config: Mapping[str, Any], folder: str | None
) -> TrainingDemonstrations | None:
    """Read what the policy was trained on: to replay it, to refuse its seeds, to match its images.

    Args:
        config: the run's config.yaml as plain values, empty where there is no run; its selection
            and reader settings hold for `folder` as well.
        folder: where the demonstrations are now; None is where the run found them.

    Returns:
        None, which is printed, where there are none.
    """
    data, mix = config.get("data"), None
    if folder is None and data:
        mix = data.get("mix")
        every = [str(part.get("path")) for part in (data, *(mix or []))]
        folder = every[0]
        if gone := ", ".join(path for path in every if not is_at_hand(path)):
            print(f"the demonstrations of the run are no longer at {gone}: demonstrations=FOLDER")
            folder = None
    if folder is None:
        print("there are no demonstrations to replay; give demonstrations=FOLDER")
        return None
    run = RunReading.from_config(config)
    dataset = open_demonstrations(folder, run.select, mix, run.reader)
    actions = [dataset.action(episode) for episode in range(len(dataset.episodes))]
    seeds = frozenset(e.seed for e in dataset.episodes if e.seed is not None)
    recorded = read_recorded_config(dataset.episodes[0].file)
    tasks = [episode.instruction for episode in dataset.episodes]
    return TrainingDemonstrations(actions, seeds, recorded, tasks)


def refuse_demonstrated(seeds: Sequence[int], demonstrated: set[int]) -> None:
    """Raise UserError if a seed was demonstrated: success there shows memory, not skill."""
    if used := sorted(demonstrated.intersection(seeds)):
        named = ", ".join(map(str, used[:10])) + (", ..." if len(used) > 10 else "")
        raise UserError(
            f"seed: {len(used)} of the {len(seeds)} initial states were demonstrated to the policy "
            f"(seeds {named}); choose seeds outside {min(demonstrated)} to {max(demonstrated)}"
        )
