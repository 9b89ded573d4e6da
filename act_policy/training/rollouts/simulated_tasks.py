"""The simulated tasks that demonstrations show, in each of which a policy of theirs is tried."""

from typing import NamedTuple

from act_policy.data.dataset import DemonstrationDataset, place_of
from act_policy.errors import UserError


class SimulatedTask(NamedTuple):
    """What a policy is to do in an episode.

    environment: id; None stands for the policy's own.
    words: what it is told; None where there is nothing to choose.
    max_steps: end of an episode; None stands for that of all tasks.
    """

    environment: str | None = None
    words: str | None = None
    max_steps: int | None = None


def find_simulated_tasks(dataset: DemonstrationDataset) -> dict[SimulatedTask, int]:
    """Return each pair of environment and words that was demonstrated -> its first episode.

    Raises:
        UserError: an episode was not recorded in simulation, or was told several things in turn.
    """
    words = dataset.schema.tasks
    found: dict[SimulatedTask, int] = {}
    for episode in range(len(dataset.episodes)):
        told = [text for text in dataset.instructions(episode) if text in words]
        if not (environment := dataset.environment(episode)):
            raise UserError(
                f"{place_of(dataset, episode)} names no simulated environment in which the policy "
                "could be tried; without rollout_every=, best.ckpt (lowest held-out loss) is what "
                "is kept"
            )
        if len(told) > 1:
            raise UserError(
                f"{place_of(dataset, episode)} has {len(told)} instructions in turn, and an "
                "episode in simulation is told one; leave rollout_every= out, or choose one with "
                "data.select.instruction="
            )
        task = SimulatedTask(environment, (told or words or (None,))[0])
        found.setdefault(task, episode)
    return found
