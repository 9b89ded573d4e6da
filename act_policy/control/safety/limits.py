"""The last thing between a command and a motor: position, speed and step limits."""

import numpy as np

from act_policy.control.action_space import ActionSpace


def limit_command(
    space: ActionSpace,
    wanted: np.ndarray,
    last: np.ndarray,
    position: np.ndarray,
    seconds: float,
) -> tuple[np.ndarray, dict[str, str]]:
    """Bring a command within every limit.

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

    # An arm outside its range may rest there or come back slowly: clipping would pull it in.
    low, high = np.fmin(space.low, last), np.fmax(space.high, last)
    reachable = (wanted >= low) & (wanted <= high)
    command = np.where(reachable, wanted, np.clip(wanted, space.low, space.high))
    note("range", command, wanted)

    # Speed has the last word of the two: a measured position may leap, a command must not follow.
    for kind, origin, most in (
        ("step", position, space.max_step),
        ("speed", last, space.max_speed * seconds),
    ):
        known = np.isfinite(origin)
        start = np.where(known, origin, command)
        change = space.difference(command, start)
        far = np.abs(change) > most
        limited = np.where(far, start + np.clip(change, -most, most), command)
        note(kind, limited, command)
        command = limited

    # After such a leap, and the short way round an angle, the way may lead out of the range.
    turned = np.isfinite(space.period) & np.isfinite(last)
    command = np.where(turned, last + space.difference(command, last), command)
    inside = np.clip(command, low, high)
    note("range", inside, command)
    return space.wrap(inside), cut
