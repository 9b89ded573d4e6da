"""Committed actions: what the network makes of them, and that it makes nothing of absent ones."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from act_policy import ACTPolicy, Observation, Schema, UserError
from act_policy.model.config import ACTConfig
from act_policy.model.prefix import PrefixEncoder, follow_prefix, roll_state
from act_policy.statistics import Statistics
from act_policy.types import stack_observations
from tests.model.conftest import LONGEST_PATH, SMALL
from tests.tolerance import network_rounding

Make = Callable[..., ACTPolicy]
LENGTH = 3
ROUNDING = network_rounding(LONGEST_PATH, 100.0)
"""Of actions in the units of the fixture, which reach a hundred."""


def prefix(*counts: int, seed: int = 0) -> np.ndarray:
    """Actions of the fixture's size, of which each sample has committed a number."""
    values = np.random.default_rng(seed).normal([1, 30], [0.5, 20], (len(counts), LENGTH, 2))
    free = np.arange(LENGTH)[:, None] >= np.array(counts)[:, None, None]
    return np.where(free, np.nan, values).astype(np.float32)


def test_a_network_without_a_prefix_is_the_plain_one(make_policy: Make) -> None:
    plain, knowing = make_policy(), make_policy(prefix_length=LENGTH)
    weights, more = plain.state_dict(), knowing.state_dict()
    added = {name for name in more if name not in weights}
    assert {name.split(".")[1] for name in added} == {"prefix_encoder"}
    assert weights.keys() <= more.keys()
    assert all(torch.equal(weights[name], more[name]) for name in weights)


def test_without_committed_actions_it_predicts_what_the_plain_one_does(
    make_policy: Make, observation: Observation[np.ndarray]
) -> None:
    plain, knowing = make_policy(), make_policy(prefix_length=LENGTH)
    expected = plain.predict_chunk(observation)
    np.testing.assert_array_equal(knowing.predict_chunk(observation), expected)
    masked = knowing.predict_chunk(observation._replace(prefix=prefix(0, 0, 0)))
    np.testing.assert_allclose(masked, expected, atol=ROUNDING)


def test_committed_actions_come_back_and_the_others_follow_them(
    make_policy: Make, observation: Observation[np.ndarray]
) -> None:
    policy = make_policy(prefix_length=LENGTH)
    plain = policy.predict_chunk(observation)
    given = prefix(0, 2, 3)
    chunk = policy.predict_chunk(observation._replace(prefix=given))
    for i, count in enumerate((0, 2, 3)):
        np.testing.assert_array_equal(chunk[i, :count], given[i, :count])
    np.testing.assert_allclose(chunk[0], plain[0], atol=ROUNDING)
    assert (np.abs(chunk[1:, LENGTH:] - plain[1:, LENGTH:]) > 1e-3).all()


def test_each_committed_action_counts_in_its_place(
    make_policy: Make, observation: Observation[np.ndarray]
) -> None:
    policy = make_policy(prefix_length=LENGTH)
    one = observation.map(lambda x: x[:1])
    given = prefix(3)
    chunk = policy.predict_chunk(one._replace(prefix=given))
    for changed in (given[:, [1, 0, 2]], given[:, [0, 2, 1]], given + np.array([1.0, 0.0])):
        other = policy.predict_chunk(one._replace(prefix=changed.astype(np.float32)))
        assert np.abs(other[:, LENGTH:] - chunk[:, LENGTH:]).max() > 1e-3


def test_actions_are_normalised_as_those_that_are_predicted(
    schema: Schema, statistics: Statistics, observation: Observation[np.ndarray]
) -> None:
    """In other units, and relative to the state: the network is given the same numbers."""
    torch.manual_seed(0)
    config = ACTConfig.for_schema(schema, **SMALL, prefix_length=LENGTH)
    schema = replace(schema, action_names=("x", "y"))
    relative = statistics._replace(relative_actions=("x",))
    policy = ACTPolicy(config, schema, relative).eval()
    seen: list[Tensor] = []
    policy.act.prefix_encoder.register_forward_pre_hook(lambda module, args: seen.append(args[1]))
    given = prefix(1, 2, 3)
    policy.predict_chunk(observation._replace(prefix=given))
    given[..., 0] -= observation.state[:, None, 0]
    np.testing.assert_allclose(
        seen[0].numpy(), (given - statistics.action.mean) / statistics.action.std, atol=1e-4
    )


def test_the_gradient_reaches_the_images_past_a_prefix(make_policy: Make) -> None:
    policy = make_policy(prefix_length=LENGTH)
    images = {
        "top": torch.randn(2, 3, 32, 48, requires_grad=True),
        "wrist": torch.randn(2, 3, 24, 24, requires_grad=True),
    }
    normalised = torch.tensor(prefix(0, 3)) / 100
    chunk = policy.act(images, torch.randn(2, 3), latent="zero", prefix=normalised).actions
    chunk[:, LENGTH:].sum().backward()
    for image in images.values():
        assert image.grad is not None
        assert torch.isfinite(image.grad).all()
        assert (image.grad.flatten(1).abs().sum(dim=1) > 0).all()


