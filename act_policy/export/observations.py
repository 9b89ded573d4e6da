"""Raw observations to calibrate and compare with: out of demonstrations, or random."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.types import Observation, Schema

Observations = Sequence[Observation[np.ndarray]]


def demonstrated_observations(folder: str | Path, schema: Schema, count: int) -> Observations:
    """Read single observations, spread evenly over all steps of a folder of demonstrations.

    Raises:
        UserError: the demonstrations cannot be read, or are not of the policy's robot.
    """
    dataset = open_dataset(folder, cameras=list(schema.camera_names))
    if schema.environment_state_names:
        raise UserError(
            f"observations={folder}: the policy reads an environment state, which demonstrations "
            "do not hold; leave observations= out"
        )
    if differences := schema.differences(dataset.schema):
        raise UserError(f"observations={folder} are of another robot: {'; '.join(differences)}")
    ends = np.cumsum(dataset.lengths)
    total = int(ends[-1])
    found = []
    for step in np.linspace(0, total - 1, min(count, total)).astype(int):
        episode = int(np.searchsorted(ends, step, side="right"))
        within = int(step - (ends[episode] - dataset.lengths[episode]))
        images = {name: dataset.frame(episode, within, name) for name in schema.camera_names}
        observation = Observation(images, dataset.state(episode)[within])
        schema.check(observation)
        found.append(observation)
    dataset.close()
    return found


def batched(observations: Observations) -> Observation[np.ndarray]:
    """Put single observations into one batch."""
    first = observations[0]
    return Observation(
        {name: np.stack([o.images[name] for o in observations]) for name in first.images},
        np.stack([o.state for o in observations]),
    )
