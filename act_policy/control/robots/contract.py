"""Bind a robot to a policy: names, limits and ranges; check cameras, joints, sizes and rate.

Images are scaled exactly as in training. Anything that does not fit is refused, and the message
names both sides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from act_policy.control.action_space import (
    SMALLEST_RANGE,
    ActionSpace,
    build_action_space,
    kind_of,
)
from act_policy.control.config import JointConfig, RobotConfig
from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.doubts import find_doubts, guess_unit
from act_policy.control.robots.robot import Reading
from act_policy.errors import UserError
from act_policy.images.resize import camera_image
from act_policy.types import Observation, Schema


class Contract:
    """The binding of one robot to one policy; `space` holds the limits of the commands.

    A policy that sees images alone does not know where the arm is; the loop must. Its schema here
    has the joints that the actions move as its state, which the policy itself never gets to see.

    doubts: what is not known of the commands; while there are any, nothing may move.

    Args:
        schema: of the policy.
        ranges: of its demonstrations.
        config: the owner's.
        task: what the policy is to do, in words; a policy that knows several is told in every
            observation.

    Raises:
        UserError: the config names something that the policy does not have, or leaves a dimension
            without limits, or the policy needs the state of its environment, or does not know the
            task.
    """

    def __init__(
        self,
        schema: Schema,
        ranges: DemonstratedRanges,
        config: RobotConfig,
        task: str | None = None,
    ):
        schema.task_index(task)
        self.task = task
        self._sees_images_alone = not schema.state_names
        if self._sees_images_alone:
            schema, ranges = _with_measured_joints(schema, ranges, config)
        self.schema, self.ranges, self.config = schema, ranges, config
        self.space = build_action_space(schema, ranges, config)
        self._state_scale = _state_scale(ranges, self.space)
        self.doubts = find_doubts(schema, ranges, config)
        self.rate = config.timing.motor_rate or schema.rate  # commands per second
        self._ignored = set(config.ignore)
        self._cameras = _bind_names("cameras", schema.camera_names, config.cameras)
        self._state = _bind_names("state", schema.state_names, config.state)
        self._actions = _bind_names("actions", schema.action_names, config.actions)
        if schema.environment_state_names:
            raise UserError(
                "the policy wants to know the state of its environment "
                f"({', '.join(schema.environment_state_names)}), which no robot measures; "
                "train one that sees images and joints only"
            )

    def observation(self, reading: Reading, look: bool = True) -> Observation[np.ndarray]:
        """Make the policy's observation from a robot's reading.

        To `look` is to make the images now; else each is made when it is read, since a simulated
        camera draws it only then.

        Raises:
            UserError: a camera or a joint is missing, unknown, or of another size or type.
        """
        self._check_names("camera", self._cameras, reading.images)
        self._check_names("joint", self._state, reading.joints)
        joints = [reading.joints[self._state[name]] for name in self.schema.state_names]
        state = np.asarray(joints, np.float32)
        if not (finite := np.isfinite(state)).all():
            bad = [self.schema.state_names[i] for i in np.flatnonzero(~finite)]
            raise UserError(f"the robot measures no finite number for {', '.join(bad)}")
        images = _BoundImages(self.schema, self._cameras, reading.images)
        return Observation(dict(images) if look else images, state, task=self.task)

    def frames(self, reading: Reading) -> dict[str, np.ndarray]:
        """The images of a robot's reading, as they are, under the policy's names."""
        return {n: reading.images[r] for n, r in self._cameras.items() if r in reading.images}

    def image_times(self, reading: Reading) -> dict[str, float]:
        """When each camera's image was taken, under the policy's names."""
        times, usual = reading.image_times, reading.captured
        return {name: float(times.get(robots, usual)) for name, robots in self._cameras.items()}

    def command(self, action: np.ndarray) -> dict[str, float]:
        """Name a command (a,) as the robot does."""
        return {
            self._actions[name]: float(value)
            for name, value in zip(self.schema.action_names, action, strict=True)
        }

    def action(self, command: Mapping[str, Any]) -> np.ndarray:
        """The inverse of `command`, for an operator's device: (a,).

        Raises:
            UserError: a dimension is missing.
        """
        if missing := sorted(set(self._actions.values()) - set(command)):
            raise UserError(
                f"the operator's device sends no {', '.join(missing)}; "
                f"it sends {', '.join(sorted(command))}"
            )
        names = self.schema.action_names
        return np.array([float(command[self._actions[name]]) for name in names])

    def check_actions(self, names: Sequence[str]) -> None:
        """Raise UserError unless the robot takes exactly the policy's actions, in any order."""
        self._check_names("action", self._actions, names)

    def check_rate(self, looked: Sequence[float]) -> float:
        """Return the observations' rate from their moments; UserError if it is too low."""
        seconds = looked[-1] - looked[0]
        rate = (len(looked) - 1) / seconds if seconds > 0 else 0.0
        if rate < self.config.safety.slowest_rate * self.schema.rate:
            raise UserError(
                f"rate: the robot gives {rate:.1f} observations per second, the policy was trained "
                f"on {self.schema.rate:g}; a slower one would stretch every movement: end other "
                "programs, let the cameras send smaller images or more of them, or lower "
                "safety.slowest_rate"
            )
        return float(rate)

    def pose_outside(self, state: np.ndarray) -> list[str]:
        """Describe each joint too far outside the demonstrated range (`safety.start_outside`)."""
        schema, low, high = self.schema, self.ranges.state_low, self.ranges.state_high
        margin = self.config.safety.start_outside * self._state_scale
        outside = (state < low - margin) | (state > high + margin)  # never where these are NaN
        return [
            f"{schema.state_names[i]} is at {state[i]:.4g} {schema.state_units[i]}, demonstrated "
            f"was {low[i]:.4g} to {high[i]:.4g}{guess_unit(float(state[i]), low[i], high[i])}"
            for i in np.flatnonzero(outside)
        ]

    def _check_names(self, kind: str, bound: Mapping[str, str], names: Iterable[str]) -> None:
        wanted, present = set(bound.values()), set(names)
        missing, extra = wanted - present, present - wanted - self._ignored
        if kind == "joint" and self._sees_images_alone:
            extra = set()  # the policy has no use for any
        if not missing and not extra:
            return
        section = {"camera": "cameras", "joint": "state", "action": "actions"}[kind]
        sentences = [
            f"{kind} names differ: the policy has {', '.join(sorted(wanted))}; "
            f"the robot has {', '.join(sorted(present)) or 'none'}"
        ]
        if missing:
            sentences.append(
                f"the robot has to have {', '.join(sorted(missing))} too; if it calls it something "
                f"else, say so under [{section}] in the config"
            )
        if extra:
            sentences.append(f"if {', '.join(sorted(extra))} is not needed, add it to ignore")
        raise UserError("; ".join(sentences))


