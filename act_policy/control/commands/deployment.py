"""Load a policy, connect a robot and bind the two, for every command that looks at a robot."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.commands.ending import EndingSignals
from act_policy.control.config import RobotConfig, read_config
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.page.board import BoardWriter
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.torch_free import open_torch_free
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import (
    LeRobotRobot,
    Reading,
    Robot,
    RobotReader,
    call_owner,
    load_hook,
    load_robot,
)
from act_policy.control.robots.simulated_arm import SimulatedArm
from act_policy.control.safety.camera_watch import CameraWatch, doubt_captured
from act_policy.errors import UserError, located

SIMULATED = "simulated"
MOST_OF_IT, SHORTEST_WATCH = 0.8, 0.5  # share of the seconds of a check; seconds


class Deployment(NamedTuple):
    """A loaded policy, a connected robot, and what binds them.

    rivals: further policies to compare with it.
    made: what the owner's function returned: the robot without what is around it here.
    say: prints lines without waiting for a reader.
    signals: those that end the command.
    board: of the page in a browser, if there is one.
    """

    inference: InferenceProcess
    robot: Robot
    contract: Contract
    made: Any
    say: Callable[[str], None]
    signals: EndingSignals
    board: BoardWriter | None
    rivals: Sequence[InferenceProcess] = ()

    def executor(self) -> AsynchronousExecutor:
        """Make the executor that turns chunks into actions."""
        return AsynchronousExecutor(self.inference, self.contract.space, self.contract.config)

    def each(self) -> list["Deployment"]:
        """Deploy each policy alone, on the same robot."""
        every = (self.inference, *self.rivals)
        return [self._replace(inference=inference, rivals=()) for inference in every]

    def reader(self) -> RobotReader:
        """Make a reader that lets pass as many failures as the owner tolerates."""
        return RobotReader(self.robot, self.contract.config.safety.failed_reads)

    def watch(self, seconds: float = math.inf) -> CameraWatch:
        """Make the watch over the cameras.

        Args:
            seconds: for which it looks; it finds images that stand still for most of them.
        """
        safety, most = self.contract.config.safety, max(MOST_OF_IT * seconds, SHORTEST_WATCH)
        still = min(safety.frozen_camera_time, most)
        return CameraWatch(self.contract.ranges, replace(safety, frozen_camera_time=still))

    def doubt_captured(self, reading: Reading, began: float, ended: float) -> str:
        """Say why a reading's moments of capture cannot be; "" if they can."""
        longest = self.contract.config.safety.max_image_age
        times = self.contract.image_times(reading)
        return doubt_captured(float(reading.captured), times, began, ended, longest)

    def load_release(self, spec: str | None) -> Callable[[], None] | None:
        """The owner's hook that lets the arm go, bound to the robot that their function made."""
        if spec is None:
            return None
        return partial(load_hook(spec, "release"), self.made)

    def describe(self, what: Callable[[], tuple[str, str]]) -> None:
        """Say what the command does, and why, where a page shows it."""
        if self.board is not None:
            self.board.describe = what


