"""Episodes through server and client are those of the same policy in the process, to the bit."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy import Schema
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.policies.remote_policy import RemotePolicy
from act_policy.evaluation.rollouts.run import (
    EpisodeResult,
    Rollout,
    build_environment,
    evaluate_policy,
    run_episode,
)
from act_policy.model.policy import ACTPolicy
from act_policy.sim.metaworld import MetaWorldEnv
from tests.control.server_for_tests import remote_policy, serving
from tests.policy_for_tests import smallest_policy

TASK = "act_policy/MetaWorld-button-press-topdown-v0"


def make_policy() -> ACTPolicy:
    """A policy with random weights; it moves, but not to the button."""
    import gymnasium

    environment = gymnasium.make(TASK, cameras={"topview": (32, 48)})
    assert isinstance(environment.unwrapped, MetaWorldEnv)
    schema: Schema = environment.unwrapped.schema
    environment.close()
    return smallest_policy(schema, chunk_length=8, pre_norm=True, activation="gelu")


def check_same(found: list[EpisodeResult], expected: list[EpisodeResult]) -> None:
    for there, here in zip(found, expected, strict=True):
        assert there._replace(actions=here.actions) == here
        np.testing.assert_array_equal(there.actions, here.actions)
        assert np.ptp(here.actions, axis=0).max() > 0


def test_two_short_episodes() -> None:
    policy = make_policy()
    environment = build_environment(policy.schema, max_steps=6)
    with serving(policy) as running, remote_policy(running.url) as remote:
        there, here = (
            [
                run_episode(environment, ChunkExecutor(acts, 2).select_action, seed)
                for seed in (0, 1)
            ]
            for acts in (remote, policy)
        )
        assert running.server.status.requests == 6
    check_same(there, here)
    environment.close()


@pytest.mark.slow
@pytest.mark.parametrize(("ensemble_coefficient", "steps"), [(None, 40), (0.01, 10)])
def test_twenty_episodes_over_two_processes(
    tmp_path: Path, ensemble_coefficient: float | None, steps: int
) -> None:
    policy = make_policy()
    policy.save(tmp_path)
    rollouts = [Rollout(seed) for seed in range(20)]
    evaluate = partial(
        evaluate_policy,
        make_environment=partial(build_environment, max_steps=steps),
        rollouts=rollouts,
        execute_steps=1 if ensemble_coefficient else 4,
        ensemble_coefficient=ensemble_coefficient,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the worker processes
    try:
        # Batches of one: to the bit is promised for the same computation.
        with serving(policy, largest_batch=1) as running:
            remote = partial(RemotePolicy, running.url, timeout=60.0)
            there = evaluate(remote, workers=2)
            assert running.server.status.requests == 200
    finally:
        torch.set_num_threads(threads)
    here = evaluate(partial(ACTPolicy.load, tmp_path), workers=1)
    check_same(there, here)
