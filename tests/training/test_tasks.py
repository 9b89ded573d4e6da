"""Training tells the network each sample's task, and learns tokens for those in the batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from act_policy.data.loading.batches import Batch
from act_policy.export.parity import random_observation
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.plan import measure
from act_policy.training.plan.facts import Workload
from act_policy.training.policy_training import PolicyTraining
from tests.policy_for_tests import SMALLEST, smallest_policy
from tests.training.training_for_tests import SCHEMA

TASKS = ("open it", "close it", "leave it")


def test_a_plan_times_a_step_of_several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MOST_SECONDS", 1e-9)
    load = Workload("", tuple((c.height, c.width) for c in SCHEMA.cameras), 4, 2)
    schema = replace(SCHEMA, tasks=TASKS)
    trial = measure.measure_step(load, SMALLEST, schema, OptimizerConfig(), False, False)
    assert trial.step_seconds > 0
    assert trial.processor_seconds > 0
    assert trial.checkpoint_bytes > 0


def test_a_step_teaches_the_tokens_of_its_tasks() -> None:
    schema = replace(SCHEMA, tasks=TASKS)
    policy = smallest_policy(schema, latent_size=2, latent_layers=1)
    training = PolicyTraining(policy, OptimizerConfig(), 10, kl_weight=1.0)
    seen = random_observation(policy, 4, np.random.default_rng(0)).map(torch.tensor)
    seen = seen._replace(state=seen.state.float(), task=torch.tensor([0, 2, 2, 0]))
    actions, is_pad = torch.randn(4, 4, 3), torch.zeros(4, 4, dtype=torch.bool)
    batch = Batch(seen, actions, is_pad, torch.zeros(4), torch.zeros(4))
    training.training_step(batch, 0).backward()
    gradient = policy.act.task_tokens.weight.grad
    assert gradient is not None
    assert (gradient.abs().sum(dim=1) > 0).tolist() == [True, False, True]

    policy.zero_grad()  # now through the latent alone
    _, kl = training.losses(policy, batch, "mean")
    assert kl is not None
    kl.backward()
    assert policy.act.task_tokens.weight.grad is not None
    assert policy.act.task_tokens.weight.grad.abs().sum() > 0
