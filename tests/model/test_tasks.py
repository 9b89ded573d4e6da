"""A network that knows several tasks: it does what it is told, and is the plain one without."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from act_policy import ACTPolicy, Observation, Schema, UserError
from act_policy.model.config import ACTConfig
from act_policy.statistics import Statistics
from act_policy.types import stack_observations
from tests.model.conftest import LONGEST_PATH, SMALL
from tests.tolerance import network_rounding

TASKS = ("open it", "close it", "leave it")
ROUNDING = network_rounding(LONGEST_PATH, 100.0)
"""Of actions in the units of the fixture, which reach a hundred."""


@pytest.fixture
def policy(schema: Schema, statistics: Statistics) -> ACTPolicy:
    """Build the fixture's policy with three tasks; the other weights are those of seed 0."""
    torch.manual_seed(0)
    schema = replace(schema, tasks=TASKS)
    return ACTPolicy(ACTConfig.for_schema(schema, **SMALL), schema, statistics).eval()


def ask(observation: Observation[np.ndarray], *tasks: object) -> Observation[np.ndarray]:
    return observation._replace(task=np.array(tasks))


def test_without_several_tasks_the_network_is_the_plain_one(
    make_policy: Callable[..., ACTPolicy],
    policy: ACTPolicy,
    schema: Schema,
    statistics: Statistics,
    observation: Observation[np.ndarray],
) -> None:
    plain = make_policy()
    weights, more = plain.state_dict(), policy.state_dict()
    assert more.keys() - weights.keys() == {"act.task_tokens.weight", "act.task_position"}
    assert all(torch.equal(weights[name], more[name]) for name in weights)
    torch.manual_seed(0)
    schema = replace(schema, tasks=TASKS[:1])
    single = ACTPolicy(ACTConfig.for_schema(schema, **SMALL), schema, statistics).eval()
    assert single.config == plain.config
    expected = plain.predict_chunk(observation)
    for task in (None, TASKS[0], "anything"):
        found = single.predict_chunk(observation._replace(task=task))
        np.testing.assert_array_equal(found, expected)


def test_each_task_has_its_own_answer(
    policy: ACTPolicy, observation: Observation[np.ndarray]
) -> None:
    chunks = {task: policy.predict_chunk(observation._replace(task=task)) for task in TASKS}
    assert np.abs(chunks["open it"] - chunks["close it"]).max() > 1e-3
    mixed = policy.predict_chunk(ask(observation, "close it", "open it", "leave it"))
    for row, task in enumerate(("close it", "open it", "leave it")):
        np.testing.assert_allclose(mixed[row], chunks[task][row], atol=ROUNDING)
    by_index = policy.predict_chunk(ask(observation, 1, 0, 2))
    np.testing.assert_array_equal(by_index, mixed)


def test_words_reach_it_by_lerobots_key_and_in_a_stack(
    policy: ACTPolicy, observation: Observation[np.ndarray]
) -> None:
    images = {name: image[0] for name, image in observation.images.items()}
    keys = {f"observation.images.{name}": image for name, image in images.items()}
    keys |= {"observation.state": observation.state[0], "task": "close it"}  # type: ignore[dict-item]
    expected = policy.predict_chunk(keys)
    both = [Observation(images, observation.state[0], task=task) for task in TASKS[1:]]
    chunks = policy.predict_chunk(stack_observations(both))
    np.testing.assert_allclose(chunks[0], expected, atol=ROUNDING)


@pytest.mark.parametrize("task", [None, "opn it", 3, -1, np.array(["open it"] * 2), 1.0])
def test_an_unknown_or_missing_task_is_refused_with_the_list(
    policy: ACTPolicy, observation: Observation[np.ndarray], task: object
) -> None:
    with pytest.raises(UserError, match="task: ") as refused:
        policy.predict_chunk(observation._replace(task=task))
    if task is None or isinstance(task, str):
        assert "'open it', 'close it', 'leave it'" in str(refused.value)


def test_the_latent_encoder_knows_the_task(policy: ACTPolicy) -> None:
    act = policy.act
    state, actions = torch.zeros(1, 3), torch.zeros(1, 5, 2)
    images = {c.name: torch.zeros(1, 3, c.height, c.width) for c in policy.config.cameras}
    means = [
        act(images, state, None, actions, latent="mean", task=torch.tensor([task])).latent_mean
        for task in (0, 1)
    ]
    assert not torch.allclose(*means)
    with pytest.raises(ValueError, match="3 tasks"):
        act(images, state)


def test_a_single_task_has_no_token(schema: Schema) -> None:
    with pytest.raises(UserError, match="task_count is 1"):
        replace(ACTConfig.for_schema(schema, **SMALL), task_count=1)


def test_the_schema_remembers_tasks_and_older_ones_have_none(schema: Schema) -> None:
    several = replace(schema, tasks=TASKS)
    assert Schema.from_dict(several.to_dict()) == several
    assert "tasks" not in schema.to_dict()
    assert schema.differences(several) == several.differences(schema) == []
    with pytest.raises(UserError, match="task names must be unique"):
        replace(schema, tasks=("open it", "open it"))
