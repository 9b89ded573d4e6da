"""Check that a converted episode equals its source."""

from collections.abc import Callable

import numpy as np

from act_policy.data.dataset import DemonstrationDataset
from act_policy.errors import UserError

MOST_DIFFERENT = 24.0
"""Mean difference of pixels, out of 255, above which a frame counts as a different one."""


def check_episode(
    source: DemonstrationDataset,
    written: DemonstrationDataset,
    pair: tuple[int, int],
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Compare an episode with its source; UserError where they differ.

    All numbers must be equal. The first, the middle and the last image are compared: they must be
    equal if they were copied or are stored without loss, else close.

    Args:
        source: the original demonstrations.
        written: the converted dataset.
        pair: the episode's number in `written` and in `source`.
        alive: called regularly.
    """
    here, there = pair
    where = f"{written.folder}: {written.episodes[here].name}"
    if written.lengths[here] != source.lengths[there]:
        raise UserError(
            f"{where}: has {written.lengths[here]} steps, its source {source.lengths[there]}"
        )
    _check_equal(where, "state", written.state(here), source.state(there))
    _check_equal(where, "action", written.action(here), source.action(there))
    for name in source.vector_names:
        kept = name if name in written.vector_names else "velocities"
        _check_equal(where, name, written.vector(here, kept), source.vector(there, name))
    for field, mine, theirs in (
        ("instruction", written.episodes[here].instruction, source.episodes[there].instruction),
        ("seed", written.episodes[here].seed, source.episodes[there].seed),
        ("outcome", written.episodes[here].outcome, source.episodes[there].outcome),
        ("ended", written.episodes[here].ended, source.episodes[there].ended),
    ):
        if mine != theirs:
            raise UserError(f"{where}: {field} is {mine!r}, in its source {theirs!r}")
    times, kept_times = source.image_times(there), written.image_times(here)
    for camera in times.keys() & kept_times.keys():
        name = f"times of camera {camera}"
        _check_equal(where, name, kept_times[camera][:, None], times[camera][:, None])
    last = int(source.lengths[there]) - 1
    for camera in source.schema.camera_names:
        for step in sorted({0, last // 2, last}):
            alive()
            one, other = written.frame(here, step, camera), source.frame(there, step, camera)
            difference = float(np.abs(one.astype(np.int16) - other).mean())
            if difference > MOST_DIFFERENT:
                raise UserError(
                    f"{where}: camera {camera}, step {step} differs by {difference:.0f} of 255 "
                    "from its source. Lower crf= for a better quality, or choose images=png, "
                    "into a new folder."
                )


def _check_equal(where: str, name: str, here: np.ndarray, there: np.ndarray) -> None:
    if not np.array_equal(here, there, equal_nan=True):
        wrong = np.argwhere(~((here == there) | (np.isnan(here) & np.isnan(there))))
        raise UserError(
            f"{where}: {name} differs from its source at step {wrong[0][0]}, dimension "
            f"{wrong[0][1]}: {here[tuple(wrong[0])]} instead of {there[tuple(wrong[0])]}; "
            f"sums {here.sum(dtype=np.float64):g} and {there.sum(dtype=np.float64):g}"
        )
