"""Where in an HDF5 file the state, the action and the cameras are."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from act_policy.data.reader_config import ACTION, STATE, ReaderConfig
from act_policy.data.schemas import OtherNamesError, suggest_features
from act_policy.errors import UserError, list_some
from act_policy.types import Schema

STATE_FIELD, ACTION_FIELD = "observations/qpos", "action"
IMAGES_GROUP = "observations/images"
_NOT_A_STATE = ("observations/qvel", "observations/effort", "base_action", "compress_len")


class Places(NamedTuple):
    """Where in a file the state (None: there is none), the action and each camera are."""

    state: str | None
    action: str
    images: dict[str, str]


def find_places(path: Path, file: Any, reader: ReaderConfig) -> Places:
    """Find what to read; raises UserError where something is missing."""
    state, action = (
        None if place is None else place.strip("/")
        for place in (reader.find(STATE, STATE_FIELD), reader.find(ACTION, ACTION_FIELD))
    )
    images = {name: place.strip("/") for name, place in reader.named_cameras.items()}
    group = file.get(IMAGES_GROUP)
    for name, _ in arrays_below(group) if isinstance(group, h5py.Group) else []:
        if (place := f"{IMAGES_GROUP}/{name}") not in images.values():
            images.setdefault(name, place)
    wanted = [place for place in (state, action, *images.values()) if place is not None]
    missing = [place for place in wanted if not isinstance(file.get(place), h5py.Dataset)]
    found = dict(arrays_below(file))
    vectors = {
        place: (f"{data.dtype}", data.shape)
        for place, data in found.items()
        if np.issubdtype(data.dtype, np.floating) and data.ndim == 2
    }
    others = [p for p in vectors if p not in (STATE_FIELD, ACTION_FIELD, *_NOT_A_STATE)]
    stored = file.attrs.get("schema")
    told = stored is not None and bool(read_schema_attribute(path, stored).state_names)
    silent = STATE not in (reader.features or {}) and not told
    if missing == [STATE_FIELD] and silent and not others:
        state, missing = None, []  # images alone, and nothing that could be a state
    if not images and not isinstance(group, h5py.Group):
        missing.append(IMAGES_GROUP)
    if missing:
        _refuse_several(path, [place for place in vectors if "action" in place.lower()])
        some = [p for p, data in found.items() if data.dtype == np.uint8 and data.ndim > 2]
        hint = suggest_features(
            vectors, some, images, ACTION_FIELD if ACTION_FIELD in found else None
        )
        shown = [f"{p} {data.dtype} {tuple(data.shape)}" for p, data in found.items()]
        raise OtherNamesError(
            f"{path}: has no /{', /'.join(missing)}; found {', '.join(shown) or 'nothing'}. {hint}"
        )
    for read in (state, str(action), *images.values()):
        if read is not None:
            _check_sources(path, read, file[read])
    return Places(state, str(action), images)


def _refuse_several(path: Path, actions: Sequence[str]) -> None:
    """Raise UserError if a file holds several episodes: actions in groups with numbers."""
    numbered = (re.match(r"(.*?\d+)/", place) for place in actions)
    if len(groups := list(dict.fromkeys(group[1] for group in numbered if group))) > 1:
        raise UserError(
            f"{path}: holds several episodes, {list_some(groups)}; expected one per file. "
            "Write each into a file of its own, episode_000000.hdf5 and so on."
        )


def _check_sources(path: Path, place: str, data: h5py.Dataset) -> None:
    """Raise UserError if values lie in other files that are gone: HDF5 would read zeros."""
    for source in data.virtual_sources() if data.is_virtual else []:
        if source.file_name != "." and not (path.parent / source.file_name).is_file():
            raise UserError(
                f"{path}: /{place} is in the file {source.file_name}, which is not there. "
                "Copy it, too, or copy the values into this file"
            )


def members(group: Any) -> list[tuple[str, Any]]:
    """List all members of an HDF5 group at once.

    h5py keeps HDF5's lock while a group is iterated over. If an error left such a loop, every
    other thread would wait until the error's traceback is freed.
    """
    return list(group.items())


def arrays_below(group: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """List the arrays of a group and its groups: a slash in a camera's name makes a group."""
    found: list[tuple[str, Any]] = []
    for name, member in members(group):
        is_group = isinstance(member, h5py.Group)
        found += arrays_below(member, f"{prefix}{name}/") if is_group else [(prefix + name, member)]
    return found


def read_schema_attribute(path: Path, stored: Any) -> Schema:
    """Read the attribute `schema` of a file, JSON; raises UserError."""
    try:
        return Schema.from_dict(json.loads(stored))
    except (ValueError, TypeError, UserError) as error:
        raise UserError(f"{path}: attribute schema cannot be used ({error})") from None
