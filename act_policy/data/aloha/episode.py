"""One episode in ALOHA's HDF5 layout: read in every variant, written atomically.

    episode_000000.hdf5
      attrs: sim (bool), missing in the oldest files, compress (bool, act-plus-plus), and ours:
             schema (JSON of `Schema.to_dict`), seed (int), success (bool), instruction,
             settings (JSON, the recorder's configuration), ended (the kind of event that ended a
             policy's run, see act_policy/control/loop.py)
      /observations/qpos            float32 (T, s)
      /observations/qvel            float32 (T, s), the vector "velocity"
      /observations/effort          float32 (T, s), real robots only, the vector "effort"
      /observations/images/{camera} uint8 (T, h, w, 3) RGB, one frame per chunk, or RGBA, gray or
                                    channels first; or encoded images (JPEG, PNG): rows
                                    uint8 (T, bytes) padded with zeros, or T byte strings
      /observations/images/{camera}_depth   not read
      /action                       float32 (T, a)
      /base_action                  float32 (T, 2), mobile ALOHA only; follows the action
      /compress_len                 float32 (n, T), lengths of the JPEGs; not needed to read them
      /operator                     bool (T,), ours: where a person acted during a policy's run; the
                                    vector "operator"
      /timestamps                   float64 (T,), ours: the moment that each step shows, in seconds
                                    since the first
      /image_times/{camera}         float64 (T,), ours: when its images were taken, on the scale of
                                    /timestamps; only of robots that know it

What is not read is named in `left_out`. `ReaderConfig.features` says where the state, the action
and cameras are in files of another layout.

Sources of the layout: act/record_sim_episodes.py, act/utils.py (tonyzhaozh/act) and
compress_data.py, utils.py (MarkFzp/act-plus-plus); byte strings as RDT and RoboTwin write them.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from act_policy.data.aloha.images import read_camera
from act_policy.data.aloha.places import (
    ACTION_FIELD,
    STATE_FIELD,
    arrays_below,
    find_places,
    members,
    read_schema_attribute,
)
from act_policy.data.dataset import OPERATOR
from act_policy.data.episode_errors import UnfinishedError
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.errors import UserError
from act_policy.system.atomic import atomic_file
from act_policy.types import Camera, Schema


class VectorField(NamedTuple):
    """The place in the file of a further observed vector of n values."""

    field: str
    size: int


class EpisodeFile(NamedTuple):
    """The contents of one file, without the images."""

    path: Path
    state: np.ndarray  # float32 (T, s)
    action: np.ndarray  # float32 (T, a)
    cameras: dict[str, Camera]
    images: dict[str, str]  # camera -> where in the file
    vectors: dict[str, VectorField]  # by the names of `vector_names`
    schema: Schema | None
    seed: int | None
    success: bool | None
    instruction: str
    ended: str  # kind of event; "" if unknown
    timestamps: np.ndarray | None  # float64 (T,)
    image_times: dict[str, np.ndarray]  # camera -> float64 (T,); empty if unknown
    is_act_plus_plus: bool  # compressed by its script
    unusable: dict[str, str]  # camera -> why
    left_out: dict[str, str]  # where in the file -> why; "" for what is no image


def read_episode(path: Path, reader: ReaderConfig = DEFAULT_READER) -> EpisodeFile:
    """Read one file and check that it is an episode; raises UserError naming the fault."""
    try:
        with h5py.File(path) as file:
            places = find_places(path, file, reader)
            action = _matrix(path, file, places.action)
            state = np.empty((len(action), 0), np.float32)
            if places.state is not None:
                state = _matrix(path, file, places.state)
            if "base_action" in file and places.action == ACTION_FIELD:
                base = _matrix(path, file, "base_action")
                if len(base) != len(action):
                    raise UserError(
                        f"{path}: /base_action has {len(base)} steps, /action {len(action)}"
                    )
                action = np.concatenate([action, base], axis=1)
            steps = len(action)
            if steps == 0 or len(state) != steps:
                raise UserError(
                    f"{path}: /{places.state} has {len(state)} steps, /{places.action} {steps}; "
                    "expected the same number, at least 1"
                )
            cameras, unusable = {}, {}
            for name, place in places.images.items():
                camera = read_camera(path, name, file[place], steps, reader.jpeg_order)
                if isinstance(camera, Camera):
                    cameras[name] = camera
                else:
                    unusable[name] = camera
            observations = file.get("observations")
            vectors = {
                _VECTOR_NAMES.get(key, key): VectorField(f"observations/{key}", int(data.shape[1]))
                for key, data in (members(observations) if observations is not None else [])
                if f"observations/{key}" not in (STATE_FIELD, places.state, places.action)
                and _is_vector(data, steps)
            }
            if OPERATOR in file and file[OPERATOR].shape == (steps,):
                vectors[OPERATOR] = VectorField(OPERATOR, 1)
            times = _timestamps(file.get("timestamps"), steps)
            image_times = {
                name: found
                for name, data in arrays_below(file.get("image_times") or {})
                if (found := _timestamps(data, steps)) is not None
            }
            read = {places.state, places.action, *(v.field for v in vectors.values())}
            read |= {places.images[name] for name in cameras}
            read |= {f"image_times/{name}" for name in image_times}
            read.add("compress_len")  # not needed to read the images
            read |= set() if times is None else {"timestamps"}
            read |= {"base_action"} if places.action == ACTION_FIELD else set()
            why = {places.images[name]: reason for name, reason in unusable.items()}
            left_out = {p: why.get(p, "") for p, _ in arrays_below(file) if p not in read}
            for place in (places.images[name] for name in cameras):
                if file[place].ndim == 4 and file[place].shape[3] == 4:
                    left_out[f"{place} (alpha channel)"] = ""
            stored = file.attrs.get("schema")
            seed, success = file.attrs.get("seed"), file.attrs.get("success")
            return EpisodeFile(
                path=path,
                state=state,
                action=action,
                cameras=cameras,
                images=places.images,
                vectors=vectors,
                schema=None if stored is None else read_schema_attribute(path, stored),
                seed=None if seed is None else int(seed),
                success=None if success is None else bool(success),
                instruction=_text(file.attrs.get("instruction", "")),
                ended=_text(file.attrs.get("ended", "")),
                timestamps=times,
                image_times=image_times,
                is_act_plus_plus=bool(file.attrs.get("compress")) or "compress_len" in file,
                unusable=unusable,
                left_out=left_out,
            )
    except UserError:
        raise
    except Exception as error:  # a damaged file makes h5py raise almost anything
        text = (
            f"{path}: is not a readable HDF5 file ({error}). "
            "Repair the file or move it out of the folder."
        )
        if _was_being_written(path):
            raise UnfinishedError(text, path) from None
        raise UserError(text) from None


def _timestamps(times: Any, steps: int) -> np.ndarray | None:
    """Return an HDF5 dataset's moments, float64 (T,); None if it holds something else."""
    if not isinstance(times, h5py.Dataset) or times.shape != (steps,):
        return None
    return np.asarray(times[()], np.float64)


