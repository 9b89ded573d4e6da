"""Environments that are closed when the test is over."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from act_policy.sim import environment_id
from act_policy.sim.metaworld import MetaWorldEnv

Make = Callable[..., MetaWorldEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    """`make(task, **options)` gives the bare environment."""
    made = []

    def make_environment(task: str = "button-press-topdown", **options: Any) -> MetaWorldEnv:
        environment = gymnasium.make(environment_id(task), **options)
        made.append(environment)
        assert isinstance(environment.unwrapped, MetaWorldEnv)
        return environment.unwrapped

    yield make_environment
    for environment in made:
        environment.close()
