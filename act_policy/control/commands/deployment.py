"""Load a policy, connect a robot and bind the two, for check, shadow and run alike."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import IO, Any, NamedTuple

from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.config import RobotConfig, read_config
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.torch_free import open_torch_free
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Robot, load_hook, load_robot
from act_policy.control.robots.simulated_arm import SimulatedArm
from act_policy.control.safety.camera_watch import CameraWatch
from act_policy.errors import UserError, writing

SIMULATED = "simulated"


class Deployment(NamedTuple):
    """A loaded policy, a connected robot, and what binds them."""

    inference: InferenceProcess
    robot: Robot
    contract: Contract

    def executor(self) -> AsynchronousExecutor:
        """Make the executor that turns chunks into actions."""
        return AsynchronousExecutor(self.inference, self.contract.space, self.contract.config)

    def watch(self) -> CameraWatch:
        """Make the watch over the cameras."""
        return CameraWatch(self.contract.ranges, self.contract.config.safety)


@contextmanager
def deploy(policy: str, robot: str, config: str | None) -> Iterator[Deployment]:
    """Load the policy in its process, connect the robot, and undo both at the end.

    Args:
        policy: FILE.onnx or ws://HOST:PORT.
        robot: MODULE:FUNCTION, or `simulated`.
        config: the owner's file; without one the limits come from the demonstrations.

    Raises:
        UserError: one of them cannot be used, or they do not fit each other.
    """
    robot_config = RobotConfig() if config is None else read_config(config)
    with ExitStack() as stack:
        inference = InferenceProcess(partial(open_torch_free, policy, robot_config.timing.threads))
        stack.callback(inference.close)
        schema = inference.schema
        ranges = DemonstratedRanges.from_statistics(schema, inference.statistics)
        contract = Contract(schema, ranges, robot_config)
        arm: Robot
        if robot == SIMULATED:  # it has the policy's names, unlike the owner's robot
            robot_config = replace(robot_config, cameras={}, state={}, actions={})
            contract = Contract(schema, ranges, robot_config)
            arm = SimulatedArm(contract)
        else:
            arm = load_robot(robot, schema)
        if (names := getattr(arm, "action_names", None)) is not None:
            contract.check_actions(names)
        try:
            arm.connect()
        except UserError:
            raise
        except Exception as error:  # of the robot's driver, which may raise anything
            raise UserError(f"robot {robot}: cannot be connected: {error!r}") from error
        stack.callback(arm.disconnect)
        yield Deployment(inference, arm, contract)


def open_log(path: str) -> IO[str]:
    """Open a file for lines of JSON; raise UserError where it cannot be written."""
    with writing(f"log {path}"):
        return open(path, "w", encoding="utf-8", buffering=1)


@contextmanager
def open_device(spec: str | None) -> Iterator[Any]:
    """Connect the device that the owner's MODULE:FUNCTION returns, such as LeRobot's leader arm."""
    if spec is None:
        yield None
        return
    device = load_hook(spec, "operator")()
    if hasattr(device, "connect"):
        device.connect()
    try:
        yield device
    finally:
        if hasattr(device, "disconnect"):
            device.disconnect()
