"""Raw observations of demonstrations, to calibrate and compare with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.dataset import observation_at
from act_policy.data.inspection.tables import unused_lines
from act_policy.data.selection.demonstrations import RunReading, open_as_run
from act_policy.errors import UserError, located
from act_policy.types import Observation, Schema

Observations = Sequence[Observation[np.ndarray]]


def demonstrated_observations(
    folder: str | Path, schema: Schema, count: int, reading: RunReading | None
) -> Observations:
    """Read single observations as the policy sees them, evenly spread over all steps of a folder.

    Args:
        folder: holds the demonstrations.
        schema: of the policy.
        count: of observations; fewer where there are fewer steps.
        reading: how the policy's run read its demonstrations and what it selected of them; where
            it is None, the schema says what was cropped, resized and left out.

    Raises:
        UserError: the demonstrations cannot be read, or are not of the policy's robot.
    """
    if schema.environment_state_names:
        raise UserError(
            f"observations={folder}: the policy reads an environment state, which demonstrations "
            "do not hold; leave observations= out"
        )
    with located(f"observations={folder}"):
        dataset = open_as_run(folder, schema, reading or RunReading(select=_selection(schema)))
    for line in unused_lines(dataset):
        print(f"observations={folder}: {line}")
    if differences := schema.differences(dataset.schema):
        raise UserError(f"observations={folder} are of another robot: {'; '.join(differences)}")
    episodes = np.repeat(np.arange(len(dataset.lengths)), dataset.lengths)
    steps = np.concatenate([np.arange(length) for length in dataset.lengths])
    chosen = np.linspace(0, len(steps) - 1, min(count, len(steps))).astype(int)
    found = [
        schema.check(observation_at(dataset, episode, step))
        for episode, step in zip(episodes[chosen].tolist(), steps[chosen].tolist(), strict=True)
    ]
    dataset.close()
    return found


def _selection(schema: Schema) -> dict[str, Any]:
    """Make the settings of a Selection that turns recordings into what the schema describes."""
    changed = [camera for camera in schema.cameras if camera.source_size is not None]
    return {
        "crop": {camera.name: camera.crop for camera in changed if camera.crop is not None},
        "resize": {camera.name: (camera.height, camera.width) for camera in changed},
        "state": list(schema.state_names),
        "actions": list(schema.action_names),
    }
