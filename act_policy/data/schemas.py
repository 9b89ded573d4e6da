"""Names, units and rate of demonstrations whose files do not store them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Camera, Schema

ALOHA_RATE = 50.0
_ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
ALOHA_NAMES = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in _ARM)
ALOHA_UNITS = tuple("0..1" if name.endswith("gripper") else "rad" for name in ALOHA_NAMES)
"""Six joints in radians, then the gripper from 0 (closed) to 1 (open), left arm first."""

BASE_NAMES = ("base_linear_velocity", "base_angular_velocity")
BASE_UNITS = ("m/s", "rad/s")
"""Mobile ALOHA's `/base_action`, which follows the arms in the action."""

HOW_TO_DESCRIBE = (
    "Describe it with schema=FILE.json (data.schema= in training) that holds state_names, "
    "state_units, action_names, action_units and rate (steps per second)."
)

SchemaSource = Schema | Mapping[str, Any] | str | Path


def read_schema(source: SchemaSource, cameras: Sequence[Camera]) -> Schema:
    """Read a schema from a JSON file or a mapping; without cameras it gets those of the files.

    Raises:
        UserError: the file is missing or not JSON; a field is missing, unknown or inconsistent.
    """
    if isinstance(source, Schema):
        return source
    where, plain = "schema", source
    if isinstance(source, str | Path):
        where = f"schema {source}"
        try:
            plain = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{where}: cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise UserError(f"{where}: is not JSON ({error})") from None
    if not isinstance(plain, Mapping):
        raise UserError(f"{where}: expected a mapping of fields. {HOW_TO_DESCRIBE}")
    fields = dict(plain)
    if fields.get("cameras") is None:
        fields["cameras"] = [
            {"name": camera.name, "height": camera.height, "width": camera.width}
            for camera in cameras
        ]
    try:
        return Schema.from_dict(fields)
    except UserError as error:
        raise UserError(f"{where}: {error}. {HOW_TO_DESCRIBE}") from None


def check_described(
    schema: Schema, path: Path, sizes: tuple[int, int], cameras: Mapping[str, Camera]
) -> None:
    """Raise UserError unless the schema fits a file's sizes of state and action and its cameras.

    The file may have more cameras than the schema lists.
    """
    if (schema.state_size, schema.action_size) != sizes:
        raise UserError(
            f"{path}: {sizes[0]} state and {sizes[1]} action dimensions, but the schema "
            f"names {schema.state_size} and {schema.action_size}"
        )
    for camera in schema.cameras:
        if (found := cameras.get(camera.name)) and found != camera:
            raise UserError(
                f"{path}: camera {camera.name} is {found.height}x{found.width}, "
                f"but the schema says {camera.height}x{camera.width}"
            )


def aloha_schema(cameras: Sequence[Camera], action_size: int = 14) -> Schema:
    """Return the schema of ALOHA (14 actions) or mobile ALOHA (16, with the base)."""
    base = action_size - len(ALOHA_NAMES)
    return Schema(
        cameras=tuple(cameras),
        state_names=ALOHA_NAMES,
        state_units=ALOHA_UNITS,
        action_names=ALOHA_NAMES + BASE_NAMES[:base],
        action_units=ALOHA_UNITS + BASE_UNITS[:base],
        rate=ALOHA_RATE,
    )


def choose_cameras(
    wanted: Iterable[str] | None, described: Schema | None, found: Iterable[str]
) -> list[str]:
    """Return the names of the cameras wanted, else of those described, else of all found."""
    if wanted is None and described is not None:
        wanted = described.camera_names
    return list(found if wanted is None else wanted)


class OtherNamesError(UserError):
    """The files have other names for their contents than their format; the message suggests them.

    There is nothing wrong with the files: `features=` says what is what.
    """


def suggest_features(
    vectors: Mapping[str, tuple[str, tuple[int, ...]]],
    images: Sequence[str],
    cameras: Mapping[str, str],
    action: str | None = None,
) -> str:
    """Say which `features=` would read files that name their contents in another way.

    Args:
        vectors: what could be a state or an action: its name in the files -> type and shape.
        images: names of what holds images.
        cameras: those of the images that have a camera's name already: camera -> name.
        action: name of the action, where it is known.
    """

    def find(*words: str) -> str | None:
        fitting = [key for key in vectors if any(word in key.lower() for word in words)]
        return min(fitting, key=len, default=None)

    action = action or find("action", "command")
    rest = [key for key in vectors if key != action]
    state = find("state", "qpos", "proprio", "joint", "pos")
    if state == action or state not in rest:
        state = rest[0] if len(rest) == 1 else None
    found = {"state": state, "action": action}
    for key in images:
        if key not in cameras.values():
            name = re.split(r"[./]", key)[-1]
            found[f"{name}_camera" if name in found else name] = key
    if action is None or (state is None and not vectors):
        return "Say which is which with features={state: KEY, action: KEY, top: KEY}."
    text = ", ".join(f"{name}: {key or 'KEY'}" for name, key in found.items())
    return (
        f"If they have other names here, say so with 'features={{{text}}}' (data.features= in "
        "training); state: null where the policy shall see images alone."
    )


def shift_actions(actions: np.ndarray, steps: int) -> np.ndarray:
    """Return the action of each step, (T, a), where recordings store it `steps` (>= 0) earlier.

    Real-robot ALOHA files need 1: the observation at a step belongs to the action stored at the
    step before, `action[max(0, t - 1)]` (act/utils.py). The first steps keep the first action, and
    the last stored actions belong to no observation.
    """
    if steps == 0:
        return actions
    return np.concatenate([np.repeat(actions[:1], min(steps, len(actions)), 0), actions[:-steps]])
