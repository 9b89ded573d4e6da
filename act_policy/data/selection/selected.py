"""Present the selected part of a dataset as demonstrations like any other."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, Episode, VectorDimensions, check_step
from act_policy.data.selection.selection import (
    Selection,
    find_cameras,
    find_dimensions,
    find_relative,
)
from act_policy.data.selection.stretches import choose_stretches
from act_policy.data.tasks import list_tasks
from act_policy.images.resize import crop_and_resize
from act_policy.types import Camera, Schema


class SelectedDataset(DemonstrationDataset):
    """The selected part of a dataset: demonstrations like any other.

    Steps, cameras and dimensions are counted and named as the policy will see them. The reader has
    already left out the episodes that are not selected.

    Args:
        source: the dataset, with the selected episodes only.
        selection: the parts of them to use.
        renamed: name of each camera -> its name in the source, in this order; None keeps them.

    Raises:
        UserError: the source lacks a name, or nothing is left.
    """

    def __init__(
        self,
        source: DemonstrationDataset,
        selection: Selection,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = source.folder
        where = f"{source.folder}"
        chosen, self._parts = choose_stretches(source, selection)
        self._of = chosen.tolist()  # each one's episode in the source
        self._source, self._selection = source, selection
        old = source.schema
        self._camera_of = dict(renamed or {name: name for name in old.camera_names})
        cameras = find_cameras(selection, self._camera_of, old.cameras, where)
        self._changed = self._find_changed(cameras)
        state_names, state_units = list(old.state_names), list(old.state_units)
        self._append = tuple(selection.append)
        for vector in self._append:
            names, units = source.vector_dimensions(vector)
            state_names += [n if n.startswith(vector) else f"{vector}_{n}" for n in names]
            state_units += units
        state = find_dimensions("select.state", selection.state, state_names, where)
        action = find_dimensions("select.actions", selection.actions, old.action_names, where)
        self.schema: Schema = replace(
            old,
            cameras=cameras,
            state_names=tuple(state_names[i] for i in state),
            state_units=tuple(state_units[i] for i in state),
            action_names=tuple(old.action_names[i] for i in action),
            action_units=tuple(old.action_units[i] for i in action),
        )
        self.relative_actions = find_relative(selection.relative, self.schema, where)
        """The action dimensions that are learned relative to the state of the same name."""
        episodes = range(len(self._of))
        self._states = [self._take_state(episode, state) for episode in episodes]
        self._actions = [
            _columns(self._cut(episode, source.action(self._of[episode])), action)
            for episode in episodes
        ]
        self.lengths = self._parts[:, 1] - self._parts[:, 0]
        self.episodes: Sequence[Episode] = [
            replace(
                source.episodes[episode],
                length=int(length),
                instruction=selection.instruction or source.episodes[episode].instruction,
            )
            for episode, length in zip(self._of, self.lengths, strict=True)
        ]
        self._instruction = selection.instruction
        self.schema = replace(self.schema, tasks=list_tasks(self) if selection.tasks else ())
        self.last_index = source.last_index
        self.vector_names = tuple(n for n in source.vector_names if n not in self._append)
        self.left_out = source.left_out
        self.notes = source.notes

    def state(self, episode: int) -> np.ndarray:
        return self._states[episode]

    def action(self, episode: int) -> np.ndarray:
        return self._actions[episode]

    def timestamps(self, episode: int) -> np.ndarray | None:
        times = self._source.timestamps(self._of[episode])
        return None if times is None else self._cut(episode, times)

    def instructions(self, episode: int) -> Mapping[str, np.ndarray]:
        if self._instruction is not None:
            return {self._instruction: np.ones(int(self.lengths[episode]), bool)}
        told = self._source.instructions(self._of[episode])
        inside = {text: self._cut(episode, steps) for text, steps in told.items()}
        return {text: steps for text, steps in inside.items() if steps.any()}

    def vector(self, episode: int, name: str) -> np.ndarray:
        return self._cut(episode, self._source.vector(self._of[episode], name))

    def vector_dimensions(self, name: str) -> VectorDimensions:
        return self._source.vector_dimensions(name)

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        """Return uint8 (h, w, 3) RGB, cropped and resized; raises UndecodableFrameError."""
        check_step(self, episode, step)
        at = int(self._parts[episode, 0]) + step
        image = self._source.frame(self._of[episode], at, self._camera_of[camera])
        if (changed := self._changed.get(camera)) is None:
            return image
        return crop_and_resize(image, changed.crop, changed.height, changed.width)

    def image_file(self, episode: int, camera: str) -> Path:
        return self._source.image_file(self._of[episode], self._camera_of[camera])

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        if camera in self._changed:
            return None
        offsets = self._source.frame_offsets(self._of[episode], self._camera_of[camera])
        return None if offsets is None else self._cut(episode, offsets)

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        old = self._camera_of[camera]
        key = self._source.frame_key(self._of[episode], old)
        scaled_by = ("pillow",) if camera in self._changed else ()
        renamed = () if old == camera else (old,)
        return (*key, int(self._parts[episode, 0]), *scaled_by, *renamed)

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        keys = self._source.key_steps(self._of[episode], self._camera_of[camera])
        if keys is None:
            return None
        first, end = self._parts[episode]
        return np.unique(np.maximum(keys[keys < end] - first, 0))

    def close(self) -> None:
        self._source.close()

    def scale(self, sizes: Mapping[str, tuple[int, int]]) -> "SelectedDataset":
        """Return the same demonstrations, not read again, with images of other sizes.

        sizes: camera -> height and width.
        """
        selection = replace(self._selection, resize=sizes)
        where = f"{self.folder}"
        cameras = find_cameras(selection, self._camera_of, self._source.schema.cameras, where)
        other = copy.copy(self)
        other.schema, other._selection = replace(self.schema, cameras=cameras), selection
        other._changed = self._find_changed(cameras)
        return other

    def __copy__(self) -> "SelectedDataset":
        """Copy it for another thread, which opens its own files."""
        other = object.__new__(SelectedDataset)
        other.__dict__.update(self.__dict__, _source=copy.copy(self._source))
        return other

    def _find_changed(self, cameras: Sequence[Camera]) -> dict[str, Camera]:
        """Return the cameras whose images are not as they are in the source, by name."""
        old = self._source.schema.cameras
        return {
            camera.name: camera
            for camera in cameras
            if replace(camera, name=self._camera_of[camera.name]) not in old
        }

    def _cut(self, episode: int, values: np.ndarray) -> np.ndarray:
        first, end = self._parts[episode]
        return values[first:end]

    def _take_state(self, episode: int, dimensions: np.ndarray) -> np.ndarray:
        every = [self._source.state(self._of[episode])]
        every += [self._source.vector(self._of[episode], vector) for vector in self._append]
        values = every[0] if len(every) == 1 else np.concatenate(every, axis=1)
        return _columns(self._cut(episode, values), dimensions)


def _columns(values: np.ndarray, dimensions: np.ndarray) -> np.ndarray:
    """Return some columns; without a copy if all are wanted in their order."""
    if np.array_equal(dimensions, np.arange(values.shape[1])):
        return values
    return np.ascontiguousarray(values[:, dimensions])