@contextmanager
def deploy(
    policies: Sequence[str],
    robot: str,
    config: str | None,
    say: Callable[[str], None],
    signals: EndingSignals,
    page: int | None = None,
    task: str | None = None,
) -> Iterator[Deployment]:
    """Load the policy in its process, connect the robot, and undo both at the end.

    Args:
        policies: FILE.onnx or ws://HOST:PORT; of several none is named on the page.
        robot: MODULE:FUNCTION, or `simulated`.
        config: the owner's file; without one the limits come from the demonstrations.
        say: prints lines.
        signals: do not interrupt the disconnecting.
        page: port at which browsers of this machine see the robot; None has no page.
        task: what to do, in words, of policies that know several tasks.

    Raises:
        UserError: one of them cannot be used, or they do not fit each other.
    """
    robot_config = RobotConfig() if config is None else read_config(config)
    with ExitStack() as stack:
        opened = []
        for policy in policies:
            open_policy = partial(open_torch_free, policy, robot_config.timing.threads)
            opened.append(InferenceProcess(open_policy))
            stack.callback(opened[-1].close)
        inference, *rivals = opened
        schema, ranges = inference.schema, _demonstrated(policies, opened)
        for policy, each in zip(policies, opened, strict=True):
            with located(f"--task, for {policy}"):
                each.schema.task_index(task)
        contract = Contract(schema, ranges, robot_config, task)
        arm: Robot
        if robot == SIMULATED:  # it has the policy's names, unlike the owner's robot
            robot_config = replace(robot_config, cameras={}, state={}, actions={})
            contract = Contract(schema, ranges, robot_config, task)
            arm = SimulatedArm(contract)
        else:
            arm = load_robot(robot, schema)
        names = call_owner(f"robot {robot}: action_features", getattr, arm, "action_names", None)
        if names is not None:
            contract.check_actions(names)
        made = arm.robot if isinstance(arm, LeRobotRobot) else arm
        board = None
        if page is not None:
            with asking_for_packages():
                from act_policy.control.page.process import open_page, show_robot
                from act_policy.control.page.robot_page import PageSubject
            named = policies[0] if not rivals else f"one of {len(policies)}, which stays hidden"
            subject = PageSubject(named, robot, contract, inference.chunk_length)
            board, address = stack.enter_context(open_page(page, subject))
            say(f"page: {address}")
            arm = show_robot(arm, board, contract)
            if not rivals:  # a chunk's length and shape would tell whose it is
                inference.on_answer = board.show_answer
        stack.enter_context(_connected(arm, f"robot {robot}", signals))
        yield Deployment(inference, arm, contract, made, say, signals, board, rivals)


def _demonstrated(
    policies: Sequence[str], opened: Sequence[InferenceProcess]
) -> DemonstratedRanges:
    """Return the ranges of all policies' demonstrations; UserError unless the schemas agree."""
    first, *others = opened
    ranges = DemonstratedRanges.from_statistics(first.schema, first.statistics)
    for policy, other in zip(policies[1:], others, strict=True):
        if differences := first.schema.differences(other.schema):
            raise UserError(
                f"policies {policies[0]} (here) and {policy} (there) are not for the same robot: "
                f"{'; '.join(differences)}"
            )
        ranges = ranges.including(
            DemonstratedRanges.from_statistics(other.schema, other.statistics)
        )
    return ranges


@contextmanager
def asking_for_packages() -> Iterator[None]:
    """Import what only some commands need; UserError says how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"{error}; run `pip install '.[robot]'` in a checkout") from None


@contextmanager
def open_device(spec: str | None, signals: EndingSignals) -> Iterator[Any]:
    """Connect the device that the owner's MODULE:FUNCTION returns, such as LeRobot's leader arm.

    Raises:
        UserError: there is none, or it fails.
    """
    if spec is None:
        yield None
        return
    device = call_owner(f"operator {spec}", load_hook(spec, "operator"))
    with _connected(device, f"operator {spec}", signals):
        yield device


@contextmanager
def _connected(made: Any, what: str, signals: EndingSignals) -> Iterator[None]:
    """Connect a robot or device, and disconnect it at the end, also after half a connection."""
    connected = False
    try:
        try:
            if hasattr(made, "connect"):
                made.connect()
        except UserError:
            raise
        except Exception as error:  # of a driver, which may raise anything
            raise UserError(f"{what}: cannot be connected: {error!r}") from error
        connected = True
        yield
    finally:
        with signals.finishing():
            try:
                if hasattr(made, "disconnect"):
                    made.disconnect()
            except Exception as error:
                if connected:  # else the driver may well complain that it is not
                    raise UserError(
                        f"{what}: cannot be disconnected: {error!r}; its motors may still be "
                        "powered"
                    ) from error
