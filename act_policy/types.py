"""Types that every package shares; numpy only.

Axes, the same letters in annotations, einops patterns, comments and docs:

    b batch          n tokens          c h w channel, height, width
    s state size     a action size     k chunk length
    t encoder tokens q m query and memory tokens
    d model width    heads             e width per head     z latent size
    y x rows and columns of a map

In annotations `*b` is any number of axes, `#b` that size or 1, `_h` any size, `{width}` an
argument's value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from act_policy.errors import UserError, check_fields
from act_policy.observed_values import check_prefix, check_vector

ArrayT = TypeVar("ArrayT")
"""A numpy array on the robot and in files, a torch tensor inside the network."""

IMAGE_PREFIX = "observation.images."
STATE_KEY = "observation.state"
ENVIRONMENT_STATE_KEY = "observation.environment_state"
ACTION_KEY = "action"
TASK_KEY = "task"
PREFIX_KEY = "action_prefix"


if TYPE_CHECKING:
    from typing import Generic as _Over
else:

    class _Over:
        """Generic to mypy, nothing at run time: beartype cannot read a generic NamedTuple."""

        def __class_getitem__(cls, item: Any) -> Any:
            return cls()

        def __mro_entries__(self, bases: Any) -> tuple[()]:
            return ()


class Observation(NamedTuple, _Over[ArrayT]):
    """One raw observation of the robot; every array may have a leading batch axis.

    images: camera name -> uint8 (h, w, 3) RGB.
    state: float32 (s,), proprioception in the schema's units; s is 0 for a policy that sees images
        alone.
    environment_state: float32, the objects' state in a simulator; None where there is none.
    prefix: float32 (p, a), the actions from this moment on that the robot carries out whatever is
        predicted, for a policy that knows about them; NaN from the first on that is still free.
        None where nothing is committed.
    task: what is to be done, for a policy that knows several tasks: the words of one of the
        schema's tasks, or its index, int64; for a batch an array of either. None where there is
        nothing to choose.
    """

    images: Mapping[str, ArrayT]
    state: ArrayT
    environment_state: ArrayT | None = None
    prefix: ArrayT | None = None
    task: Any = None

    @classmethod
    def from_keys(cls, values: Mapping[str, ArrayT]) -> "Observation[ArrayT]":
        """Bind LeRobot's keys (`observation.images.<camera>`, `observation.state`, `task`) by name.

        Any other key raises UserError: nothing is ignored silently.
        """
        images: dict[str, ArrayT] = {}
        others: dict[str, ArrayT] = {}
        for key, value in values.items():
            if key.startswith(IMAGE_PREFIX):
                images[key.removeprefix(IMAGE_PREFIX)] = value
            elif key in (STATE_KEY, ENVIRONMENT_STATE_KEY, PREFIX_KEY, TASK_KEY):
                others[key] = value
            else:
                raise UserError(
                    f"observation key {key!r} is unknown; expected {IMAGE_PREFIX}<camera>, "
                    f"{STATE_KEY}, {ENVIRONMENT_STATE_KEY}, {PREFIX_KEY} or {TASK_KEY}"
                )
        state: Any = others.get(STATE_KEY)
        if state is None:
            if not images:
                raise UserError(f"the observation has no {STATE_KEY}; found {sorted(values)}")
            state = _no_state(images)
        optional = (others.get(key) for key in (ENVIRONMENT_STATE_KEY, PREFIX_KEY, TASK_KEY))
        return cls(images, state, *optional)

    def map(self, change: Callable[[Any], Any]) -> "Observation[Any]":
        """Apply a function to every array."""
        images = {name: change(image) for name, image in self.images.items()}
        others = (self.environment_state, self.prefix, self.task)
        return Observation(
            images,
            change(self.state),
            *(None if other is None else change(other) for other in others),
        )


def _no_state(images: Mapping[str, Any]) -> np.ndarray:
    """Return float32 (0,), or (b, 0) beside a batch of images."""
    batch = np.shape(next(iter(images.values())))[:-3]
    return np.zeros((*batch, 0), np.float32)


def stack_observations(observations: Sequence[Observation[Any]]) -> Observation[np.ndarray]:
    """Put single observations into one batch."""
    first = observations[0]
    others = [each.environment_state for each in observations]
    return Observation(
        {name: np.stack([each.images[name] for each in observations]) for name in first.images},
        np.stack([each.state for each in observations]),
        None if first.environment_state is None else np.stack([np.asarray(v) for v in others]),
        _stack_prefixes([each.prefix for each in observations]),
        None if first.task is None else np.stack([np.asarray(each.task) for each in observations]),
    )


def _stack_prefixes(prefixes: Sequence[Any]) -> np.ndarray | None:
    """Put prefixes into one batch; an observation without one has nothing committed."""
    given = [np.asarray(prefix) for prefix in prefixes if prefix is not None]
    if not given:
        return None
    free = np.full_like(given[0], np.nan)
    return np.stack([free if prefix is None else np.asarray(prefix) for prefix in prefixes])


def check_prefix_length(observation: Observation[Any], length: int) -> None:
    """Raise UserError unless the observation's prefix, if it has one, has as many rows."""
    found = 0 if observation.prefix is None else np.shape(observation.prefix)[-2]
    if observation.prefix is not None and found != length:
        expected = f"{length} rows, of which some may be NaN" if length else "none"
        raise UserError(f"{PREFIX_KEY}: {found} rows, the policy takes {expected}")