def _text(stored: Any) -> str:
    """Return an attribute's text; some software stores bytes, or an array of one text."""
    value = stored.item() if isinstance(stored, np.ndarray) and stored.size == 1 else stored
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _was_being_written(path: Path) -> bool:
    """Return whether an unreadable file was begun as HDF5; a killed writer may leave only zeros."""
    try:
        with path.open("rb") as file:
            signature = file.read(8)
    except OSError:
        return False
    return signature == b"\x89HDF\r\n\x1a\n" or not any(signature)


def read_recorded_config(path: Path) -> dict[str, Any]:
    """Read the RecordingConfig that `record_demos.py` stored; empty for files of other software."""
    if not h5py.is_hdf5(path):
        return {}
    with h5py.File(path) as file:
        config: dict[str, Any] = json.loads(file.attrs.get("settings", "{}"))
    return config


def read_stored_schema(path: Path) -> Schema | None:
    """Read the schema that a file stores, if it stores one; raises UserError."""
    try:
        with h5py.File(path) as file:
            stored = file.attrs.get("schema")
    except Exception as error:  # a damaged file makes h5py raise almost anything
        raise UserError(f"{path}: is not a readable HDF5 file ({error})") from None
    return None if stored is None else read_schema_attribute(path, stored)


def read_vector(path: Path, field: VectorField) -> np.ndarray:
    """Read a vector, float32 (T, n); raises UserError."""
    try:
        with h5py.File(path) as file:
            values = np.asarray(file[field.field][()], np.float32)
            return values.reshape(len(values), field.size)
    except Exception as error:  # a damaged file makes h5py raise almost anything
        raise UserError(f"{path}: /{field.field} cannot be read ({error})") from None


_VECTOR_NAMES = {"qvel": "velocity"}


def _is_vector(data: Any, steps: int) -> bool:
    return (
        isinstance(data, h5py.Dataset)
        and data.ndim == 2
        and len(data) == steps
        and bool(np.issubdtype(data.dtype, np.number))
    )


def _matrix(path: Path, file: Any, field: str) -> np.ndarray:
    values = file[field][()]
    if np.ndim(values) != 2 or not np.issubdtype(values.dtype, np.number):
        raise UserError(
            f"{path}: /{field} is {values.dtype} {np.shape(values)}, "
            "expected numbers of shape (steps, dimensions)"
        )
    return np.asarray(values, np.float32)


