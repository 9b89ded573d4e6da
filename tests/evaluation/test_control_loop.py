"""Simulated episodes through the robot's loop are the in-process ones, to the last action."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.action_space import build_action_space
from act_policy.control.chunks.asynchronous import Answer
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.config import JointConfig, RobotConfig, TimingConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.pacing import Punctuality
from act_policy.control.robots.contract import Contract
from act_policy.evaluation.control_loop import episode_in_lock_step, episode_in_real_time
from act_policy.evaluation.rollouts.adapting import AdaptedObservations
from act_policy.evaluation.rollouts.run import run_episode
from act_policy.execution import Execution
from act_policy.sim.simulated_robot import SimulatedRobot, simulated_config
from act_policy.types import Camera, Observation
from tests.control.loop_for_tests import Clock
from tests.evaluation.evaluation_for_tests import (
    SCHEMA,
    FailingPolicy,
    ReachEnv,
    SeeingPolicy,
    build,
)


def task(max_steps: int | None = None):  # type: ignore[no-untyped-def]
    environment = build(SCHEMA, max_steps=max_steps)
    environment.schema = SCHEMA  # type: ignore[attr-defined]
    return environment


@pytest.mark.parametrize(("execute_steps", "coefficient"), [(None, None), (3, None), (None, 0.01)])
def test_lock_step_is_the_evaluation(execute_steps: int | None, coefficient: float | None) -> None:
    executor = ChunkExecutor(SeeingPolicy(), execute_steps, coefficient)
    outcomes = set()
    for seed in range(1000, 1006):
        executor.reset()
        expected = run_episode(task(), executor.select_action, seed)
        environment = task()
        found = episode_in_lock_step(environment, executor, seed)
        assert (found.seed, found.success, found.steps) == expected[:3]
        assert environment.drawn == -(-found.steps // executor.execute_steps)  # no image more
        np.testing.assert_array_equal(found.actions, expected.actions)
        outcomes.add(found.success)
    assert outcomes == {True, False}


def test_a_policy_that_fails_ends_the_episode_with_the_reason() -> None:
    with pytest.raises(UserError, match="this checkpoint cannot act"):
        episode_in_lock_step(task(), ChunkExecutor(FailingPolicy()), 1000)


class Immediate:
    """A policy that answers at once, asked as a process is."""

    schema, chunk_length = SCHEMA, SeeingPolicy.chunk_length
    execution = Execution()

    def __init__(self) -> None:
        self.policy, self.answer = SeeingPolicy(), None

    @property
    def busy(self) -> bool:
        return self.answer is not None

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        self.answer = Answer(captured, self.policy.predict_chunk(observation))  # type: ignore[assignment]

    def poll(self) -> Answer | None:
        answer, self.answer = self.answer, None
        return answer


@pytest.mark.parametrize("periods", [1, 2])
def test_in_real_time_the_world_goes_on_by_the_clock(periods: int) -> None:
    """The world makes a step in every period, however many of them a turn of the loop takes."""
    config = simulated_config(SCHEMA, TimingConfig(execute_steps=2, blend_steps=0))
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(max(seconds, periods / SCHEMA.rate))

    begun = clock()
    result, punctual = episode_in_real_time(task(12), Immediate(), 1000, config, clock, sleep)
    assert isinstance(punctual, Punctuality), punctual
    assert clock() - begun == pytest.approx(punctual.ticks * periods / SCHEMA.rate)
    assert result.steps == pytest.approx(punctual.ticks * periods, abs=2)


def test_a_step_is_due_once_a_period_and_the_command_stays_in_force() -> None:
    now = 5.0
    robot = SimulatedRobot(task(100), SCHEMA, 1000, clock=lambda: now)
    robot.connect()
    now = 7.0
    robot.get_observation()
    assert robot.actions == []  # nothing moves before the first command
    robot.send_action({"move": 0.01})
    for late in (0.998, 2.003, 3.0, 4.2):  # periods since the command
        now = 7.0 + late / SCHEMA.rate
        robot.get_observation()
    assert len(robot.actions) == 4
    assert robot.get_observation().joints["x"] == pytest.approx(0.04)
    now += 1000.0
    robot.get_observation()
    assert len(robot.actions) == 14  # the rest is lost, not made up for


def test_a_policy_of_cropped_images_and_part_of_the_state_runs_through_the_loop() -> None:
    """Its environment draws whole images and observes two joints; rollouts and loop adapt both."""
    recorded = replace(
        SCHEMA,
        state_names=("y", *SCHEMA.state_names),
        state_units=("m", *SCHEMA.state_units),
        cameras=(Camera("front", 8, 8),),
    )
    schema = replace(SCHEMA, cameras=(Camera("front", 6, 6, (8, 8), (1, 1, 6, 6)),))

    class TwoJoints(ReachEnv):
        def observe(self) -> dict[str, Any]:
            observation = super().observe()
            return {**observation, "agent_pos": np.array([9.0, self.x], np.float32)}

    class CroppedPolicy(SeeingPolicy):
        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            return super().predict_chunk(self.schema.check(observation))

    CroppedPolicy.schema = schema
    environment = TwoJoints({"front": (8, 8)}, 30)
    environment.schema = recorded  # type: ignore[attr-defined]
    adapted = AdaptedObservations(environment, schema)
    executor = ChunkExecutor(CroppedPolicy(), 3)
    expected = run_episode(adapted, executor.select_action, 1000)
    found = episode_in_lock_step(adapted, executor, 1000)
    assert found[:3] == expected[:3]
    np.testing.assert_array_equal(found.actions, expected.actions)


def test_a_position_that_the_state_leaves_out_needs_no_measurement() -> None:
    schema = replace(SCHEMA, action_names=("arm",), action_units=("rad",))
    ranges = DemonstratedRanges.from_statistics(schema, None)
    space = build_action_space(schema, ranges, simulated_config(schema))
    assert space.kinds == ("switch",)
    assert build_action_space(SCHEMA, ranges, simulated_config(SCHEMA)).kinds != ("switch",)


def test_a_simulation_needs_no_owner_who_says_what_its_actions_are() -> None:
    schema = replace(SCHEMA, state_names=("x",), state_units=("m",), action_names=("x",))
    ranges = DemonstratedRanges.from_statistics(schema, None)
    for unit in ("cm", "N"):
        other = replace(schema, action_units=(unit,))
        assert Contract(other, ranges, RobotConfig({"x": JointConfig(low=-1.0, high=1.0)})).doubts
        assert Contract(other, ranges, simulated_config(other)).doubts == ()


@pytest.mark.slow
def test_lock_step_on_meta_world() -> None:
    pytest.importorskip("metaworld")
    from act_policy.evaluation.rollouts.run import build_environment
    from act_policy.sim import environment_id
    from act_policy.sim.metaworld import MetaWorldEnv

    own = MetaWorldEnv("reach", cameras={"corner2": (16, 16)})
    schema = own.schema
    own.close()
    assert schema.environment == environment_id("reach")

    class Wavering:
        """Moves by what the image's brightness says, so that it depends on what is drawn."""

        chunk_length = 5
        statistics, demonstration_seeds, execution = None, (), Execution()

        def __init__(self) -> None:
            self.schema = schema

        def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
            rows = np.sin(np.arange(20).reshape(5, 4) * observation.images["corner2"].mean())
            return (1.5 * rows).astype(np.float32)

    environment = build_environment(schema, max_steps=30)
    executor = ChunkExecutor(Wavering(), 3)
    for seed in (1000, 1001):
        executor.reset()
        expected = run_episode(environment, executor.select_action, seed)
        found = episode_in_lock_step(environment, executor, seed)
        assert found[:3] == expected[:3]
        np.testing.assert_array_equal(found.actions, expected.actions)