def made(schema: Schema, statistics: Statistics, **fields: object) -> ACTPolicy:
    """A policy whose actions are the positions of its state."""
    torch.manual_seed(0)
    names = {"action_names": schema.state_names[:2], "action_units": schema.state_units[:2]}
    names |= {"state_names": names["action_names"], "state_units": names["action_units"]}
    schema = replace(schema, **names)
    own = statistics.state
    state = own._replace(mean=own.mean[:2], std=own.std[:2])
    config = ACTConfig.for_schema(schema, **SMALL, prefix_length=LENGTH, **fields)
    return ACTPolicy(config, schema, statistics._replace(state=state)).eval()


def test_a_rolled_state_is_the_last_committed_action_and_the_queries_begin_after_it(
    schema: Schema, statistics: Statistics, observation: Observation[np.ndarray]
) -> None:
    """The chunk is the plain one of an observation at the place where the prefix ends, later."""
    policy = made(schema, statistics, prefix_as="state")
    counts = (0, 1, 3)
    given = prefix(*counts)
    seen = observation._replace(state=observation.state[:, :2])
    chunk = policy.predict_chunk(seen._replace(prefix=given))
    for i, count in enumerate(counts):
        one = seen.map(lambda x, i=i: x[i])
        if count:
            one = one._replace(state=given[i, count - 1])
        plain = policy.predict_chunk(one)
        np.testing.assert_array_equal(chunk[i, :count], given[i, :count])
        np.testing.assert_allclose(chunk[i, count:], plain[: len(plain) - count], atol=ROUNDING)


def test_both_ways_of_telling_count_the_tokens_from_their_end(
    schema: Schema, statistics: Statistics, observation: Observation[np.ndarray]
) -> None:
    encoder = PrefixEncoder(made(schema, statistics, prefix_as="both").config)
    memory = torch.zeros(3, 4, SMALL["width"])
    given = torch.tensor(prefix(0, 2, 3))
    extended, allowed = encoder(memory, given)
    assert allowed[:, 0, 4:].tolist() == [[False] * 3, [False, True, True], [True] * 3]
    expected = encoder.projection(given[1, :2])
    torch.testing.assert_close(extended[1, 5:], expected)
    policy = made(schema, statistics, prefix_as="both")
    seen = observation._replace(state=observation.state[:, :2])
    plain = policy.predict_chunk(seen)
    chunk = policy.predict_chunk(seen._replace(prefix=given.numpy()))
    np.testing.assert_allclose(chunk[0], plain[0], atol=ROUNDING)
    other = given.clone()
    other[1:, 0] += 1  # not the last one, so the state stays
    changed = policy.predict_chunk(seen._replace(prefix=other.numpy()))
    assert (np.abs(changed[1:, LENGTH:] - chunk[1:, LENGTH:]).max(axis=(1, 2)) > 1e-3).all()


def test_rolling_and_following_move_nothing_where_nothing_is_committed() -> None:
    given = torch.tensor(prefix(0, 2))
    state, actions = torch.randn(2, 2), torch.randn(2, 5, 2)
    assert torch.equal(roll_state(state, given)[0], state[0])
    assert torch.equal(roll_state(state, given)[1], given[1, 1])
    assert torch.equal(roll_state(state, None), state)
    assert torch.equal(follow_prefix(actions, given)[0], actions[0])
    assert torch.equal(follow_prefix(actions, given)[1, 2:], actions[1, :3])


def test_a_state_that_is_no_position_of_the_actions_cannot_be_rolled(
    schema: Schema, statistics: Statistics
) -> None:
    config = ACTConfig.for_schema(schema, **SMALL, prefix_length=LENGTH, prefix_as="state")
    with pytest.raises(UserError, match="set prefix_as to tokens"):
        ACTPolicy(config, schema, statistics)
    own = statistics._replace(relative_actions=schema.state_names[:1])
    with pytest.raises(UserError, match="relative to the state"):
        made(schema, own, prefix_as="state")


def test_one_observation_and_a_batch_agree(
    make_policy: Make, observation: Observation[np.ndarray]
) -> None:
    policy = make_policy(prefix_length=LENGTH)
    ones = [observation.map(lambda x, i=i: x[i]) for i in range(3)]
    ones = [ones[0], ones[1]._replace(prefix=prefix(2)[0]), ones[2]._replace(prefix=prefix(3)[0])]
    batch = policy.predict_chunk(stack_observations(ones))
    for one, chunk in zip(ones, batch, strict=True):
        np.testing.assert_allclose(policy.predict_chunk(one), chunk, atol=ROUNDING)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda p: p[:, :2], "2 rows"),
        (lambda p: p[:, ::-1], "then only rows of NaN"),
        (lambda p: np.where(np.arange(2) == 1, np.nan, p), "then only rows of NaN"),
        (lambda p: p * np.inf, "finite"),
        (lambda p: p[..., :1], "shape"),
        (lambda p: p[0], "shape"),
    ],
)
def test_a_prefix_that_does_not_fit_is_refused(
    make_policy: Make,
    observation: Observation[np.ndarray],
    bad: Callable[[np.ndarray], np.ndarray],
    message: str,
) -> None:
    policy = make_policy(prefix_length=LENGTH)
    with pytest.raises(UserError, match=message):
        policy.predict_chunk(observation._replace(prefix=bad(prefix(1, 2, 2))))


def test_who_knows_of_no_prefix_refuses_one(
    make_policy: Make, observation: Observation[np.ndarray]
) -> None:
    with pytest.raises(UserError, match="the policy takes none"):
        make_policy().predict_chunk(observation._replace(prefix=prefix(1, 1, 1)))
    with pytest.raises(UserError, match="less than the chunk_length"):
        make_policy(prefix_length=5)
