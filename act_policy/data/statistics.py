"""Statistics of state and action, in float64, over exactly the given episodes."""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from act_policy.data.action_relations import find_relations, own_states, shown_kinds
from act_policy.data.dataset import DemonstrationDataset, place_of
from act_policy.errors import UserError
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.system.atomic import atomic_file


def compute_statistics(
    dataset: DemonstrationDataset,
    episodes: Sequence[int] | np.ndarray,
    std_floor: float = 1e-2,
    relative_actions: Sequence[str] = (),
    chunk_length: int = 1,
    cache: Path | None = None,
) -> Statistics:
    """Measure every step of the given episodes as if they were one long episode.

    Args:
        dataset: the demonstrations.
        episodes: indices of the episodes that are trained on.
        std_floor: smallest divisor of the normaliser, in physical units.
        relative_actions: dimensions measured as the difference from the state of the same name,
            over every step and every action of the chunk that begins there.
        chunk_length: k, for the relative actions.
        cache: folder where the result is kept, under a hash of everything it depends on.

    Raises:
        UserError: there is no episode, the floor is not positive, or a value is not finite
            (named by file, step and dimension).
    """
    if len(episodes) == 0:
        raise UserError("statistics need at least one episode")
    if not std_floor > 0:
        raise UserError(f"std_floor must be positive, found {std_floor}")
    episodes = [int(episode) for episode in episodes]
    check_finite(dataset, episodes)
    relative = tuple(relative_actions)
    path = None
    if cache is not None:
        path = cache / f"statistics-{_hash(dataset, episodes, relative, chunk_length)}.npz"
    fields = _load(path)
    if fields is None:
        state = _measure(lambda: map(dataset.state, episodes))
        action = _measure(lambda: map(dataset.action, episodes))
        if relative:
            action = _measure_relative(dataset, episodes, relative, chunk_length, action)
        fields = state, action
        if path is not None:
            _keep(path, fields)
    return Statistics(
        state=fields[0],
        action=fields[1],
        step_count=int(sum(dataset.lengths[episode] for episode in episodes)),
        std_floor=std_floor,
        relative_actions=relative,
        action_kinds=_find_kinds(dataset, episodes),
    )


def check_finite(
    dataset: DemonstrationDataset, episodes: Sequence[int] | np.ndarray | None = None
) -> None:
    """Raise UserError at the first state or action that is NaN or infinite; names its place."""
    for episode in range(len(dataset.episodes)) if episodes is None else episodes:
        for field, values, names in (
            ("state", dataset.state(episode), dataset.schema.state_names),
            ("action", dataset.action(episode), dataset.schema.action_names),
        ):
            if not (finite := np.isfinite(values)).all():
                step, dimension = np.argwhere(~finite)[0]
                raise UserError(
                    f"{place_of(dataset, episode)}: {field} {names[dimension]} at step {step} "
                    f"is {values[step, dimension]}; expected a finite number. "
                    "Repair the episode or leave it out with data.select.exclude=[...]."
                )


def _measure(parts: Callable[[], Iterator[np.ndarray]]) -> FieldStatistics:
    """Measure all rows of the parts, (rows, n) each, which are made anew for every pass."""
    # Two passes: the deviation from the mean is exact where a sum of squares would cancel.
    count = sum(len(part) for part in parts())
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts()) / count
    variance = sum(((part - mean) ** 2).sum(axis=0) for part in parts()) / count
    return FieldStatistics(
        mean=np.asarray(mean),
        std=np.sqrt(variance),
        min=np.min([part.min(axis=0) for part in parts()], axis=0).astype(np.float64),
        max=np.max([part.max(axis=0) for part in parts()], axis=0).astype(np.float64),
    )


def _measure_relative(
    dataset: DemonstrationDataset,
    episodes: Sequence[int],
    relative: Sequence[str],
    chunk_length: int,
    absolute: FieldStatistics,
) -> FieldStatistics:
    """Return the actions' statistics with those of the relative dimensions inserted."""
    schema = dataset.schema
    actions = [schema.action_names.index(name) for name in relative]
    states = [schema.state_names.index(name) for name in relative]

    def differences() -> Iterator[np.ndarray]:
        for episode in episodes:
            action = dataset.action(episode)[:, actions].astype(np.float64)
            state = dataset.state(episode)[:, states]
            for ahead in range(min(chunk_length, len(action))):
                yield action[ahead:] - state[: len(action) - ahead]

    merged = FieldStatistics(*(values.copy() for values in absolute))
    for values, measured in zip(merged, _measure(differences), strict=True):
        values[actions] = measured
    return merged


def _find_kinds(dataset: DemonstrationDataset, episodes: Sequence[int]) -> tuple[str, ...]:
    """What these episodes show of each action."""
    schema = dataset.schema
    relations = find_relations(
        [dataset.state(episode) for episode in episodes],
        [dataset.action(episode) for episode in episodes],
        schema.rate,
        own_states(schema),
    )
    return shown_kinds(schema, relations)


def _hash(
    dataset: DemonstrationDataset,
    episodes: Sequence[int],
    relative: tuple[str, ...],
    chunk_length: int,
) -> str:
    """Hash the numbers themselves and the settings of the measurement."""
    schema = dataset.schema
    key = hashlib.sha256()
    described = (1, schema.state_names, schema.action_names, relative, relative and chunk_length)
    key.update(repr(described).encode())
    for episode in episodes:
        for values in (dataset.state(episode), dataset.action(episode)):
            key.update(repr(values.shape).encode())
            key.update(np.ascontiguousarray(values).tobytes())
    return key.hexdigest()[:16]


def _load(path: Path | None) -> tuple[FieldStatistics, FieldStatistics] | None:
    """Read the file that `_keep` wrote; None where it is missing or cannot be read."""
    if path is None:
        return None
    try:
        with np.load(path) as kept:
            state, action = (
                FieldStatistics(*(kept[f"{field}_{name}"] for name in FieldStatistics._fields))
                for field in ("state", "action")
            )
    except (OSError, ValueError, KeyError):
        return None
    return state, action


def _keep(path: Path, fields: tuple[FieldStatistics, FieldStatistics]) -> None:
    arrays = {
        f"{field}_{name}": values
        for field, measured in zip(("state", "action"), fields, strict=True)
        for name, values in measured._asdict().items()
    }
    content = io.BytesIO()
    np.savez(content, **arrays)
    with suppress(OSError), atomic_file(path) as file:  # it can be computed again
        file.write(content.getbuffer())
