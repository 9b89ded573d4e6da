"""Episodes in ALOHA's HDF5 layout: one file an episode, written atomically.

    episode_000000.hdf5
      attrs: sim (bool), and ours: schema (JSON of `Schema.to_dict`), seed (int), success (bool)
      /observations/qpos            float32 (T, s)
      /observations/qvel            float32 (T, s), where the robot measures it
      /observations/images/{camera} uint8 (T, h, w, 3) RGB, one frame a chunk
      /action                       float32 (T, a)

Source of the layout: act/record_sim_episodes.py and act/utils.py (tonyzhaozh/act).
"""

import fcntl
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np

from act_policy.errors import UserError
from act_policy.types import Schema

PARTIAL_SUFFIX = ".partial"


def write_episode(
    path: str | Path,
    schema: Schema,
    images: Mapping[str, np.ndarray],
    state: np.ndarray,
    action: np.ndarray,
    velocity: np.ndarray | None = None,
    seed: int | None = None,
    success: bool | None = None,
) -> None:
    """Write one episode so that the file is either whole or not there, whatever happens.

    The bytes go to a temporary file in the same folder, reach the disk, and only then take the
    episode's name; what killed writers left in the folder is removed on the way.

    Args:
        path: the episode's file, by custom `episode_000000.hdf5`; its folder is made.
        schema: what the arrays must fit; stored in the file.
        images: camera name -> uint8 (T, h, w, 3) RGB.
        state: (T, s) in the schema's units.
        action: (T, a) in the schema's units.
        velocity: (T, s) in the schema's units a second; without it the file has no qvel.
        seed: seed of the start, by which an evaluation avoids the starts that were trained on.
        success: the outcome.

    Raises:
        UserError: the arrays do not fit the schema or are not finite, or the file cannot be
            written (a full disk).
    """
    path = Path(path)
    _check_arrays(path, schema, images, state, action, velocity)
    # HDF5 builds the file in memory: a full disk in the middle of its own writing makes it crash.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.attrs["sim"] = bool(schema.task)
        file.attrs["schema"] = json.dumps(schema.to_dict())
        if seed is not None:
            file.attrs["seed"] = int(seed)
        if success is not None:
            file.attrs["success"] = bool(success)
        observations = file.create_group("observations")
        observations["qpos"] = np.asarray(state, np.float32)
        if velocity is not None:
            observations["qvel"] = np.asarray(velocity, np.float32)
        for camera in schema.cameras:
            frames = images[camera.name]
            observations.create_dataset(
                f"images/{camera.name}", data=frames, chunks=(1, *frames.shape[1:])
            )
        file["action"] = np.asarray(action, np.float32)
    try:
        _write_atomically(path, content.getbuffer())
    except OSError as error:
        raise UserError(
            f"{path}: the episode could not be written ({error.strerror}); nothing of it was "
            "kept and earlier episodes are whole. Free some space or choose another folder."
        ) from error


def remove_partial_files(folder: str | Path) -> None:
    """Remove the temporary files of writers that were killed; a living writer holds a lock."""
    for partial in Path(folder).glob(f".*{PARTIAL_SUFFIX}"):
        try:
            with partial.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                partial.unlink(missing_ok=True)
        except OSError:  # still being written, or already removed by another process
            continue


def _check_arrays(
    path: Path,
    schema: Schema,
    images: Mapping[str, np.ndarray],
    state: np.ndarray,
    action: np.ndarray,
    velocity: np.ndarray | None,
) -> None:
    if set(images) != set(schema.camera_names):
        raise UserError(
            f"{path}: the schema has cameras {sorted(schema.camera_names)}, "
            f"found images of {sorted(images)}"
        )
    steps = len(state)
    if steps == 0:
        raise UserError(f"{path}: the episode has no step")
    vectors = [("state", state, schema.state_names), ("action", action, schema.action_names)]
    if velocity is not None:
        vectors.append(("velocity", velocity, schema.state_names))
    for field, vector, names in vectors:
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


def _write_atomically(path: Path, content: memoryview) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_partial_files(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL_SUFFIX}")
    while True:
        file = partial.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        # Between open and lock another process may have taken the file for a dead writer's.
        if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
            break
        file.close()
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name too survives a power cut
    finally:
        os.close(folder)
