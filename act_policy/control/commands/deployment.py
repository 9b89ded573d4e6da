"""One policy on one robot: everything that check, shadow and run have in common."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from act_policy.control.action_space import ActionSpace, action_space
from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.config import RobotConfig, read_config
from act_policy.control.demonstrated import Demonstrated, demonstrated
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.open import open_policy
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Robot, load_hook, load_robot
from act_policy.control.robots.simulated_arm import SimulatedArm, resting_pose
from act_policy.control.safety.camera_watch import CameraWatch
from act_policy.errors import UserError

SIMULATED = "simulated"


class Deployment(NamedTuple):
    """A loaded policy, a connected robot, and what binds them."""

    inference: InferenceProcess
    robot: Robot
    config: RobotConfig
    shown: Demonstrated
    space: ActionSpace
    contract: Contract

    def executor(self) -> AsynchronousExecutor:
        """What turns chunks into actions."""
        return AsynchronousExecutor(self.inference, self.space, self.config)

    def watch(self) -> CameraWatch:
        """What looks at the images."""
        return CameraWatch(self.shown, self.config.safety)


@contextmanager
def deployed(policy: str, robot: str, config: str | None) -> Iterator[Deployment]:
    """Load the policy in its process, connect the robot, and undo both at the end.

    Args:
        policy: FILE.onnx or ws://HOST:PORT.
        robot: MODULE:FUNCTION, or `simulated`.
        config: the owner's file; None leaves all to the demonstrations.

    Raises:
        UserError: one of them cannot be used, or they do not fit each other.
    """
    said = RobotConfig() if config is None else read_config(config)
    with ExitStack() as stack:
        inference = InferenceProcess(partial(open_policy, policy, said.timing.threads))
        stack.callback(inference.close)
        schema = inference.schema
        shown = demonstrated(schema, inference.metadata)
        space = action_space(schema, shown, said)
        contract = Contract(schema, said)
        arm: Robot
        if robot == SIMULATED:  # it has the policy's names, whatever the owner's robot has
            said = replace(said, cameras={}, state={}, actions={})
            contract = Contract(schema, said)
            arm = SimulatedArm(schema, space, resting_pose(schema, shown), shown.images)
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
        yield Deployment(inference, arm, said, shown, space, contract)


@contextmanager
def operator_device(spec: str | None) -> Iterator[Any]:
    """The owner's MODULE:FUNCTION() with get_action, such as a leader arm of LeRobot's."""
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
