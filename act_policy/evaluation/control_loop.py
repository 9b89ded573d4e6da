"""Run simulated episodes through a robot's whole control loop, and the same ones in process.

    python -m act_policy.evaluation.control_loop --policy FILE.onnx --episodes 20 --seed 1000
    python -m act_policy.evaluation.control_loop --policy ws://HOST:PORT --episodes 20 --real-time

In lock step the world waits for the policy, and both must execute exactly the same actions.
In real time the policy has a process of its own and the world does not wait.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from act_policy.control.chunks.asynchronous import AsynchronousExecutor, Inference, Proposal
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.config import RobotConfig, TimingConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop
from act_policy.control.pacing import Pacer, Punctuality
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.torch_free import open_torch_free
from act_policy.control.robots.contract import Contract
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.control.safety.supervisor import Mode
from act_policy.errors import UserError
from act_policy.evaluation.rollouts.run import (
    Environment,
    EpisodeResult,
    build_environment,
    run_episode,
    tell_task,
)
from act_policy.sim.simulated_robot import SimulatedRobot, simulated_config
from act_policy.types import Observation, Schema


class LockStep:
    """An executor for a simulated world that waits until the policy has answered."""

    max_age = np.inf

    def __init__(self, executor: ChunkExecutor):
        self._executor = executor
        self._action: np.ndarray | None = None

    def reset(self) -> None:
        """Forget the chunk."""
        self._executor.reset()
        self._action = None

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Choose the action of this step."""
        try:
            self._action = self._executor.select_action(observation)
        except UserError as error:
            raise PolicyError(str(error)) from None

    def action(self, now: float) -> Proposal | None:
        """The action of this step, once; it has no age, since the world waited."""
        action, self._action = self._action, None
        return None if action is None else Proposal(action, 0.0)


def episode_in_lock_step(
    environment: Environment, executor: ChunkExecutor, seed: int, task: str | None = None
) -> EpisodeResult:
    """Run one episode as `rollouts.run_episode` does, but through contract, safety and loop.

    Raises:
        UserError: the loop held the arm; the message is its reason.
    """
    executor.reset()
    now = 0.0
    schema = executor.policy.schema
    robot = SimulatedRobot(environment, schema, seed, lock_step=True, clock=lambda: now)
    contract = _contract(schema, simulated_config(schema), task)
    loop = ControlLoop(robot, contract, LockStep(executor), EventLog())
    operator = OperatorInput()
    robot.connect()
    operator.key("\n")
    while not robot.ended:
        loop.tick(now, operator)
        if reason := _hold_reason(loop):
            raise UserError(reason)
        now += loop.period
    return _result(robot, seed)


def episode_in_real_time(
    environment: Environment,
    inference: Inference,
    seed: int,
    config: RobotConfig,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    task: str | None = None,
) -> tuple[EpisodeResult, Punctuality | str]:
    """Run one episode in real time; the policy answers when it can.

    Where the loop holds the arm, the episode ends there, failed, with the reason of the hold.
    """
    robot = SimulatedRobot(environment, inference.schema, seed, clock=clock)
    contract = _contract(inference.schema, config, task)
    executor = AsynchronousExecutor(inference, contract.space, config)
    loop = ControlLoop(robot, contract, executor, EventLog())
    operator = OperatorInput()
    robot.connect()
    operator.key("\n")
    pacer = Pacer(loop.period, clock, sleep)
    while not robot.ended:
        loop.tick(clock(), operator)
        if reason := _hold_reason(loop):
            return _result(robot, seed)._replace(success=False), reason
        pacer.wait()
    return _result(robot, seed), pacer.punctuality()


def _contract(schema: Schema, config: RobotConfig, task: str | None) -> Contract:
    return Contract(schema, DemonstratedRanges.from_statistics(schema, None), config, task)


def _hold_reason(loop: ControlLoop) -> str:
    """Return why the loop no longer moves the arm; "" while it does."""
    if loop.supervisor.mode is Mode.WAITING:
        return f"the loop did not start: {loop.events.events[-1].detail}"
    return loop.supervisor.reason if loop.supervisor.mode is Mode.HOLDING else ""


def _result(robot: SimulatedRobot, seed: int) -> EpisodeResult:
    actions = np.asarray(robot.actions, np.float32).reshape(-1, robot.schema.action_size)
    return EpisodeResult(seed, robot.success, len(actions), actions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the loop with the evaluation in process; 1 if lock step differs anywhere."""
    options = _parser().parse_args(arguments)
    try:
        return _compare(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _compare(options: argparse.Namespace) -> int:
    policy = open_torch_free(options.policy, threads=1)
    policy.schema.task_index(options.task)
    environment = build_environment(policy.schema, max_steps=options.max_steps)
    executor = ChunkExecutor(policy, options.execute_steps)
    timing = TimingConfig(
        execute_steps=options.execute_steps, blend_steps=options.blend_steps, threads=1
    )
    config = simulated_config(policy.schema, timing)
    inference = None
    if options.real_time:
        inference = InferenceProcess(partial(open_torch_free, options.policy, 1))
    won, different = [0, 0], 0
    try:
        for seed in range(options.seed, options.seed + options.episodes):
            executor.reset()
            select_action = tell_task(executor.select_action, options.task)
            before = run_episode(environment, select_action, seed)
            note = ""
            if inference is None:
                through = episode_in_lock_step(environment, executor, seed, options.task)
                same = np.array_equal(before.actions, through.actions)
                different += not (same and before.success == through.success)
            else:
                through, punctual = episode_in_real_time(
                    environment, inference, seed, config, task=options.task
                )
                note = f"; {punctual}"
            won = [won[0] + before.success, won[1] + through.success]
            print(
                f"seed {seed}: in process {before.success} after {before.steps}, "
                f"through the loop {through.success} after {through.steps}{note}",
                flush=True,
            )
    finally:
        if inference is not None:
            inference.close()
    print(f"successes: {won[0]} in process, {won[1]} through the loop, of {options.episodes}")
    if inference is None:
        print(f"episodes that differ: {different}")
    return int(different > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m act_policy.evaluation.control_loop")
    parser.add_argument("--policy", required=True, help="FILE.onnx or ws://HOST:PORT")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first initial state")
    parser.add_argument("--max-steps", type=int, help="end of an episode; else the environment's")
    parser.add_argument("--task", help="in words, for a policy that knows several")
    parser.add_argument("--execute-steps", type=int, help="of each chunk")
    parser.add_argument("--blend-steps", type=int, default=0, help="of two chunks, in real time")
    parser.add_argument("--real-time", action="store_true", help="instead of in lock step")
    return parser


if __name__ == "__main__":
    sys.exit(main())
