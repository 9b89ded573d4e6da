"""Find the policy's inputs in a client's message, and make an observation of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from act_policy.control.config import build_from_plain
from act_policy.errors import UserError, located
from act_policy.images.jpeg import decode_jpeg, encode_jpeg
from act_policy.images.resize import camera_image
from act_policy.types import PREFIX_KEY, Camera, Observation, Schema, check_prefix_length

SEPARATOR = "/"
PROMPT = "prompt"
LONGEST_KEY = 200
DEEPEST = 8


@dataclass(frozen=True)
class ObservationKeys:
    """The client's keys for the policy's inputs, each a path through nested dictionaries.

    `images/cam_high` finds {"images": {"cam_high": ...}} (ALOHA) as well as the flat key
    {"images/cam_high": ...} (DROID and LIBERO write theirs so).

    state, environment_state: of the vectors.
    cameras: the policy's camera -> the client's key; a camera not named here has images/<camera>.
    state is not asked for by a policy that sees images alone, and may be sent all the same.
    task: of the words of what is to be done; openpi's clients send a `prompt`. A policy that knows
    one task alone does not ask for it, and it may be sent all the same.
    ignore: what a client may send though this policy has no use for it. Any other key that is not
        asked for is refused: a camera under a wrong name must not go unnoticed.
    """

    state: str = "state"
    environment_state: str = "environment_state"
    cameras: Mapping[str, str] = field(default_factory=dict)
    task: str = PROMPT
    ignore: tuple[str, ...] = ()

    def for_schema(self, schema: Schema) -> "ObservationKeys":
        """Name every camera of the schema.

        Raises:
            UserError: a camera is named that the schema does not have, or two inputs have one key.
        """
        if unknown := sorted(set(self.cameras) - set(schema.camera_names)):
            raise UserError(
                f"observation_keys.cameras names {', '.join(unknown)}; the policy's cameras are "
                f"{', '.join(schema.camera_names) or 'none'}"
            )
        cameras = {name: self.cameras.get(name, f"images/{name}") for name in schema.camera_names}
        state = [self.state] if schema.state_names else []
        task = [self.task] if schema.chooses_task else []
        keys = [*state, *cameras.values(), *task, *self.ignore]
        if schema.environment_state_names:
            keys.append(self.environment_state)
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise UserError(
                f"observation_keys: {', '.join(twice)} stands for two inputs; give each its own"
            )
        return replace(self, cameras=cameras)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the server's metadata; `from_dict` is the inverse.

        The task's key is left out where it is the usual one, which older clients do not know.
        """
        plain = {**asdict(self), "ignore": list(self.ignore)}
        if self.task == PROMPT:
            del plain["task"]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ObservationKeys":
        """Rebuild from `to_dict`, or from a configuration, where cameras and ignore may be null.

        Raises:
            UserError: a field is missing, unknown or of the wrong kind.
        """
        plain = {"task": PROMPT, **plain}
        expected = {field.name for field in fields(cls)}
        if set(plain) != expected:
            raise UserError(f"observation_keys: found {sorted(plain)}, expected {sorted(expected)}")
        values = {**plain, "cameras": plain["cameras"] or {}, "ignore": plain["ignore"] or []}
        return build_from_plain(cls, values, "observation_keys")

    def to_message(
        self, observation: Observation[np.ndarray], schema: Schema, jpeg: bool
    ) -> dict[str, Any]:
        """The message that `to_observation` reads, with flat keys; images as they are, or JPEG.

        observation: as the schema's `check` returns it.
        """
        message: dict[str, Any] = {}
        if np.size(observation.state):
            message[self.state] = np.asarray(observation.state)
        for name, image in observation.images.items():
            message[self.cameras[name]] = encode_jpeg(image) if jpeg else np.asarray(image)
        if observation.environment_state is not None:
            message[self.environment_state] = np.asarray(observation.environment_state)
        if observation.prefix is not None:
            message[PREFIX_KEY] = np.asarray(observation.prefix)
        if observation.task is not None:
            message[self.task] = schema.tasks[int(observation.task)]
        return message

    def to_observation(
        self, message: Any, schema: Schema, prefix_length: int = 0
    ) -> Observation[np.ndarray]:
        """Read one observation; images may be (h, w, 3) or (3, h, w), uint8 or float in [0, 1].

        An image of its camera's `source_size` is cut and scaled as the images of training were.
        A policy that knows about committed actions may be told them, under `action_prefix`.

        Raises:
            UserError: a key is missing or not known, or a value is not what the schema says.
        """
        values = _flatten(message)
        wanted = [*([self.state] if schema.state_names else []), *self.cameras.values()]
        if schema.environment_state_names:
            wanted.append(self.environment_state)
        missing = [key for key in wanted if key not in values]
        known = [*wanted, self.state, self.task, *([PREFIX_KEY] if prefix_length else [])]
        extra = [key for key in values if key not in known and not self._is_ignored(key)]
        if missing or extra:
            raise UserError(
                f"the observation has the keys {_list(values)}; the policy expects "
                f"{_list(wanted)} (missing: {_list(missing)}; not known: {_list(extra)})"
            )
        observation = Observation(
            {c.name: _image(values, self.cameras[c.name], c) for c in schema.cameras},
            _vector(values, self.state) if schema.state_names else np.zeros(0, np.float32),
            _vector(values, self.environment_state) if schema.environment_state_names else None,
            _rows(values, PREFIX_KEY) if prefix_length and PREFIX_KEY in values else None,
            _text(values, self.task) if schema.chooses_task and self.task in values else None,
        )
        with located(f"key {self.task!r}"):
            schema.task_index(observation.task)
        schema.check(observation)
        check_prefix_length(observation, prefix_length)
        return observation

    def _is_ignored(self, key: str) -> bool:
        return any(key == name or key.startswith(name + SEPARATOR) for name in self.ignore)


