"""Names, sizes and cameras of a LeRobotDataset, taken from its features."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from act_policy.data.lerobot.metadata import Feature, Metadata
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.schemas import check_described, choose_cameras, read_schema
from act_policy.errors import UserError
from act_policy.types import ACTION_KEY, IMAGE_PREFIX, STATE_KEY, Camera, Schema

OBSERVATION_PREFIX = "observation."


def lerobot_schema(
    folder: Path, metadata: Metadata, reader: ReaderConfig
) -> tuple[Schema, dict[str, str]]:
    """Return the schema, and the feature of each of its cameras."""
    info = folder / "meta" / "info.json"
    keys = {
        "image" if key == "observation.image" else key.removeprefix(IMAGE_PREFIX): key
        for key, feature in metadata.features.items()
        if feature.is_image and (key.startswith(IMAGE_PREFIX) or key == "observation.image")
    }
    every = {name: _camera(info, name, metadata.features[key]) for name, key in keys.items()}
    cameras = {name: camera for name, camera in every.items() if camera is not None}
    state, action = (vector_names(info, metadata, key) for key in (STATE_KEY, ACTION_KEY))
    stored = None
    if reader.schema is not None:
        stored = read_schema(reader.schema, list(cameras.values()))
        check_described(stored, info, (len(state), len(action)), cameras)
        if stored.rate != metadata.rate:
            raise UserError(
                f"{info}: fps is {metadata.rate:g}, but the schema says {stored.rate:g}"
            )
    names = choose_cameras(reader.cameras, stored, cameras)
    if missing := [name for name in names if name not in cameras]:
        raise UserError(
            f"{info}: no camera {', '.join(missing)} of three channels; found "
            f"{', '.join(cameras) or 'none'}. Choose with cameras=[...] (data.cameras= in "
            "training)."
        )
    if stored is None:
        ours = metadata.plain.get("act_policy")  # of our writer, for which LeRobot has no place
        if not isinstance(ours, dict):
            ours = {}
        stored = Schema(
            cameras=(),
            state_names=state,
            state_units=_units(ours, "state", len(state)),
            action_names=action,
            action_units=_units(ours, "action", len(action)),
            rate=metadata.rate,
            environment_state_names=tuple(ours.get("environment_state_names", ())),
            # older datasets call it "task"
            environment=str(ours.get("environment", ours.get("task", ""))),
        )
    chosen = tuple(cameras[name] for name in names)
    return replace(stored, cameras=chosen), {name: keys[name] for name in names}


def _camera(info: Path, name: str, feature: Feature) -> Camera | None:
    """Return a camera with its size; None for a depth map or without three channels."""
    shape = feature.shape
    if len(shape) != 3:
        raise UserError(f"{info}: camera {name} has shape {list(shape)}; expected three numbers")
    # Names of the axes are often wrong or missing; then the axis that can be the channels decides.
    names = feature.names if isinstance(feature.names, list) else []
    first = str(names[0]).startswith("channel") if names else False
    if not shape[0 if first else 2] <= 4:
        first = not first
    channels, height, width = shape if first else (shape[2], *shape[:2])
    return None if feature.is_depth or channels != 3 else Camera(name, height, width)


def vector_names(info: Path, metadata: Metadata, key: str) -> tuple[str, ...]:
    """Return the names of a vector's dimensions."""
    feature = metadata.features.get(key)
    if feature is None:
        raise UserError(f"{info}: has no feature {key}; found {', '.join(metadata.features)}")
    if not feature.is_vector:
        raise UserError(
            f"{info}: {key} is {feature.dtype} {list(feature.shape)}; expected a vector of numbers"
        )
    size = int(feature.shape[0])
    names = list(_flat(feature.names))
    if len(names) == size == len(set(names)):
        return tuple(names)
    return tuple(f"{key.rpartition('.')[2]}_{dimension}" for dimension in range(size))


def vector_keys(metadata: Metadata) -> dict[str, str]:
    """Return the observed vectors other than the state: short name -> feature."""
    return {
        key.removeprefix(OBSERVATION_PREFIX): key
        for key, feature in metadata.features.items()
        if key.startswith(OBSERVATION_PREFIX) and key != STATE_KEY and feature.is_vector
    }


def _flat(names: Any) -> Iterator[str]:
    """Yield names stored in any form: a list, nested lists, or a mapping to either."""
    if isinstance(names, str):
        yield names
    elif isinstance(names, dict):
        # {"motors": [...]} or {"shoulder": 0, "elbow": 1}
        if all(isinstance(value, int) for value in names.values()):
            yield from sorted(names, key=names.__getitem__)
        else:
            yield from _flat(list(names.values()))
    elif isinstance(names, list):
        for value in names:
            yield from _flat(value)


def _units(ours: dict[str, Any], vector: str, size: int) -> tuple[str, ...]:
    units = ours.get(f"{vector}_units")
    if not isinstance(units, list) or len(units) != size:
        return ("",) * size
    return tuple(map(str, units))
