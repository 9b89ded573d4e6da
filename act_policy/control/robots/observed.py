"""A robot whose readings and commands somebody else sees as they pass: a page, a film."""

from collections.abc import Callable, Mapping

from act_policy.control.robots.robot import Reading, Robot


class ObservedRobot:
    """Passes everything on to a robot, and tells of it.

    Args:
        robot: does the work.
        on_reading: called with each reading; must not raise or wait.
        on_command: called with each command that the robot took; likewise.
    """

    def __init__(
        self,
        robot: Robot,
        on_reading: Callable[[Reading], None] = lambda reading: None,
        on_command: Callable[[Mapping[str, float]], None] = lambda command: None,
    ):
        self._robot, self._on_reading, self._on_command = robot, on_reading, on_command

    def connect(self) -> None:
        """Make it ready."""
        self._robot.connect()

    def get_observation(self) -> Reading:
        """Read the sensors, and tell."""
        reading = self._robot.get_observation()
        self._on_reading(reading)
        return reading

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, float] | None:
        """Carry out a command, and tell."""
        sent = self._robot.send_action(action)
        self._on_command(action)
        return sent

    def disconnect(self) -> None:
        """Leave it safe."""
        self._robot.disconnect()
