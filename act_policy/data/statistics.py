"""Mean, deviation and range of state and action, in float64, over exactly the given episodes."""

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from act_policy.data.dataset import DemonstrationDataset, place_of
from act_policy.errors import UserError
from act_policy.system.atomic import atomic_file
from act_policy.types import FieldStatistics, Statistics


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
        fields = _field(dataset.state, episodes), _field(dataset.action, episodes)
        if relative:
            fields = fields[0], _with_relative(dataset, episodes, relative, chunk_length, fields[1])
        _keep(path, fields)
    return Statistics(
        state=fields[0],
        action=fields[1],
        step_count=int(sum(dataset.lengths[episode] for episode in episodes)),
        std_floor=std_floor,
        relative_actions=relative,
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


def _field(
    values_of: Callable[[int], np.ndarray], episodes: Sequence[int] | np.ndarray
) -> FieldStatistics:
    # Two passes: the deviation from the mean is exact where a sum of squares would cancel.
    steps = sum(len(values_of(episode)) for episode in episodes)
    mean = sum(values_of(e).sum(axis=0, dtype=np.float64) for e in episodes) / steps
    variance = sum(((values_of(e) - mean) ** 2).sum(axis=0) for e in episodes) / steps
    return FieldStatistics(
        mean=np.asarray(mean),
        std=np.sqrt(variance),
        min=np.min([values_of(e).min(axis=0) for e in episodes], axis=0).astype(np.float64),
        max=np.max([values_of(e).max(axis=0) for e in episodes], axis=0).astype(np.float64),
    )


def _with_relative(
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

    count = sum(len(part) for part in differences())
    mean = sum(part.sum(axis=0) for part in differences()) / count
    variance = sum(((part - mean) ** 2).sum(axis=0) for part in differences()) / count
    measured = {
        "mean": mean,
        "std": np.sqrt(variance),
        "min": np.min([part.min(axis=0) for part in differences()], axis=0),
        "max": np.max([part.max(axis=0) for part in differences()], axis=0),
    }
    result = {name: values.copy() for name, values in absolute._asdict().items()}
    for name, values in measured.items():
        result[name][actions] = values
    return FieldStatistics(**result)


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
    if path is None or not path.exists():
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


def _keep(path: Path | None, fields: tuple[FieldStatistics, FieldStatistics]) -> None:
    if path is None:
        return
    content = io.BytesIO()
    np.savez(
        content,
        **{
            f"{field}_{name}": values
            for field, measured in zip(("state", "action"), fields, strict=True)
            for name, values in measured._asdict().items()
        },
    )
    try:
        with atomic_file(path) as file:
            file.write(content.getbuffer())
    except OSError:
        return  # it can be computed again
