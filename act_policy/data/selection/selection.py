"""Settings that choose the parts of a dataset to use, checked against its names."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from act_policy.data.dataset import DatasetWarning, DemonstrationDataset, place_of
from act_policy.data.episode_files import without_ending
from act_policy.errors import UserError, located
from act_policy.images.resize import Crop, check_crop
from act_policy.types import Camera, Schema


@dataclass(frozen=True)
class Selection:
    """The parts of a dataset to use; the files do not change.

    episodes: only these, by index or name; None is all.
    exclude: all but these.
    instruction: only episodes in which the operator was told exactly this, and of those with
        several instructions only its steps; None is all.
    tasks: whether the instructions, where there are several, are tasks of which the policy is told
        one.
    trim: cuts the still steps off both ends of every episode. At a still step no dimension of
        state or action changes by more than this share of its standard deviation until the next.
    operator: of recorded runs of a policy, only the steps in which a "person" acted, or the
        "policy"; each stretch of them becomes an episode. Plain demonstrations are a person's.
    before_failure: leaves out the policy's steps in so many seconds before a person took over, and
        before a fault or stop that ended a recorded run.
    crop: of each image before it is resized, (top, left, height, width), or one per camera.
    resize: of each image to (height, width), or one per camera.
    append: vectors appended to the state, such as "velocity" and "effort".
    state: its dimensions by name, in this order, appended ones included; None is all.
    actions: their dimensions by name, in this order; None is all.
    relative: actions that are learned relative to the state of the same name; True is every one
        that has such a state, grippers excepted.
    """

    episodes: Sequence[int | str] | None = None
    exclude: Sequence[int | str] = ()
    instruction: str | None = None
    tasks: bool = True
    trim: float | None = None
    operator: str | None = None
    before_failure: float | None = None
    crop: Sequence[int] | Mapping[str, Sequence[int]] | None = None
    resize: Sequence[int] | Mapping[str, Sequence[int]] | None = None
    append: Sequence[str] = ()
    state: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    relative: bool | Sequence[str] = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> "Selection":
        """Check and read a configuration; an unknown or impossible setting raises UserError."""
        known = [field.name for field in fields(cls)]
        if config is not None and not isinstance(config, Mapping):
            raise UserError(f"select={config}: expected some of {', '.join(known)}")
        given = {key: value for key, value in (config or {}).items() if value is not None}
        if unknown := [key for key in given if key not in known]:
            raise UserError(f"select has no {', '.join(unknown)}; it has {', '.join(known)}")
        for name in ("episodes", "exclude"):
            check_episode_list(f"select.{name}", given.get(name))
        for name in ("append", "state", "actions", "relative"):
            value = given.get(name, [])
            if not _is_list(value, str) and not (name == "relative" and isinstance(value, bool)):
                raise UserError(f"select.{name}={value}: expected a list of names")
        if not isinstance(given.get("instruction", ""), str):
            raise UserError(f"select.instruction={given['instruction']}: expected a text")
        if not isinstance(given.get("tasks", True), bool):
            raise UserError(f"select.tasks={given['tasks']}: expected true or false")
        trim = given.get("trim", 0.0)
        if isinstance(trim, bool) or not isinstance(trim, int | float) or not 0 <= trim < 1:
            raise UserError(
                f"select.trim={trim}: expected a share of the standard deviation, like 0.01"
            )
        if (operator := given.get("operator")) not in (None, "person", "policy"):
            raise UserError(f"select.operator={operator}: expected person or policy")
        seconds = given.get("before_failure", 0.0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise UserError(f"select.before_failure={seconds}: expected a number of seconds")
        return cls(**given)


def check_episode_list(name: str, given: Any) -> None:
    """Raise UserError unless the value is None or a list of indices and names."""
    if given is not None and not _is_list(given, int | str | np.integer):
        raise UserError(f"{name}: expected a list of indices like [0, 1], found {given!r}")


def find_episodes(
    what: str, given: Sequence[int | str], names: Mapping[int, str], where: str
) -> set[int]:
    """Return the indices on disk of the given episodes.

    Args:
        what: the setting, for the message.
        given: indices, or names with or without the file's ending.
        names: of all episodes, by their indices on disk.
        where: the dataset, for the message.
    """
    found: dict[int | str, int] = {index: index for index in names}
    every = list(names.values())
    short = [name.rpartition("/")[2] for name in every]
    for index, name, last in zip(names, every, short, strict=True):
        # the dataset's name may be left out if no other dataset has an episode of this name
        for form in {name, last} if short.count(last) == 1 else {name}:
            found |= {form: index, without_ending(form): index}
    if missing := sorted({str(e) for e in given if e not in found}):
        there = f"{len(every)} episodes, {every[0]} to {every[-1]}" if every else "no episode"
        whole = set(names) == set(range(len(names)))
        among = f"not among 0 to {len(names) - 1}" if whole else "not among those that are used"
        raise UserError(f"{what}: episodes [{', '.join(missing)}] are {among}; {where} has {there}")
    return {found[e] for e in given}


def choose(selection: Selection, where: str, names: Mapping[int, str]) -> list[int]:
    """Return the indices of the selected episodes, ascending; UserError if there are none.

    Args:
        selection: the choice.
        where: the dataset, for the message.
        names: of all episodes, by their indices.
    """
    chosen = set(names)
    if selection.episodes is not None:
        chosen = find_episodes("select.episodes", selection.episodes, names, where)
    # a number that is not there is left out already: lists are kept while episodes are removed
    gone = [e for e in selection.exclude if not isinstance(e, str) and e not in names]
    if gone:
        text = ", ".join(map(str, gone))
        warnings.warn(
            f"select.exclude: {where} has no episodes {text}", DatasetWarning, stacklevel=2
        )
    there = [episode for episode in selection.exclude if episode not in gone]
    chosen -= find_episodes("select.exclude", there, names, where)
    if not chosen:
        raise UserError(f"{where}: select.episodes and select.exclude leave no episode")
    return sorted(chosen)


def find_dimensions(
    what: str, wanted: Sequence[str] | None, names: Sequence[str], where: str
) -> np.ndarray:
    """Return int64, the positions of the wanted names; all if `wanted` is None."""
    if wanted is None:
        return np.arange(len(names))
    if not wanted:
        raise UserError(f"{what}=[]: expected at least one of {', '.join(names)}")
    if missing := [name for name in wanted if name not in names]:
        raise UserError(f"{what}: {where} has no {', '.join(missing)}; it has {', '.join(names)}")
    if len(set(wanted)) < len(wanted):
        raise UserError(f"{what}={list(wanted)}: a name is listed twice")
    return np.array([names.index(name) for name in wanted], np.int64)


def find_relative(relative: bool | Sequence[str], schema: Schema, where: str) -> tuple[str, ...]:
    """Return the action dimensions that are learned relative to the state of the same name."""
    if relative is False:
        return ()
    alike = [action[0] for action in schema.actions if action in schema.states]
    if relative is True:
        chosen = [name for name in alike if "gripper" not in name.lower()]
        if not chosen:
            raise UserError(
                f"select.relative=true: in {where} no action has a state of the same name and unit "
                f"(state {', '.join(schema.state_names)}; actions {', '.join(schema.action_names)})"
            )
        return tuple(chosen)
    if missing := [name for name in relative if name not in alike]:
        raise UserError(
            f"select.relative: {', '.join(missing)} is not an action of {where} with a state of "
            f"the same name and unit; those are {', '.join(alike) or 'none'}"
        )
    return tuple(name for name in schema.action_names if name in relative)


def find_cameras(
    selection: Selection, renamed: Mapping[str, str], cameras: Sequence[Camera], where: str
) -> tuple[Camera, ...]:
    """Return the cameras as the policy will see them: renamed, cropped, resized.

    Args:
        selection: crop and resize, by the new names.
        renamed: new name -> name in the dataset.
        cameras: of the dataset.
        where: the dataset, for the message.
    """
    old = {camera.name: camera for camera in cameras}
    if missing := [name for name in renamed.values() if name not in old]:
        raise UserError(f"{where}: no camera {', '.join(missing)}; it has {', '.join(old)}")
    crops = _for_each("crop", selection.crop, 4, list(renamed))
    sizes = _for_each("resize", selection.resize, 2, list(renamed))
    found = []
    for name, before in renamed.items():
        camera = old[before]
        crop: Crop | None = tuple(crops[name]) if name in crops else None  # type: ignore[assignment]
        if crop is not None:
            with located(f"select.crop: {where}, camera {name}"):
                check_crop(crop, camera.height, camera.width)
        height, width = sizes.get(name, crop[2:] if crop else (camera.height, camera.width))
        if crop is None and (height, width) == (camera.height, camera.width):
            found.append(Camera(name, height, width, camera.source_size, camera.crop))
        else:
            found.append(Camera(name, height, width, (camera.height, camera.width), crop))
    return tuple(found)


def moving_part(dataset: DemonstrationDataset, threshold: float | None) -> np.ndarray:
    """Return int64 (episodes, 2): first step and end of each episode without its still ends.

    A step is still if until the next no dimension of state or action changes by more than
    `threshold` times its standard deviation over all episodes. The steps at which motion begins
    and ends are kept.

    Raises:
        UserError: nothing moves in an episode.
    """
    episodes = range(len(dataset.episodes))
    parts = np.stack([np.zeros(len(episodes), np.int64), dataset.lengths], axis=1)
    if threshold is None:
        return parts
    both = [np.concatenate([dataset.state(e), dataset.action(e)], axis=1) for e in episodes]
    limit = threshold * np.concatenate(both).std(axis=0, dtype=np.float64)
    for part, episode, values in zip(parts, episodes, both, strict=True):
        moves = np.flatnonzero((np.abs(np.diff(values, axis=0)) > limit).any(axis=1))
        if len(moves) == 0:
            raise UserError(
                f"select.trim={threshold}: {place_of(dataset, episode)}: nothing moves in it; "
                "leave it out with select.exclude"
            )
        part[:] = moves[0], moves[-1] + 2
    return parts


def _for_each(
    setting: str, given: Any, count: int, cameras: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Return the numbers by camera, for the cameras that have some."""
    if given is None:
        return {}
    each = given if isinstance(given, Mapping) else dict.fromkeys(cameras, given)
    if unknown := [name for name in each if name not in cameras]:
        raise UserError(
            f"select.{setting}: no camera {', '.join(unknown)}; there are {', '.join(cameras)}"
        )
    form = "[top, left, height, width]" if count == 4 else "[height, width]"
    for name, numbers in each.items():
        if not _is_list(numbers, int) or len(numbers) != count or min(numbers[-2:]) < 1:
            raise UserError(f"select.{setting}: {name}: found {numbers}, expected {form} in pixels")
    return {name: tuple(numbers) for name, numbers in each.items()}


def _is_list(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, Sequence | np.ndarray)
        and not isinstance(value, str)
        and all(isinstance(item, kind) and not isinstance(item, bool) for item in value)
    )