class _BoundImages(Mapping[str, np.ndarray]):
    """The policy's images, each made from the robot's when it is read."""

    def __init__(self, schema: Schema, names: Mapping[str, str], images: Mapping[str, Any]):
        self._schema, self._names, self._images = schema, names, images

    def __getitem__(self, name: str) -> np.ndarray:
        camera = next(camera for camera in self._schema.cameras if camera.name == name)
        return camera_image(np.asarray(self._images[self._names[name]]), camera)

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema.camera_names)

    def __len__(self) -> int:
        return len(self._schema.cameras)


def _state_scale(ranges: DemonstratedRanges, space: ActionSpace) -> np.ndarray:
    """What counts as a large movement of each joint (s,): where it is commanded, of the command.

    An angle that wraps is measured by its own range, since its scale is the whole turn.
    """
    with np.errstate(invalid="ignore"):  # NaN where a range is not known, and stays so
        scale: np.ndarray = np.maximum(ranges.state_high - ranges.state_low, SMALLEST_RANGE)
    moved = np.flatnonzero((space.measured >= 0) & ~np.isfinite(space.period))
    np.fmax.at(scale, space.measured[moved], space.scale[moved])
    return scale


def _with_measured_joints(
    schema: Schema, ranges: DemonstratedRanges, config: RobotConfig
) -> tuple[Schema, DemonstratedRanges]:
    """Add the joints that positions move as the state, in the ranges of those actions."""
    joints = [config.joints.get(name, JointConfig()) for name in schema.action_names]
    moved = [
        (i, joint.measured or name)
        for i, (joint, (name, unit)) in enumerate(zip(joints, schema.actions, strict=True))
        if (joint.kind or kind_of(name, unit)) == "position"
    ]
    places = [i for i, _ in moved]
    with_joints = replace(
        schema,
        state_names=tuple(name for _, name in moved),
        state_units=tuple(schema.action_units[i] for i in places),
    )
    low, high = ranges.action_low[places], ranges.action_high[places]
    return with_joints, ranges._replace(state_low=low, state_high=high)


def _bind_names(section: str, names: Sequence[str], renamed: Mapping[str, str]) -> dict[str, str]:
    """Map each of the policy's names to the robot's."""
    if unknown := sorted(set(renamed) - set(names)):
        raise UserError(
            f"config: {section} {', '.join(unknown)} are none of the policy's {', '.join(names)}"
        )
    bound = {name: renamed.get(name, name) for name in names}
    if len(set(bound.values())) < len(bound):
        raise UserError(f"config: two of {section} have the same name on the robot")
    return bound
