"""The last thing between a command and a motor: limits of range, step and speed."""

import numpy as np

from act_policy.control.action_space import ActionSpace


def limit_command(
    space: ActionSpace,
    wanted: np.ndarray,
    last: np.ndarray,
    position: np.ndarray,
    seconds: float,
) -> tuple[np.ndarray, dict[str, str]]:
    """Bring a command within every limit: shorten its way from the last one, never turn it back.

    Where the measured position is further than max_step from the last command, because the arm was
    pushed, lags or is measured wrongly, the command may come nearer to it, but need not: a wrong
    measurement must not draw the arm along.

    Args:
        space: holds the limits.
        wanted: (a,), finite.
        last: the command before (a,), the measured position at first; NaN where there is none.
        position: measured (a,); NaN where nothing measures it.
        seconds: for which the command counts, one tick.

    Returns:
        The command (a,), and what was cut: kind of limit -> a sentence.
    """
    cut: dict[str, str] = {}

    def note(kind: str, limited: np.ndarray, before: np.ndarray) -> None:
        changed = np.flatnonzero(np.abs(limited - before) > 1e-9 * (1 + np.abs(before)))
        for i in changed:
            cut[f"{kind} limit: {space.names[i]}"] = (
                f"{before[i]:.4g} became {limited[i]:.4g} {space.units[i]}"
            )

    # An arm outside its range may rest there or come back: clipping would pull it in.
    low, high = np.fmin(space.low, last), np.fmax(space.high, last)
    command = np.clip(wanted, low, high)
    note("range", command, wanted)

    known = np.isfinite(last)
    way = np.where(known, space.difference(command, np.where(known, last, command)), 0.0)
    ahead = space.difference(np.where(known, last, command), position)  # of the measured position
    ahead = np.where(np.isfinite(ahead), ahead, 0.0)
    most = np.where(np.isfinite(position), space.max_step, np.inf)
    for kind, least, largest in (
        ("step", np.minimum(-most - ahead, 0.0), np.maximum(most - ahead, 0.0)),
        ("speed", -space.max_speed * seconds, space.max_speed * seconds),
    ):
        shorter = np.where(known, np.clip(way, least, largest), way)
        limited = np.where(shorter == way, command, last + shorter)
        note(kind, limited, command)
        command, way = limited, shorter

    # The short way round an angle may lead out of the range.
    turned = np.isfinite(space.period) & known
    command = np.where(turned, last + way, command)
    inside = np.clip(command, low, high)
    note("range", inside, command)
    return space.wrap(inside), cut
