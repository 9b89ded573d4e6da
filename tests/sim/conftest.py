"""Environments that are closed when the test is over."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from act_policy.sim import aloha_environment_id, environment_id
from act_policy.sim.aloha.environment import AlohaEnv
from act_policy.sim.metaworld import MetaWorldEnv

Make = Callable[..., MetaWorldEnv]


@pytest.fixture
def make_any() -> Iterator[Callable[..., gymnasium.Env[Any, Any]]]:
    """`make_any(id, **options)` gives the bare environment."""
    made = []

    def make_environment(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
        made.append(gymnasium.make(name, **options))
        return made[-1].unwrapped

    yield make_environment
    for environment in made:
        environment.close()


@pytest.fixture
def make(make_any: Callable[..., Any]) -> Make:
    """`make(task, **options)` gives one of Meta-World's tasks."""

    def make_environment(task: str = "button-press-topdown", **options: Any) -> MetaWorldEnv:
        environment = make_any(environment_id(task), **options)
        assert isinstance(environment, MetaWorldEnv)
        return environment

    return make_environment


@pytest.fixture
def make_aloha(make_any: Callable[..., Any]) -> Callable[..., AlohaEnv]:
    """`make_aloha(task, **options)` gives one of ALOHA's tasks."""

    def make_environment(task: str = "TransferCube", **options: Any) -> AlohaEnv:
        environment = make_any(aloha_environment_id(task), **options)
        assert isinstance(environment, AlohaEnv)
        return environment

    return make_environment
