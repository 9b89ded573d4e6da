"""Actions relative to the current state: learned as differences, given as absolute positions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.errors import UserError
from act_policy.model.act import ACTConfig, ACTOutput
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import Statistics
from act_policy.types import Schema
from tests.tolerance import rounding


@pytest.fixture
def joints(schema: Schema) -> Schema:
    """Actions named like the state, in another order."""
    return replace(schema, action_names=("y", "gripper"), action_units=("m", "1"))


@pytest.fixture
def relative(statistics: Statistics) -> Statistics:
    return statistics._replace(relative_actions=("y",))


def make(make_policy, joints, statistics) -> ACTPolicy:
    config: ACTConfig = make_policy().config
    torch.manual_seed(0)
    return ACTPolicy(config, joints, statistics).eval()


def test_the_chunk_is_the_absolute_policys_plus_the_state(
    make_policy, joints, statistics, relative, observation
) -> None:
    absolute = make(make_policy, joints, statistics).predict_chunk(observation)
    chunk = make(make_policy, joints, relative).predict_chunk(observation)
    expected = absolute + np.stack([observation.state[:, 1], np.zeros(3)], axis=1)[:, None]
    # the state is about 100, and is added to a normalised action or to a physical one
    np.testing.assert_allclose(chunk, expected, rtol=0, atol=rounding(4, 200.0))


def test_what_training_teaches_is_what_the_policy_says(
    make_policy, joints, relative, observation, monkeypatch
) -> None:
    """A network that outputs its targets makes the policy say the demonstrated actions."""
    policy = make(make_policy, joints, relative)
    actions = torch.randn(3, 5, 2) * torch.tensor([30.0, 1.0])
    state = torch.from_numpy(observation.state)
    target = policy.normalizer.actions(actions, state)
    mean, scale = (torch.tensor(v) for v in (relative.action.mean, relative.action.std))
    expected = (actions[..., 0] - state[:, None, 1] - mean[0]) / scale[0]
    # differences of numbers of about 200, divided by the scale
    tolerance = rounding(4, 200.0 / float(scale[0]))
    torch.testing.assert_close(target[..., 0], expected.float(), rtol=0, atol=tolerance)
    output = ACTOutput(target, None, None)
    monkeypatch.setattr(policy.act, "forward", lambda *_, **__: output)
    found = policy.predict_chunk(observation)
    np.testing.assert_allclose(found, actions, rtol=0, atol=rounding(8, 200.0))


def test_it_travels_with_the_policy(
    make_policy, joints, statistics, relative, observation, tmp_path
) -> None:
    policy = make(make_policy, joints, relative)
    policy.save(tmp_path)
    loaded = ACTPolicy.load(tmp_path)
    assert loaded.statistics.relative_actions == ("y",)
    np.testing.assert_array_equal(
        loaded.predict_chunk(observation), policy.predict_chunk(observation)
    )
    assert "relative_actions" not in statistics.to_dict()  # older programs read it
    assert Statistics.from_dict(relative.to_dict()).relative_actions == ("y",)


def test_names_that_the_schema_lacks_are_refused(make_policy, joints, statistics) -> None:
    for name, missing in (("x", "action x"), ("dx", "action dx")):
        with pytest.raises(UserError, match=f"relative action {name}: the schema has no {missing}"):
            make(make_policy, joints, statistics._replace(relative_actions=(name,)))


def test_lerobot_has_no_such_actions(make_policy, joints, relative, tmp_path) -> None:
    with pytest.raises(UserError, match=r"actions relative to the state \(y\)"):
        save_lerobot(make(make_policy, joints, relative), tmp_path)
