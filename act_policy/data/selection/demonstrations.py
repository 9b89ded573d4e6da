"""Open demonstrations as a configuration describes them: folders, and the parts to use."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from act_policy.data.dataset import DatasetWarning
from act_policy.data.episode_errors import Wanted
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.data.selection.mixed import MixedDataset
from act_policy.data.selection.selected import SelectedDataset
from act_policy.data.selection.selection import Selection, check_episode_list, choose, find_episodes
from act_policy.errors import UserError, list_some
from act_policy.types import Schema

Demonstrations = SelectedDataset | MixedDataset


@dataclass(frozen=True)
class RunReading:
    """Settings with which a run read its demonstrations, so that others can be read alike.

    reader: settings for reading the files.
    select: settings of a Selection.
    """

    reader: ReaderConfig = DEFAULT_READER
    select: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "RunReading":
        """Read the settings from a run's config.yaml as plain values; defaults if it has none."""
        data = config.get("data") or {}
        return cls(ReaderConfig.from_config(data), data.get("select") or {})


def open_demonstrations(
    path: str | Path,
    select: Mapping[str, Any] | None = None,
    mix: Any = None,
    reader: ReaderConfig = DEFAULT_READER,
) -> Demonstrations:
    """Open a folder of demonstrations, or several, as a configuration describes them.

    Args:
        path: the folder.
        select: settings of a Selection.
        mix: further folders, each with `path`, `weight` (1 if left out) and the settings that
            differ from the first folder's: those of the reader, or some of `select`.
        reader: settings for reading the files; cameras may be new name -> name in the files.

    Raises:
        UserError: something is missing, unknown, or does not fit.
    """
    first = _open_selected(path, select, reader)
    if mix is None or len(mix) == 0:
        return first
    if not isinstance(mix, Sequence) or not all(isinstance(entry, Mapping) for entry in mix):
        raise UserError(f"mix={mix}: expected a list like [{{path: FOLDER, weight: 1}}]")
    parts, weights = [first], [1.0]
    for entry in mix:
        known = ["path", "weight", "select", *ReaderConfig.names()]
        if unknown := [key for key in entry if key not in known]:
            raise UserError(f"mix: {', '.join(unknown)} is unknown; there are {', '.join(known)}")
        if entry.get("path") is None:
            raise UserError(f"mix: {dict(entry)} has no path")
        weight = entry.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
            raise UserError(f"mix: {entry['path']}: weight={weight}, expected a number above 0")
        # each dataset has its own choice of episodes
        chosen = _without_episodes(select) | (entry.get("select") or {})
        own = {name: entry[name] for name in ReaderConfig.names() if name in entry}
        parts.append(_open_selected(entry["path"], chosen, replace(reader, **own)))
        weights.append(float(weight))
    return MixedDataset(parts, weights)


def open_as_run(path: str | Path, schema: Schema, run: RunReading) -> Demonstrations:
    """Open a folder other than a run's own with the run's settings and all of its episodes.

    Args:
        path: the folder.
        schema: of the run's policy; its cameras are read if the run named none.
        run: the run's settings for reading.

    Raises:
        UserError: as `open_demonstrations`.
    """
    reader = replace(run.reader, cameras=run.reader.cameras or schema.camera_names)
    select = _without_episodes(run.select) | {"instruction": None}
    return open_demonstrations(path, select, None, reader)


def choose_episodes(what: str, given: Sequence[int | str], dataset: Demonstrations) -> list[int]:
    """Find episodes among the selected ones by their indices or names on disk."""
    check_episode_list(what, given)
    names = {episode.index: episode.name for episode in dataset.episodes}
    found = find_episodes(what, given, names, f"{dataset.folder}")
    return [place for place, episode in enumerate(dataset.episodes) if episode.index in found]


def _without_episodes(select: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a selection that also apply to another part of a mixture."""
    return {k: v for k, v in (select or {}).items() if k not in ("episodes", "exclude")}


def _open_selected(
    path: str | Path, select: Mapping[str, Any] | None, reader: ReaderConfig
) -> SelectedDataset:
    selection = Selection.from_config(select)
    renamed = None
    if isinstance(reader.cameras, Mapping):
        renamed = {str(new): str(old) for new, old in reader.cameras.items()}
        reader = replace(reader, cameras=list(dict.fromkeys(renamed.values())))
    # The reader itself leaves out other episodes, so that errors in them do not matter.
    wanted: Wanted = partial(choose, selection, f"{path}")
    if selection.instruction is not None:
        wanted = partial(_of_instruction, selection.instruction, path, reader, wanted)
    return SelectedDataset(open_dataset(path, reader, wanted), selection, renamed)


def _of_instruction(
    instruction: str,
    path: str | Path,
    reader: ReaderConfig,
    wanted: Wanted,
    names: Mapping[int, str],
) -> list[int]:
    """Return the indices of the wanted episodes that have this instruction."""
    with warnings.catch_warnings():  # the notes are given when the chosen ones are opened
        warnings.simplefilter("ignore", DatasetWarning)
        dataset = open_dataset(path, reader, lambda _: wanted(names))
    told = {e.index: dataset.instructions(place) for place, e in enumerate(dataset.episodes)}
    whole = {e.index for e in dataset.episodes if e.instruction == instruction}
    if found := [index for index in told if index in whole or instruction in told[index]]:
        return found
    every = list(dict.fromkeys(repr(text) for texts in told.values() for text in texts))
    raise UserError(
        f"select.instruction: no episode of {path} has {instruction!r}; there are "
        f"{list_some(every)}"
    )