@dataclass(frozen=True)
class Camera:
    """One camera's name and its image size in pixels.

    source_size: (height, width) of the frames that its images were made from; None where the
        images are as the camera took them.
    crop: (top, left, height, width), cut out of such a frame before it was scaled; None is the
        whole frame. `act_policy.images.resize.camera_image` repeats the crop and the scaling.
    """

    name: str
    height: int
    width: int
    source_size: tuple[int, int] | None = None
    crop: tuple[int, int, int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are set, ready for JSON; `from_dict` is the inverse."""
        return {name: _as_list(v) for name, v in asdict(self).items() if v is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Camera":
        """Rebuild from plain values; TypeError where a field is missing or unknown."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()
        }
        return cls(**values)


@dataclass(frozen=True)
class Schema:
    """Properties on which a dataset, a policy and a robot must agree before anything moves.

    Cameras, joints and actions are matched by these names, never by their position in a list.
    state_names: empty for a policy that sees images alone.
    rate: steps per second.
    environment: the id of the simulated environment, "" on a real robot.
    tasks: what was to be done in the demonstrations, in words; a policy with two or more is told
        which of them to do.
    teacher: who demonstrated in simulation, where it is not the usual expert: "original", or the
        module:function of a user.
    """

    cameras: tuple[Camera, ...]
    state_names: tuple[str, ...]
    state_units: tuple[str, ...]
    action_names: tuple[str, ...]
    action_units: tuple[str, ...]
    rate: float
    environment_state_names: tuple[str, ...] = ()
    environment: str = ""
    tasks: tuple[str, ...] = ()
    teacher: str = ""

    def __post_init__(self) -> None:
        if not self.action_names:
            raise UserError("a schema needs at least one action dimension")
        for field, names, units in (
            ("state", self.state_names, self.state_units),
            ("action", self.action_names, self.action_units),
        ):
            if len(names) != len(units):
                raise UserError(
                    f"{field}: {len(names)} names but {len(units)} units; give one unit per name"
                )
        for field, every in (
            ("camera", self.camera_names),
            ("state", self.state_names),
            ("action", self.action_names),
            ("environment state", self.environment_state_names),
            ("task", self.tasks),
        ):
            if twice := sorted({name for name in every if every.count(name) > 1}):
                raise UserError(f"{field} names must be unique; found twice: {', '.join(twice)}")
        for camera in self.cameras:
            if camera.height < 1 or camera.width < 1:
                raise UserError(
                    f"camera {camera.name}: size {camera.height}x{camera.width} must be positive"
                )
            if camera.crop is not None and camera.source_size is None:
                raise UserError(f"camera {camera.name}: a crop needs a source_size to be cut from")
        if not self.rate > 0:
            raise UserError(f"rate must be positive, found {self.rate} steps per second")

    @property
    def camera_names(self) -> tuple[str, ...]:
        """Names in the order in which the network sees the cameras."""
        return tuple(camera.name for camera in self.cameras)

    @property
    def states(self) -> list[tuple[str, str]]:
        """Name and unit of each state dimension."""
        return list(zip(self.state_names, self.state_units, strict=True))

    @property
    def actions(self) -> list[tuple[str, str]]:
        """Name and unit of each action dimension."""
        return list(zip(self.action_names, self.action_units, strict=True))

    @property
    def state_size(self) -> int:
        """The s of (b, s)."""
        return len(self.state_names)

    @property
    def action_size(self) -> int:
        """The a of (b, k, a)."""
        return len(self.action_names)

    def differences(self, other: "Schema") -> list[str]:
        """List the fields in which the other schema differs; empty when the two are the same.

        Environment, tasks and teacher are not compared: the same robot may do several tasks, in
        several environments, and learn from anybody.
        """
        mine, theirs = self.to_dict(), other.to_dict()
        return [
            f"{field}: {mine[field]} here, {theirs[field]} there"
            for field in mine
            if field not in ("environment", "tasks", "teacher")
            and mine.get(field) != theirs.get(field)
        ]

    @property
    def chooses_task(self) -> bool:
        """Whether an observation must say which task is to be done."""
        return len(self.tasks) > 1

    def task_index(self, task: Any, batch: tuple[int, ...] = ()) -> np.ndarray | None:
        """Return the index of each task, int64 (*batch,); None where there is nothing to choose.

        Args:
            task: words or indices; one for all of a batch, or one for each.
            batch: shape of the observation's batch.

        Raises:
            UserError: none is given, or the policy does not know it.
        """
        if not self.chooses_task:
            return None
        listed = ", ".join(repr(each) for each in self.tasks)
        if task is None:
            raise UserError(
                f"{TASK_KEY}: the policy knows {len(self.tasks)} tasks; say which: {listed}"
            )
        given = np.asarray(task)
        if given.shape not in ((), batch) or given.dtype.kind not in "iuUO":
            raise UserError(f"{TASK_KEY}: {given.dtype} {given.shape}, expected words, {batch}")
        numbers: dict[Any, int] = {each: index for index, each in enumerate(self.tasks)}
        if given.dtype.kind in "iu":
            numbers = {index: index for index in numbers.values()}
        found = [numbers.get(each, -1) for each in given.flat]
        for each, index in zip(given.flat, found, strict=True):
            if index < 0:
                raise UserError(f"{TASK_KEY}: {str(each)!r} is unknown; the policy knows {listed}")
        return np.broadcast_to(np.array(found, np.int64).reshape(given.shape), batch).copy()

    def check(self, observation: Observation[Any] | Mapping[str, Any]) -> Observation[np.ndarray]:
        """Return an observation as numpy arrays; raise UserError unless it fits this schema.

        Names, sizes, dtype and finiteness are checked; arrays may have one leading batch axis,
        the same for all. Both extra and missing cameras are refused. Each image is read only
        once, because reading makes a simulator render it; the vectors become float32. A schema
        without a state takes any, and drops it.

        Args:
            observation: an Observation, or arrays under LeRobot's keys.
        """
        if isinstance(observation, Mapping):
            observation = Observation.from_keys(observation)
        found, expected = set(observation.images), set(self.camera_names)
        if found != expected:
            raise UserError(
                f"cameras differ: the policy expects {sorted(expected)}, "
                f"the observation has {sorted(found)}"
            )
        images = {name: np.asarray(observation.images[name]) for name in self.camera_names}
        if not self.state_names and images:
            observation = observation._replace(state=_no_state(images))
        elif np.shape(observation.state)[-1:] == (0,):
            raise UserError(f"the observation has no {STATE_KEY}")
        batch = np.shape(observation.state)[:-1]
        if len(batch) > 1:
            raise UserError(
                f"{STATE_KEY}: shape {np.shape(observation.state)}, "
                f"expected ({self.state_size},) or (b, {self.state_size})"
            )
        for camera in self.cameras:
            image, shape = images[camera.name], (*batch, camera.height, camera.width, 3)
            if image.shape != shape or image.dtype != np.uint8:
                raise UserError(
                    f"{IMAGE_PREFIX}{camera.name}: {image.dtype} {image.shape}, "
                    f"expected uint8 {shape}"
                )
        state = check_vector(STATE_KEY, observation.state, batch, self.state_names)
        extra, extra_names = observation.environment_state, self.environment_state_names
        if extra is not None:
            extra = check_vector(ENVIRONMENT_STATE_KEY, extra, batch, extra_names)
        elif extra_names:
            raise UserError(f"the observation has no {ENVIRONMENT_STATE_KEY}")
        prefix = observation.prefix
        if prefix is not None:
            prefix = check_prefix(PREFIX_KEY, prefix, batch, self.action_size)
        return Observation(images, state, extra, prefix, self.task_index(observation.task, batch))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` is the inverse.

        Tasks and teacher are left out where there are none, so that older versions read it.
        """
        plain = {name: _as_list(value) for name, value in asdict(self).items()}
        for name in ("tasks", "teacher"):
            if not plain[name]:
                del plain[name]
        return {**plain, "cameras": [camera.to_dict() for camera in self.cameras]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Schema":
        """Rebuild from `to_dict`; a missing or unknown field raises UserError.

        Older files call the environment "task".
        """
        if "task" in plain and "environment" not in plain:
            plain = {("environment" if k == "task" else k): v for k, v in plain.items()}
        check_fields("schema", plain, cls)
        try:
            listed = ("names", "units", "tasks")
            lists = {k: tuple(v) for k, v in plain.items() if k.endswith(listed)}
            cameras = tuple(Camera.from_dict(camera) for camera in plain["cameras"])
            return cls(**{**plain, **lists, "cameras": cameras, "rate": float(plain["rate"])})
        except TypeError as error:
            raise UserError(f"schema: {error}") from None


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
