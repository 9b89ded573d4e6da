"""The demonstrations that a policy was trained on, as its rollouts need them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from act_policy.data.aloha.episode import read_recorded_config
from act_policy.data.lerobot.hub import is_at_hand
from act_policy.data.selection.demonstrations import RunReading, open_demonstrations
from act_policy.errors import UserError
from act_policy.types import Schema


class TrainingDemonstrations(NamedTuple):
    """The demonstrations that a policy was trained on: those of one task, if it is asked for one.

    actions: (T, a) of each of these demonstrations.
    seeds: of the initial states of all demonstrations, of other tasks too.
    config: how these were recorded, where it is known.
    environments: ids of the simulated environments in which these were recorded.
    """

    actions: Sequence[np.ndarray]
    seeds: frozenset[int] = frozenset()
    config: Mapping[str, Any] = MappingProxyType({})
    environments: tuple[str, ...] = ()


def find_demonstrations(
    config: Mapping[str, Any], folder: str | None, task: str | None = None
) -> TrainingDemonstrations | None:
    """Read what the policy was trained on: to replay it, to refuse its seeds, to match its images.

    Args:
        config: the run's config.yaml as plain values, empty where there is no run; its selection
            and reader settings hold for `folder` as well.
        folder: where the demonstrations are now; None is where the run found them.
        task: in words; where no demonstration is of it, or it is None, all of them count.

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
    seeds = frozenset(e.seed for e in dataset.episodes if e.seed is not None)
    episodes = range(len(dataset.episodes))
    chosen = [e for e in episodes if dataset.episodes[e].instruction == task] or list(episodes)
    actions = [dataset.action(episode) for episode in chosen]
    recorded = read_recorded_config(dataset.episodes[chosen[0]].file)
    environments = dict.fromkeys(dataset.environment(episode) for episode in chosen)
    return TrainingDemonstrations(actions, seeds, recorded, tuple(filter(None, environments)))


def find_environment(
    schemas: Mapping[str, Schema], demonstrations: Sequence[TrainingDemonstrations]
) -> str:
    """Return the id of the environment in which policies act; "" where nobody names one.

    A policy that learned in several environments names none. It acts in that of the others, which
    is also the one in which the task that it is told was demonstrated.

    Args:
        schemas: a policy's name -> its schema.
        demonstrations: of the task that the policies are told.

    Raises:
        UserError: there are several.
    """
    named = {schema.environment: name for name, schema in schemas.items()}
    if "" in named:
        for environment in (e for one in demonstrations for e in one.environments):
            named.setdefault(environment, "demonstrations")
        if len(named) > 1:
            del named[""]
    if len(named) > 1:
        listed = "; ".join(f"{name}: {environment}" for environment, name in named.items())
        raise UserError(
            f"policies and demonstrations are of different environments ({listed}); choose "
            "policies, and demonstrations=FOLDER, of one"
        )
    return next(iter(named))


def refuse_demonstrated(seeds: Sequence[int], demonstrated: set[int]) -> None:
    """Raise UserError if a seed was demonstrated: success there shows memory, not skill."""
    if used := sorted(demonstrated.intersection(seeds)):
        named = ", ".join(map(str, used[:10])) + (", ..." if len(used) > 10 else "")
        raise UserError(
            f"seed: {len(used)} of the {len(seeds)} initial states were demonstrated to the policy "
            f"(seeds {named}); choose seeds outside {min(demonstrated)} to {max(demonstrated)}"
        )
