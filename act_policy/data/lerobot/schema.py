"""Names, sizes and cameras of a LeRobotDataset, taken from its features."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from act_policy.data.dataset import DEPTH
from act_policy.data.lerobot.cameras import sort_cameras
from act_policy.data.lerobot.metadata import CAPTURE_TIME, COUNTERS, Feature, Metadata
from act_policy.data.reader_config import ACTION, STATE, ReaderConfig
from act_policy.data.schemas import (
    OtherNamesError,
    check_described,
    choose_cameras,
    read_schema,
    suggest_features,
)
from act_policy.errors import UserError, list_some
from act_policy.types import ACTION_KEY, IMAGE_PREFIX, STATE_KEY, Camera, Schema

OBSERVATION_PREFIX = "observation."
SINGLE_IMAGE_KEY = "observation.image"


class Keys(NamedTuple):
    """The features that hold the state (None: there is none), the actions, and each camera."""

    state: str | None
    action: str
    cameras: dict[str, str]


class Reading(NamedTuple):
    """How a dataset is read.

    keys: the features that are read.
    left_out: feature -> why its images are not used; of cameras that nobody chose to leave out.
    notes: what a person may take for something else than it is.
    """

    schema: Schema
    keys: Keys
    left_out: dict[str, str]
    notes: list[str]


def lerobot_schema(folder: Path, metadata: Metadata, reader: ReaderConfig) -> Reading:
    """Find the features to read, and what they are; raises UserError where one is missing."""
    info = folder / "meta" / "info.json"
    keys = _find_keys(info, metadata, reader)
    cameras, unusable = sort_cameras(metadata, keys.cameras)
    state = () if keys.state is None else vector_names(info, metadata, keys.state, STATE)
    action = vector_names(info, metadata, keys.action, ACTION)
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
        why = [f"{name} cannot be used: {unusable[name]}" for name in missing if name in unusable]
        raise UserError(
            f"{info}: no camera {', '.join(missing)} to use; found "
            f"{', '.join(cameras) or 'none'}. "
            + "".join(f"{text}. " for text in why)
            + "Choose with cameras=[...] (data.cameras= in training)."
        )
    left_out = {}
    if reader.cameras is None:
        left_out = {keys.cameras[name]: why for name, why in unusable.items()}
        left_out |= {
            key: f"its name does not begin with {IMAGE_PREFIX}: name it with "
            f"features={{{short_name(key)}: {key}}} (data.features= in training)"
            for key, feature in metadata.features.items()
            if feature.is_image and key not in keys.cameras.values() and not is_camera(key)
        }
    notes = [f"{key} is left out: {why}" for key, why in left_out.items() if why != DEPTH]
    notes += [] if stored is not None else _repeated_names(metadata, keys)
    notes += _unused_splits(metadata)
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
            teacher=str(ours.get("teacher", "")),
        )
    chosen: tuple[Camera, ...] = tuple(cameras[name] for name in names)
    read = keys._replace(cameras={name: keys.cameras[name] for name in names})
    return Reading(replace(stored, cameras=chosen), read, left_out, notes)


def _find_keys(info: Path, metadata: Metadata, reader: ReaderConfig) -> Keys:
    features = metadata.features
    cameras = dict(reader.named_cameras)
    for key, feature in features.items():
        if feature.is_image and is_camera(key) and key not in cameras.values():
            cameras.setdefault(short_name(key), key)
    state, action = reader.find(STATE, STATE_KEY), reader.find(ACTION, ACTION_KEY)
    wanted = [key for key in (state, action, *reader.named_cameras.values()) if key is not None]
    missing = [key for key in wanted if key not in features]
    guess_no_state = STATE not in (reader.features or {})
    if missing == [STATE_KEY] and guess_no_state and not _vectors(features):
        state, missing = None, []  # images alone, and nothing that could be a state
    if missing:
        hint = suggest_features(
            {key: (features[key].dtype, features[key].shape) for key in _vectors(features)},
            [key for key, feature in features.items() if feature.is_image],
            {name: key for name, key in cameras.items() if key in features},
            ACTION_KEY if ACTION_KEY in features else None,
        )
        raise OtherNamesError(
            f"{info}: has no feature {', '.join(missing)}; found "
            + ", ".join(f"{k} {f.dtype} {list(f.shape)}" for k, f in features.items())
            + f". {hint}"
        )
    assert action is not None  # only the state may be missing
    return Keys(state, action, cameras)


def is_camera(key: str) -> bool:
    """Return whether LeRobot gives this name to a camera."""
    return key.startswith(IMAGE_PREFIX) or key == SINGLE_IMAGE_KEY


def short_name(key: str) -> str:
    """Return a camera's name by its feature."""
    return "image" if key == SINGLE_IMAGE_KEY else key.removeprefix(IMAGE_PREFIX)


def _vectors(features: dict[str, Feature]) -> list[str]:
    """List the features that could be a state: numbers, neither counted nor about the outcome."""
    return [
        key
        for key, feature in features.items()
        if feature.is_vector
        and feature.dtype.startswith("float")
        and key not in (*COUNTERS, ACTION_KEY)
        and not key.startswith(("next.", CAPTURE_TIME))
    ]


def vector_names(info: Path, metadata: Metadata, key: str, prefix: str) -> tuple[str, ...]:
    """Return the names of a vector's dimensions; where none are stored, PREFIX_0, PREFIX_1, ..."""
    feature = metadata.features[key]
    if not feature.is_vector:
        raise UserError(
            f"{info}: {key} is {feature.dtype} {list(feature.shape)}; expected a vector of numbers"
        )
    size = int(feature.shape[0])
    names = list(_flat(feature.names))
    if len(names) == size == len(set(names)):
        return tuple(names)
    return tuple(f"{prefix}_{dimension}" for dimension in range(size))


def _repeated_names(metadata: Metadata, keys: Keys) -> Iterator[str]:
    """Say where names are not used because they repeat, as two arms' may."""
    for key, prefix in ((keys.state, STATE), (keys.action, ACTION)):
        if key is None:
            continue
        names = list(_flat(metadata.features[key].names))
        if len(names) == int(metadata.features[key].shape[0]) > len(set(names)):
            twice = dict.fromkeys(name for name in names if names.count(name) > 1)
            yield (
                f"{key} names {list_some([*twice])} more than once: its dimensions are called "
                f"{prefix}_0, {prefix}_1, ...; name them with schema=FILE.json (data.schema= in "
                "training)"
            )


def _unused_splits(metadata: Metadata) -> Iterator[str]:
    """Say which episodes the metadata want for something else than training."""
    splits = metadata.plain.get("splits")
    if isinstance(splits, dict) and (others := {k: v for k, v in splits.items() if k != "train"}):
        parts = ", ".join(f"{name} {part}" for name, part in others.items())
        yield (
            f"meta/info.json has further splits, {parts}, whose episodes are read like the others; "
            "leave them out with select.exclude=[...] (data.select.exclude= in training)"
        )


def vector_keys(metadata: Metadata, keys: Keys) -> dict[str, str]:
    """Return the observed vectors other than the state: short name -> feature."""
    return {
        key.removeprefix(OBSERVATION_PREFIX): key
        for key, feature in metadata.features.items()
        if key.startswith(OBSERVATION_PREFIX)
        and key not in (STATE_KEY, keys.state, keys.action)
        and feature.is_vector
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