def write_episode(
    path: str | Path,
    schema: Schema,
    images: Mapping[str, np.ndarray],
    state: np.ndarray,
    action: np.ndarray,
    velocity: np.ndarray | None = None,
    seed: int | None = None,
    success: bool | None = None,
    config: Mapping[str, Any] | None = None,
    vectors: Mapping[str, np.ndarray] | None = None,
    instruction: str = "",
    operator: np.ndarray | None = None,
    timestamps: np.ndarray | None = None,
    image_times: Mapping[str, np.ndarray] | None = None,
    ended: str = "",
) -> None:
    """Write one episode so that the file is always either whole or absent, see `atomic_file`.

    Args:
        path: the episode's file, by custom `episode_000000.hdf5`; its folder is created.
        schema: the arrays must fit it; stored in the file.
        images: camera name -> uint8 (T, h, w, 3) RGB.
        state: (T, s) in the schema's units.
        action: (T, a) in the schema's units.
        velocity: (T, s) in the schema's units per second; by default the change of the state
            since the step before, times the rate, and 0 at the first step.
        seed: of the initial state; an evaluation avoids the seeds that were trained on.
        success: the outcome.
        config: the recorder's configuration, plain values for JSON; only stored.
        vectors: further observed vectors, such as "effort": name -> (T, n).
        instruction: the task given to the operator.
        operator: bool (T,), the steps in which a person acted instead of a policy.
        timestamps: (T,), the moment that each step shows, in seconds since the first.
        image_times: camera -> (T,), when its images were taken, on the same scale.
        ended: the kind of event that ended a policy's run.

    Raises:
        UserError: the arrays do not fit the schema or are not finite, or the file cannot be
            written (a full disk).
    """
    path = Path(path)
    vectors = vectors or {}
    _check_arrays(path, schema, images, state, action, velocity, vectors)
    # HDF5 builds the file in memory: it crashes if the disk fills up while it writes itself.
    content = io.BytesIO()
    with h5py.File(content, "w") as hdf5:
        hdf5.attrs["sim"] = bool(schema.environment)
        hdf5.attrs["schema"] = json.dumps(replace(schema, tasks=()).to_dict())
        if seed is not None:
            hdf5.attrs["seed"] = int(seed)
        if success is not None:
            hdf5.attrs["success"] = bool(success)
        if config is not None:
            hdf5.attrs["settings"] = json.dumps(config)
        if instruction:
            hdf5.attrs["instruction"] = instruction
        if ended:
            hdf5.attrs["ended"] = ended
        observations = hdf5.create_group("observations")
        if schema.state_names:
            observations["qpos"] = np.asarray(state, np.float32)
            if velocity is None:
                velocity = np.diff(state, axis=0, prepend=state[:1]) * schema.rate
            observations["qvel"] = np.asarray(velocity, np.float32)
        for name, vector in vectors.items():
            observations[name] = np.asarray(vector, np.float32)
        for camera in schema.cameras:
            frames = images[camera.name]
            stored = observations.create_dataset(
                f"images/{camera.name}", frames.shape, np.uint8, chunks=(1, *frames.shape[1:])
            )
            for step, frame in enumerate(frames):  # one at a time: they may be read from a file
                stored[step] = frame
        hdf5["action"] = np.asarray(action, np.float32)
        if operator is not None:
            hdf5["operator"] = np.asarray(operator, bool)
        if timestamps is not None:
            hdf5["timestamps"] = np.asarray(timestamps, np.float64)
        for name, moments in (image_times or {}).items():
            hdf5[f"image_times/{name}"] = np.asarray(moments, np.float64)
    try:
        with atomic_file(path) as file:
            file.write(content.getbuffer())
    except OSError as error:
        raise UserError(
            f"{path}: the episode could not be written ({error.strerror}); no part of it was "
            "kept, and earlier episodes are whole. Free some space or choose another folder."
        ) from error


def _check_arrays(
    path: Path,
    schema: Schema,
    images: Mapping[str, np.ndarray],
    state: np.ndarray,
    action: np.ndarray,
    velocity: np.ndarray | None,
    vectors: Mapping[str, np.ndarray],
) -> None:
    if set(images) != set(schema.camera_names):
        raise UserError(
            f"{path}: the schema has cameras {sorted(schema.camera_names)}, "
            f"found images of {sorted(images)}"
        )
    steps = len(state)
    if steps == 0:
        raise UserError(f"{path}: the episode has no step")
    given = [("state", state, schema.state_names), ("action", action, schema.action_names)]
    if velocity is not None:
        given.append(("velocity", velocity, schema.state_names))
    for name, vector in vectors.items():
        if name in ("qpos", "qvel", "images", "velocity"):
            raise UserError(f"{path}: a further vector cannot be called {name}")
        given.append((name, vector, tuple(map(str, range(np.shape(vector)[-1])))))
    for field, vector, names in given:
        if np.shape(vector) != (steps, len(names)):
            raise UserError(
                f"{path}: {field} has shape {np.shape(vector)}, expected {(steps, len(names))}"
            )
        if not (finite := np.isfinite(vector)).all():
            step, dimension = np.argwhere(~finite)[0]
            raise UserError(
                f"{path}: {field} {names[dimension]} at step {step} is not a finite number"
            )
    for camera in schema.cameras:
        frames, shape = images[camera.name], (steps, camera.height, camera.width, 3)
        if frames.shape != shape or frames.dtype != np.uint8:
            raise UserError(
                f"{path}: camera {camera.name} has {frames.dtype} {frames.shape}, "
                f"expected uint8 {shape}"
            )
