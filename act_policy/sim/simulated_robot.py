"""A simulated task as a Robot, moved by a robot's control loop in lock step or in real time."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from act_policy.control.action_space import kind_of
from act_policy.control.config import (
    JointConfig,
    Kind,
    RobotConfig,
    SafetyConfig,
    TimingConfig,
)
from act_policy.control.robots.robot import Reading
from act_policy.types import Schema

MOST_STEPS_AT_ONCE = 10
"""Steps that are caught up when the simulation falls behind; a slower one runs in slow motion."""


class SimulatedRobot:
    """One episode of an environment whose observation has `pixels` and `agent_pos`.

    In lock step each command is one step, and the world waits for it. In real time, from the first
    command on, the world runs at the schema's rate under the last command, whatever the loop does.

    Args:
        environment: as `evaluation.rollouts.build_environment` makes it for the policy.
        schema: of the policy.
        seed: fixes the initial state.
        lock_step: whether each command is one step; otherwise real time.
        clock: of the loop, in seconds.
    """

    def __init__(
        self,
        environment: gymnasium.Env[Any, Any],
        schema: Schema,
        seed: int,
        lock_step: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._environment, self._seed = environment, seed
        self._lock_step, self._clock = lock_step, clock
        self.schema = schema
        self.action_names = self.schema.action_names
        self._observation: dict[str, Any] = {}
        self._command: np.ndarray | None = None
        self._next = 0.0  # when the next step is due, in real time
        self.actions: list[np.ndarray] = []  # (a,) of every step
        self.success = self.ended = False

    def connect(self) -> None:
        """Begin the episode."""
        self._observation, _ = self._environment.reset(seed=self._seed)

    def get_observation(self) -> Reading:
        """Observe the environment now; an image is drawn when it is read."""
        now = self._advance()
        state = self._observation["agent_pos"]
        joints = dict(zip(self.schema.state_names, map(float, state), strict=True))
        return Reading(now, self._observation["pixels"], joints)

    def send_action(self, action: Mapping[str, float]) -> None:
        """Carry out a command: for one step in lock step, until the next one in real time."""
        now = self._advance()
        command = np.array([action[name] for name in self.action_names], np.float32)
        if self._lock_step:
            self._step(command)
        elif self._command is None:
            self._next = now + 1 / self.schema.rate
        self._command = command

    def disconnect(self) -> None:
        """Leave the environment to its owner."""

    def _advance(self) -> float:
        """Take the steps that are due by now."""
        now = self._clock()
        if self._lock_step or self._command is None:
            return now
        period = 1 / self.schema.rate
        # The loop ticks at about the time a step is due: round to the nearest step.
        late = int((now - self._next) / period + 1.5)
        for _ in range(min(late, MOST_STEPS_AT_ONCE)):
            if not self.ended:
                self._step(self._command)
        if late > 0:
            self._next += late * period
        return now

    def _step(self, command: np.ndarray) -> None:
        self._observation, _, terminated, truncated, info = self._environment.step(command)
        self.actions.append(command)
        self.success |= bool(info["success"])
        self.ended |= self.success or terminated or truncated


def simulated_config(schema: Schema, timing: TimingConfig | None = None) -> RobotConfig:
    """Make a config for a simulated task, which cannot break: no limits, no soft start, no doubts.

    A still scene is drawn identically each time, so a camera that repeats its image is not frozen.
    An action whose position the policy's state leaves out is a switch, which needs no measurement.
    """

    def kind(name: str, unit: str) -> Kind:
        told = kind_of(name, unit)
        return "switch" if told == "position" and name not in schema.state_names else told

    return RobotConfig(
        joints={
            name: JointConfig(
                kind=kind(name, unit),
                unit=unit,
                low=-np.inf,
                high=np.inf,
                max_speed=np.inf,
                max_step=np.inf,
                approach_speed=np.inf,
            )
            for name, unit in schema.actions
        },
        safety=SafetyConfig(
            slowest_rate=0.0,  # no slower machine may change what is measured
            frozen_camera_time=0.0,
            odd_image_time=0.0,
            start_outside=np.inf,
            start_distance=1.0,
        ),
        timing=timing or TimingConfig(),
    )
