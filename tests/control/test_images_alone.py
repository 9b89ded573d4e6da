"""A policy that sees images alone, on a robot: the loop measures the arm, the policy does not."""

from dataclasses import replace

import numpy as np
import pytest

from act_policy.control.config import JointConfig, RobotConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.errors import UserError
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera, Observation, Schema
from tests.policy_for_tests import smallest_policy

SCHEMA = Schema(
    cameras=(Camera("top", 24, 32),),
    state_names=(),
    state_units=(),
    action_names=("elbow.pos", "gripper.pos"),
    action_units=("rad", "rad"),
    rate=10.0,
)
IMAGE = np.zeros((24, 32, 3), np.uint8)
LOW, HIGH = np.array([-1.0, 0.0]), np.array([1.0, 1.0])


def contract(config: RobotConfig | None = None) -> Contract:
    nothing = FieldStatistics(*[np.zeros(0)] * 4)
    statistics = Statistics(nothing, FieldStatistics(LOW, HIGH, LOW, HIGH), 10)
    ranges = DemonstratedRanges.from_statistics(SCHEMA, statistics)
    return Contract(SCHEMA, ranges, config or RobotConfig())


def test_the_joints_that_are_moved_are_measured_and_others_may_be_there() -> None:
    bound = contract()
    reading = Reading(0.0, {"top": IMAGE}, {"elbow.pos": 0.5, "gripper.pos": 0.2, "wrist.pos": 9.0})
    observation = bound.observation(reading)
    assert bound.space.measure(observation.state)[0] == 0.5
    assert bound.pose_outside(observation.state) == []
    far = bound.observation(reading._replace(joints={"elbow.pos": 7.0, "gripper.pos": 0.2}))
    assert ["elbow.pos is at 7" in text for text in bound.pose_outside(far.state)] == [True]
    with pytest.raises(UserError, match=r"joint names differ: .*elbow.pos"):
        bound.observation(reading._replace(joints={"wrist.pos": 1.0}))
    policy = smallest_policy(SCHEMA)
    expected = policy.predict_chunk(observation._replace(state=np.zeros(0, np.float32)))
    np.testing.assert_array_equal(policy.predict_chunk(observation), expected)


def test_a_joint_of_another_name_measures_by_the_owners_word() -> None:
    bound = contract(RobotConfig(joints={"elbow.pos": JointConfig(measured="j1")}))
    joints = {"j1": 0.25, "gripper.pos": 0.0}
    observation = bound.observation(Reading(0.0, {"top": IMAGE}, joints))
    assert bound.space.measure(observation.state)[0] == 0.25


def test_a_server_asks_for_images_alone_and_takes_a_state_all_the_same() -> None:
    keys = ObservationKeys().for_schema(SCHEMA)
    empty = Observation({"top": IMAGE}, np.zeros(0, np.float32))
    assert set(keys.to_message(empty, SCHEMA, jpeg=False)) == {"images/top"}
    for message in ({"images/top": IMAGE}, {"images/top": IMAGE, "state": np.ones(3)}):
        assert keys.to_observation(message, SCHEMA).state.shape == (0,)


def test_an_observation_by_lerobots_keys_needs_no_state() -> None:
    policy = smallest_policy(SCHEMA)
    chunk = policy.predict_chunk({"observation.images.top": IMAGE})
    assert chunk.shape == (policy.chunk_length, 2)
    batch = {"observation.images.top": np.stack([IMAGE] * 3), "observation.state": np.ones((3, 4))}
    assert policy.predict_chunk(batch).shape == (3, policy.chunk_length, 2)
    with_state = replace(SCHEMA, state_names=("a",), state_units=("",))
    with pytest.raises(UserError, match=r"has no observation.state"):
        with_state.check({"observation.images.top": IMAGE})
