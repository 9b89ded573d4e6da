"""A folder of ALOHA episodes as one dataset with one schema."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from act_policy.data.aloha.channel_order import doubt_channel_order
from act_policy.data.aloha.episode import (
    EpisodeFile,
    read_episode,
    read_vector,
)
from act_policy.data.aloha.images import decode, is_encoded, is_rgb, to_rgb
from act_policy.data.aloha.places import IMAGES_GROUP
from act_policy.data.dataset import (
    DEPTH,
    IMAGES_ALONE,
    OPERATOR,
    DemonstrationDataset,
    Episode,
    UndecodableFrameError,
    VectorDimensions,
    check_frame,
    check_step,
    check_vector_name,
    lengths_of,
)
from act_policy.data.episode_errors import MOST_NAMED, EpisodeErrors, Wanted
from act_policy.data.episode_files import episode_files
from act_policy.data.reader_config import DEFAULT_READER, STATE, ReaderConfig
from act_policy.data.schemas import (
    ALOHA_NAMES,
    BASE_NAMES,
    HOW_TO_DESCRIBE,
    aloha_schema,
    check_described,
    choose_cameras,
    read_schema,
    shift_actions,
)
from act_policy.errors import UserError, list_some
from act_policy.types import Camera, Schema

MOST_RADIANS = 4 * np.pi
"""No joint of ALOHA's turns by more than half a turn; another arm's may turn twice."""
LEAVE_OUT = (
    "Move the differing episode out of the folder, or leave it out of training with "
    "data.select.exclude=[...]."
)


class AlohaHDF5Dataset(DemonstrationDataset):
    """A folder of ALOHA episodes, in the natural order of their file names.

    Every file is checked when the folder is opened: structure, lengths, cameras, sizes. States
    and actions are then in memory; images stay in the files.

    Args:
        folder: holds the files, whose names end in .hdf5, .h5 or .hdf.
        reader: how to read them. Without a schema, names and units are those that our writer
            stored, else ALOHA's for 14 dimensions. `notes` holds a warning when the images
            suggest the other jpeg_order. Files at the end of a folder whose recording was cut
            short are always left out, whatever `unreadable` is.
        paths: the files to read; by default all.
        wanted: chooses the episodes to use; errors in the others do not matter.

    Raises:
        UserError: a file cannot be read or does not fit the others.
    """

    def __init__(
        self,
        folder: str | Path,
        reader: ReaderConfig = DEFAULT_READER,
        paths: Sequence[Path] | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        self._jpeg_order = reader.jpeg_order
        self.folder = Path(folder)
        self._open: tuple[int, h5py.File] | None = None
        paths = episode_files(self.folder) if paths is None else list(paths)
        if not paths:
            raise UserError(f"{folder}: holds no episode")
        errors, found = EpisodeErrors(reader.unreadable, wanted), {}
        indices = _indices(paths)
        for index, path in zip(indices, paths, strict=True):
            try:
                found[index] = read_episode(path, reader)
            except UserError as error:
                errors.add(index, error)
        names = {index: path.name for index, path in zip(indices, paths, strict=True)}
        kept, self.notes = errors.settle(names)
        self.last_index = indices[-1]
        self._files = [
            found[index]._replace(action=shift_actions(found[index].action, reader.action_shift))
            for index in kept
        ]
        self.episodes: Sequence[Episode] = [
            Episode(
                *(e.path.name, index, len(e.state), e.path, e.instruction, e.seed, e.success),
                ended=e.ended,
            )
            for index, e in zip(kept, self._files, strict=True)
        ]
        self.lengths = lengths_of(self.episodes)
        self.schema = _common_schema(self._files, reader)
        vectors = [episode.vectors for episode in self._files]
        self.vector_names = tuple(
            name
            for name, field in vectors[0].items()
            if all(name in every and every[name].size == field.size for every in vectors)
        )
        # a demonstration among a policy's runs was a person's from beginning to end
        if any(OPERATOR in every for every in vectors) and OPERATOR not in self.vector_names:
            self.vector_names += (OPERATOR,)
        self.left_out = self._left_out()
        if reader.cameras is None and (reader.schema is None or not self.schema.cameras):
            unusable = {n: why for e in self._files for n, why in e.unusable.items()}
            self.notes += [
                f"{self.folder}: camera {name} is left out: {why}"
                for name, why in unusable.items()
                if why != DEPTH
            ]
        if not self.schema.state_names and STATE not in (reader.features or {}):
            self.notes.append(f"{self.folder}: holds no state; {IMAGES_ALONE}")
        if doubt := self._doubt_radians(reader):
            self.notes.append(f"{self.folder}: {doubt}")
        if doubt := self._doubt_colours():
            self.notes.append(f"{self.folder}: {doubt}")

    def _left_out(self) -> dict[str, str]:
        """Return what some file holds and nobody reads, and why."""
        found = {place: why for e in self._files for place, why in e.left_out.items()}
        for episode in self._files:
            chosen = self.schema.camera_names
            found |= {episode.images[n]: "" for n in episode.cameras if n not in chosen}
            rare = {n: v for n, v in episode.vectors.items() if n not in self.vector_names}
            found |= {v.field: "not in every episode, or of several sizes" for v in rare.values()}
        return found

    def _doubt_radians(self, reader: ReaderConfig) -> str:
        """Say why joints are not in radians; their unit is then unknown.

        Files of ALOHA's layout do not say it, and software for other arms writes degrees.
        """
        if reader.schema is not None or self._files[0].schema is not None:
            return ""
        units = self.schema.state_units, self.schema.action_units
        largest = max(
            float(np.abs(values[:, [unit == "rad" for unit in of]]).max(initial=0))
            for file in self._files
            for values, of in zip((file.state, file.action), units, strict=True)
        )
        if largest <= MOST_RADIANS:
            return ""
        state, action = (tuple("" if unit == "rad" else unit for unit in of) for of in units)
        self.schema = replace(self.schema, state_units=state, action_units=action)
        return (
            f"joints reach {largest:.4g}, too much for ALOHA's radians: their unit is taken as "
            f"unknown. {HOW_TO_DESCRIBE}"
        )

    def _doubt_colours(self) -> str:
        """Say why the channel order may be wrong, judging by a few compressed images."""
        images = []
        some = np.unique(np.linspace(0, len(self._files) - 1, 4).astype(int)).tolist()
        for episode, camera in product(some, self.schema.camera_names):
            if is_encoded(self._images(episode, camera)):
                step = int(self.lengths[episode]) // 2
                with suppress(UndecodableFrameError):  # reported when the frame is read
                    images.append(self.frame(episode, step, camera))
        self.close()
        is_act_plus_plus = any(episode.is_act_plus_plus for episode in self._files)
        return doubt_channel_order(images, self._jpeg_order, is_act_plus_plus) if images else ""

    def state(self, episode: int) -> np.ndarray:
        """Return float32 (T, s) in the schema's units."""
        return self._files[episode].state

    def action(self, episode: int) -> np.ndarray:
        """Return float32 (T, a) in the schema's units."""
        return self._files[episode].action

    def vector(self, episode: int, name: str) -> np.ndarray:
        """Return one of `vector_names`, float32 (T, n)."""
        check_vector_name(self, name)
        about = self._files[episode]
        if name == OPERATOR and name not in about.vectors:
            return np.ones((len(about.state), 1), np.float32)
        return read_vector(about.path, about.vectors[name])

    def image_times(self, episode: int) -> dict[str, np.ndarray]:
        """Camera -> when its images were taken; empty if the file does not say it."""
        return self._files[episode].image_times

    def timestamps(self, episode: int) -> np.ndarray | None:
        """Return float64 (T,), the moment that each step shows; None if the files do not say it."""
        return self._files[episode].timestamps

    def vector_dimensions(self, name: str) -> VectorDimensions:
        """Return the joints' names and derived units if the vector has one value per joint."""
        check_vector_name(self, name)
        if name == OPERATOR:
            return VectorDimensions((OPERATOR,), ("",))
        size = self._files[0].vectors[name].size
        if size != self.schema.state_size:
            return VectorDimensions(tuple(f"{name}_{i}" for i in range(size)), ("",) * size)
        units = self.schema.state_units if name == "velocity" else ("",) * size
        return VectorDimensions(self.schema.state_names, tuple(map(_unit_per_second, units)))

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """Return uint8 (h, w, 3) RGB; raises UndecodableFrameError."""
        check_step(self, episode, step)
        where = f"{self.episodes[episode].file}: camera {camera}, step {step}"
        try:
            images = self._images(episode, camera)
            stored = images[step]
        except Exception as error:  # a damaged file makes h5py raise almost anything
            raise UndecodableFrameError(f"{where} cannot be read ({error})") from None
        if is_encoded(images):
            frame = decode(stored, self._jpeg_order, where)
        else:
            frame = to_rgb(images, np.asarray(stored))
        return check_frame(self, camera, frame, where)

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        """Return int64 (T,), offsets of the raw frames in the image file; None if encoded."""
        images = self._images(episode, camera)
        if not is_rgb(images):
            return None
        steps, frame_shape = len(images), images.shape[1:]
        size = int(np.prod(frame_shape))
        if images.chunks is None:
            start = images.id.get_offset()
            return None if start is None else start + size * np.arange(steps, dtype=np.int64)
        if images.chunks != (1, *frame_shape) or images.id.get_create_plist().get_nfilters():
            return None  # a chunk is not a frame, or its bytes are compressed or checksummed
        offsets = np.full(steps, -1, np.int64)

        def visit(chunk: Any) -> None:
            offsets[chunk.chunk_offset[0]] = chunk.byte_offset

        try:
            images.id.chunk_iter(visit)
        except Exception:  # damaged; reading frame by frame then reports which
            return None
        end = self.episodes[episode].file.stat().st_size - size
        # A chunk that was never written has no offset.
        return None if (offsets < 0).any() or (offsets > end).any() else offsets

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        """Return all that the decoded frames depend on except the file's bytes."""
        place = self._files[episode].images[camera]
        elsewhere = () if place == f"{IMAGES_GROUP}/{camera}" else (place,)
        return ("jpeg_order", self._jpeg_order, *elsewhere)

    def close(self) -> None:
        """Close the file opened to read frames."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _images(self, episode: int, camera: str) -> Any:
        if self._open is None or self._open[0] != episode:
            self.close()
            self._open = episode, h5py.File(self.episodes[episode].file)
        return self._open[1][self._files[episode].images[camera]]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": None}  # an open file cannot be sent to a worker


def _indices(paths: Sequence[Path]) -> list[int]:
    """Return the numbers at the end of the files' names, or 0, 1, 2, ... where they have none."""
    ends = [re.search(r"\d+$", path.stem) for path in paths]
    numbers = [int(end[0]) for end in ends if end]
    if len(numbers) < len(paths) or numbers != sorted(set(numbers)):
        return list(range(len(paths)))
    return numbers


