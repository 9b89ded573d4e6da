"""A joint that hardly moved in the demonstrations: it is measured by the others of its unit."""

from typing import Any

import numpy as np
import pytest

from act_policy import Schema
from act_policy.control.action_space import build_action_space
from act_policy.control.chunks.asynchronous import Proposal
from act_policy.control.config import RobotConfig, config_from_dict
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.events import EventLog
from act_policy.control.robots.contract import Contract
from act_policy.control.safety.supervisor import Mode, Supervisor

NAMES, UNITS = ("a.pos", "b.pos"), ("deg", "deg")
SCHEMA = Schema((), NAMES, UNITS, NAMES, UNITS, 10.0)
ENDS = np.array([-50.0, 0.0]), np.array([50.0, 0.001])  # b was still
RANGES = DemonstratedRanges(*ENDS, *ENDS, images={})


def space_of(**joint: Any) -> Any:
    config = config_from_dict({"joints": {"b.pos": joint}} if joint else {})
    return build_action_space(SCHEMA, RANGES, config)


def test_its_scale_is_a_tenth_of_the_widest_range() -> None:
    space = space_of()
    np.testing.assert_allclose(space.scale, [100, 10])
    np.testing.assert_allclose(space.odd_high, [100, 5.001])
    assert space.awaited.tolist() == [True, False]


def test_its_speeds_grow_only_by_the_owners_word() -> None:
    """Where the unit is not known, another joint's range says nothing about metres."""
    space = space_of()
    np.testing.assert_allclose((space.max_speed[1], space.approach_speed[1]), (0.02, 0.001))
    np.testing.assert_allclose(space_of(max_speed=60.0).approach_speed, [10, 1])
    np.testing.assert_allclose(space_of(max_speed=2.0).approach_speed, [10, 0.1])
    np.testing.assert_allclose(space_of(max_speed=60.0, approach_speed=5.0).approach_speed, [10, 5])
    assert space_of(max_speed=60.0).awaited.all()


def test_a_start_beside_its_place_is_not_refused() -> None:
    contract = Contract(SCHEMA, RANGES, RobotConfig())
    assert contract.pose_outside(np.array([0.0, 1.9])) == []
    (sentence,) = contract.pose_outside(np.array([0.0, 2.1]))
    assert sentence.startswith("b.pos is at 2.1 deg")
    assert len(contract.pose_outside(np.array([-71.0, 0.0]))) == 1


@pytest.mark.parametrize("start", [0.0, 20.0])
def test_the_soft_start_does_not_wait_for_it(start: float) -> None:
    space, config = space_of(), RobotConfig()
    supervisor = Supervisor(space, config.safety, EventLog(), 0.1, 5.0)
    position, sent = np.array([start, 1.5]), []
    supervisor.start(0.0)
    for tick in range(100):
        command = supervisor.command(0.1 * tick, Proposal(np.zeros(2), 0.0), position)
        assert command is not None
        supervisor.taken(command)
        sent.append(command)
        position = command
    assert supervisor.mode is Mode.RUNNING
    ways = np.abs(np.diff([[start, 1.5], *sent], axis=0))
    assert ways[:, 1].max() <= 0.02 * 0.1 + 1e-9
    assert sent[-1][0] == 0.0
    assert 0 < sent[-1][1] < 1.5
