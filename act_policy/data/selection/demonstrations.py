"""Open demonstrations as a configuration describes them: folders, and the parts that are used."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.data.open import open_dataset
from act_policy.data.schemas import SchemaSource
from act_policy.data.selection.mixed import MixedDataset
from act_policy.data.selection.selected import SelectedDataset
from act_policy.data.selection.selection import Selection, check_episode_list, choose, find_episodes
from act_policy.errors import UserError
from act_policy.types import Schema

Demonstrations = SelectedDataset | MixedDataset


LOADING = {
    *("_target_", "path", "batch_size", "workers", "std_floor", "undecodable", "cache", "mix"),
    *("held_out_fraction", "train_episodes", "held_out_episodes"),
}
"""Settings of a run's data that say how it was trained on; all others say what it is."""


def open_demonstrations(
    path: str | Path,
    select: Mapping[str, Any] | None = None,
    mix: Any = None,
    cameras: Sequence[str] | Mapping[str, str] | None = None,
    schema: SchemaSource | None = None,
    **reader_options: Any,
) -> Demonstrations:
    """Open a folder of demonstrations, or several, as a configuration describes them.

    Args:
        path: the folder.
        select: settings of a Selection.
        mix: further folders, each with `path`, `weight` (1 if left out) and the settings that
            differ from the first folder's: `cameras`, `schema`, reader options, or some of
            `select`.
        cameras: which cameras to use, in this order; or new name -> name in the files.
        schema: names, units and rate where the files do not say them.
        reader_options: see `open_dataset`.

    Raises:
        UserError: something is missing, unknown, or does not fit.
    """
    own = {"cameras": cameras, "schema": schema, **reader_options}
    first = _open_selected(path, select, own)
    if mix is None or len(mix) == 0:
        return first
    if not isinstance(mix, Sequence) or not all(isinstance(entry, Mapping) for entry in mix):
        raise UserError(f"mix={mix}: expected a list like [{{path: FOLDER, weight: 1}}]")
    parts, weights = [first], [1.0]
    for entry in mix:
        known = ["path", "weight", "select", *own]
        if unknown := [key for key in entry if key not in known]:
            raise UserError(f"mix: {', '.join(unknown)} is unknown; there are {', '.join(known)}")
        if entry.get("path") is None:
            raise UserError(f"mix: {dict(entry)} has no path")
        weight = entry.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
            raise UserError(f"mix: {entry['path']}: weight={weight}, expected a number above 0")
        # each dataset has its own choice of episodes
        shared = {k: v for k, v in (select or {}).items() if k not in ("episodes", "exclude")}
        options = own | {key: entry[key] for key in own if key in entry}
        parts.append(_open_selected(entry["path"], shared | (entry.get("select") or {}), options))
        weights.append(float(weight))
    return MixedDataset(parts, weights)


def reading_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give how a run read its files and what it selected of them, from its config.yaml."""
    data = config.get("data") or {}
    return {key: value for key, value in data.items() if key not in LOADING}


def open_as_run(path: str | Path, schema: Schema, options: Mapping[str, Any]) -> Demonstrations:
    """Open another folder than a run's own as the run read it, with all of its episodes.

    Args:
        path: the folder.
        schema: of the run's policy; its cameras are read where the run named none.
        options: of `open_demonstrations` in the run.

    Raises:
        UserError: as `open_demonstrations`.
    """
    select = {
        key: value
        for key, value in (options.get("select") or {}).items()
        if key not in ("episodes", "exclude")
    }
    cameras = options.get("cameras") or schema.camera_names
    return open_demonstrations(path, **{**options, "cameras": cameras, "select": select})


def choose_episodes(what: str, given: Sequence[int | str], dataset: Demonstrations) -> list[int]:
    """Find episodes by their indices or names on disk among those that are selected."""
    check_episode_list(what, given)
    names = [episode.name for episode in dataset.episodes]
    indices = np.array([episode.index for episode in dataset.episodes])
    found = find_episodes(what, given, names, indices, f"{dataset.folder}")
    return sorted({int(place) for place in found})


def _open_selected(
    path: str | Path, select: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> SelectedDataset:
    selection = Selection.from_config(select)
    options = dict(options)
    cameras = options.pop("cameras")
    renamed = None
    if isinstance(cameras, Mapping):
        renamed = {str(new): str(old) for new, old in cameras.items()}
        cameras = list(dict.fromkeys(renamed.values()))
    # The reader leaves out other episodes at once, so that errors in them do not matter.
    wanted = partial(choose, selection, f"{path}")
    dataset = open_dataset(path, cameras=cameras, wanted=wanted, **options)
    return SelectedDataset(dataset, selection, renamed)