def _flatten(message: Any, path: str = "", depth: int = 1) -> dict[str, Any]:
    """Nested dictionaries as one, with the keys joined by slashes."""
    if not isinstance(message, dict):
        raise UserError(f"an observation is a dictionary, found {type(message).__name__}")
    flat: dict[str, Any] = {}
    for key, value in message.items():
        if not isinstance(key, str) or len(key) > LONGEST_KEY or depth > DEEPEST:
            raise UserError(
                f"an observation has keys of text, at most {LONGEST_KEY} characters long and "
                f"nested {DEEPEST} deep; found {str(key)[:40]!r}"
            )
        if isinstance(value, dict):
            leaves = _flatten(value, f"{path}{key}{SEPARATOR}", depth + 1)
        else:
            leaves = {path + key: value}
        for name, leaf in leaves.items():
            if name in flat:
                raise UserError(f"the observation has {name!r:.80} twice, nested and flat")
            flat[name] = leaf
    return flat


def _image(values: Mapping[str, Any], key: str, camera: Camera) -> np.ndarray:
    """The camera's image as uint8 (h, w, 3), made as in training where it has the source's size."""
    value = image = values[key]
    if isinstance(value, bytes):
        sizes = {(camera.height, camera.width), camera.source_size or (camera.height, camera.width)}
        with located(key):
            return camera_image(decode_jpeg(value, sizes), camera)
    if not isinstance(image, np.ndarray):
        raise UserError(f"{key}: {type(image).__name__}, expected an image")
    if image.ndim == 3 and image.shape[0] == 3 != image.shape[2]:
        image = image.transpose(1, 2, 0)
    if image.dtype.kind == "f":
        if not ((image >= 0) & (image <= 1)).all():  # which a NaN is not either
            raise UserError(
                f"{key}: float from {image.min():.4g} to {image.max():.4g}; "
                "an image of floats is expected from 0 to 1, one of uint8 from 0 to 255"
            )
        # Rounded; openpi cuts off, which makes a resized image half a level darker on average.
        image = np.rint(np.float32(255) * image.astype(np.float32)).astype(np.uint8)
    with located(f"{key}: {value.dtype} {value.shape}"):
        return camera_image(np.ascontiguousarray(image), camera)


def _vector(values: Mapping[str, Any], key: str) -> np.ndarray:
    """A row of numbers as float32."""
    value = values[key]
    if isinstance(value, list) and all(type(item) in (int, float) for item in value):
        value = np.array(value, np.float64)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf" or value.ndim != 1:
        array = isinstance(value, np.ndarray)
        found = f"{value.dtype} {value.shape}" if array else type(value).__name__
        raise UserError(f"{key}: {found}, expected a row of numbers")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        vector: np.ndarray = value.astype(np.float32)
    return vector


def _rows(values: Mapping[str, Any], key: str) -> np.ndarray:
    """Rows of numbers, (n, a), as float32; some may be NaN."""
    value = values[key]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.ndim != 2:
        array = isinstance(value, np.ndarray)
        found = f"{value.dtype} {value.shape}" if array else type(value).__name__
        raise UserError(f"{key}: {found}, expected rows of floats")
    with np.errstate(over="ignore"):
        rows: np.ndarray = value.astype(np.float32)
    return rows


def _text(values: Mapping[str, Any], key: str) -> str:
    """Words; openpi's policies take a text, or an array that holds one."""
    value = values[key]
    if isinstance(value, np.ndarray) and value.dtype.kind == "U" and value.size == 1:
        value = value.item()
    if not isinstance(value, str):
        raise UserError(f"{key}: {type(value).__name__}, expected words")
    return value


def _list(names: Any) -> str:
    """At most a dozen names, each cut to a readable length."""
    shown = [f"{name:.60}" for name in list(names)[:12]]
    return ", ".join(shown + ["..."] * (len(names) > 12)) or "none"
