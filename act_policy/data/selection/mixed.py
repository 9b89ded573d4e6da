"""Present several datasets as one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, Episode, VectorDimensions, lengths_of
from act_policy.data.selection.selected import SelectedDataset
from act_policy.errors import UserError, list_some
from act_policy.types import Schema


class MixedDataset(DemonstrationDataset):
    """Several datasets one after the other, each with a weight.

    Episodes are named FOLDER/EPISODE; their indices on disk are counted through all datasets.

    Args:
        parts: datasets whose schemas agree.
        weights: how often an epoch shows each dataset's steps; 1 is once.

    Raises:
        UserError: the schemas differ, or an episode is there twice.
    """

    def __init__(self, parts: Sequence[SelectedDataset], weights: Sequence[float]) -> None:
        first = parts[0]
        _check_distinct(parts)
        for other in parts[1:]:
            _check_alike(first, other)
        self.parts = list(parts)
        self.weights = [float(weight) for weight in weights]
        self.folder = first.folder
        self.relative_actions = first.relative_actions
        tasks = dict.fromkeys(task for part in parts for task in part.schema.tasks)
        self.schema = replace(
            first.schema,
            environment=_shared(part.schema.environment for part in parts),
            tasks=tuple(tasks),
            teacher=_shared(part.schema.teacher for part in parts),
        )
        self._first = np.cumsum([0, *(len(part.episodes) for part in parts)])
        on_disk = np.cumsum([0, *(part.last_index + 1 for part in parts)]).tolist()
        self.last_index = on_disk[-1] - 1
        labels = _labels([part.folder for part in parts])
        self.episodes: Sequence[Episode] = [
            replace(episode, name=f"{label}/{episode.name}", index=before + episode.index)
            for label, before, part in zip(labels, on_disk, parts, strict=False)
            for episode in part.episodes
        ]
        self.lengths = lengths_of(self.episodes)
        self.left_out = {n: why for part in parts for n, why in part.left_out.items()}
        self.notes = [note for part in parts for note in part.notes]
        self.vector_names = tuple(
            name
            for name in first.vector_names
            if all(
                name in part.vector_names
                and part.vector_dimensions(name) == first.vector_dimensions(name)
                for part in parts
            )
        )

    def state(self, episode: int) -> np.ndarray:
        part, inside = self._find(episode)
        return part.state(inside)

    def action(self, episode: int) -> np.ndarray:
        part, inside = self._find(episode)
        return part.action(inside)

    def timestamps(self, episode: int) -> np.ndarray | None:
        part, inside = self._find(episode)
        return part.timestamps(inside)

    def instructions(self, episode: int) -> Mapping[str, np.ndarray]:
        part, inside = self._find(episode)
        return part.instructions(inside)

    def environment(self, episode: int) -> str:
        part, inside = self._find(episode)
        return part.environment(inside)

    def vector(self, episode: int, name: str) -> np.ndarray:
        part, inside = self._find(episode)
        return part.vector(inside, name)

    def vector_dimensions(self, name: str) -> VectorDimensions:
        return self.parts[0].vector_dimensions(name)

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        part, inside = self._find(episode)
        return part.frame(inside, step, camera)

    def image_file(self, episode: int, camera: str) -> Path:
        part, inside = self._find(episode)
        return part.image_file(inside, camera)

    def frame_offsets(self, episode: int, camera: str) -> np.ndarray | None:
        part, inside = self._find(episode)
        return part.frame_offsets(inside, camera)

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        part, inside = self._find(episode)
        return part.frame_key(inside, camera)

    def key_steps(self, episode: int, camera: str) -> np.ndarray | None:
        part, inside = self._find(episode)
        return part.key_steps(inside, camera)

    def close(self) -> None:
        for part in self.parts:
            part.close()

    def _find(self, episode: int) -> tuple[SelectedDataset, int]:
        place = int(np.searchsorted(self._first, episode, side="right")) - 1
        return self.parts[place], episode - int(self._first[place])


def _check_distinct(parts: Sequence[SelectedDataset]) -> None:
    """Raise UserError where two parts share an episode: it could be held out and trained on."""
    seen: set[tuple[Path, int]] = set()
    for part in parts:
        own = {(part.folder.resolve(), episode.index): episode.name for episode in part.episodes}
        if twice := [name for place, name in own.items() if place in seen]:
            raise UserError(
                f"mix: {part.folder} is there twice, with {len(twice)} of the same episodes "
                f"({list_some(twice)}). Give the folder once, with a weight= to see it more often, "
                "or different episodes by select.episodes."
            )
        seen |= set(own)


def _check_alike(first: SelectedDataset, other: SelectedDataset) -> None:
    def plain(schema: Schema) -> Schema:
        """Remove source sizes and crops, which crop and resize make irrelevant."""
        return replace(
            schema,
            cameras=tuple(replace(c, source_size=None, crop=None) for c in schema.cameras),
        )

    differences = plain(first.schema).differences(plain(other.schema))
    if first.relative_actions != other.relative_actions:
        differences.append(
            f"relative actions: {list(first.relative_actions)} here, "
            f"{list(other.relative_actions)} there"
        )
    if differences:
        raise UserError(
            f"mix: {first.folder} (here) and {other.folder} (there) do not fit together: "
            f"{'; '.join(differences)}. Make them alike with cameras, schema or select in mix."
        )


def _labels(folders: Sequence[Path]) -> list[str]:
    """Return a short name for each dataset: its folder's, or the path if that is not unique."""
    names = [folder.resolve().name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder}"
        for name, folder in zip(names, folders, strict=True)
    ]


def _shared(texts: Iterable[str]) -> str:
    """Return the text that all have in common; empty where they differ."""
    first, *others = dict.fromkeys(texts)
    return "" if others else first