def _unit_per_second(unit: str) -> str:
    return {"": "", "0..1": "1/s"}.get(unit, f"{unit}/s")


def _common_schema(episodes: Sequence[EpisodeFile], reader: ReaderConfig) -> Schema:
    first = episodes[0]
    if reader.schema is None:
        stored = first.schema
        for episode in episodes:
            if episode.schema != stored:
                differences = (
                    ["one file stores a schema, the other does not"]
                    if episode.schema is None or stored is None
                    else stored.differences(episode.schema)
                    or [
                        f"{name}: {getattr(stored, name)!r} here, "
                        f"{getattr(episode.schema, name)!r} there"
                        for name in ("environment", "teacher")
                        if getattr(stored, name) != getattr(episode.schema, name)
                    ]
                )
                raise UserError(
                    f"{episode.path}: its schema differs from that of {first.path.name}: "
                    + "; ".join(differences)
                    + f". {LEAVE_OUT}"
                )
    else:
        stored = read_schema(reader.schema, list(first.cameras.values()))
    every = dict.fromkeys(name for episode in episodes for name in episode.cameras)
    cameras = _common_cameras(episodes, choose_cameras(reader.cameras, stored, every))
    sizes = first.state.shape[1], first.action.shape[1]
    for episode in episodes:
        if (found := (episode.state.shape[1], episode.action.shape[1])) != sizes:
            raise UserError(
                f"{episode.path}: {found[0]} state and {found[1]} action dimensions, "
                f"{first.path.name} has {sizes[0]} and {sizes[1]}. {LEAVE_OUT}"
            )
    if stored is not None:
        check_described(stored, first.path, sizes, first.cameras)
        return replace(stored, cameras=tuple(cameras))
    aloha = len(ALOHA_NAMES)
    if sizes[0] in (0, aloha) and sizes[1] in (aloha, aloha + len(BASE_NAMES)):
        schema = aloha_schema(cameras, sizes[1])
        return schema if sizes[0] else replace(schema, state_names=(), state_units=())
    raise UserError(
        f"{first.path}: {sizes[0]} state and {sizes[1]} action dimensions are not ALOHA's "
        f"{aloha}, and the file does not name them. {HOW_TO_DESCRIBE}"
    )


def _common_cameras(episodes: Sequence[EpisodeFile], names: Sequence[str]) -> list[Camera]:
    lacking = [
        f"{episode.path.name} lacks {', '.join(missing)} (found {', '.join(episode.cameras)}"
        + "".join(f"; {n}: {episode.unusable[n]}" for n in missing if n in episode.unusable)
        + ")"
        for episode in episodes
        if (missing := [name for name in names if name not in episode.cameras])
    ]
    if lacking:
        raise UserError(
            f"{episodes[0].path.parent}: expected cameras {', '.join(names)} in each of "
            f"{len(episodes)} episodes; {list_some(lacking, MOST_NAMED)}. "
            "Complete the episodes, or choose cameras that all episodes have with cameras=[...] "
            "(data.cameras= in training)."
        )
    first = episodes[0]
    for episode in episodes:
        for name in names:
            found, expected = episode.cameras[name], first.cameras[name]
            if found != expected:
                raise UserError(
                    f"{episode.path}: camera {name} is {found.height}x{found.width}, "
                    f"{first.path.name} has {expected.height}x{expected.width}. {LEAVE_OUT}"
                )
    return [first.cameras[name] for name in names]
