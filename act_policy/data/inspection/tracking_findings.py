"""Findings from how the state follows the action, with thresholds and their reasons."""

from collections.abc import Iterator

import numpy as np

from act_policy.data.inspection.evidence import Evidence, Pair
from act_policy.data.inspection.finding import Finding, Kind, Verdict

EQUAL_SHARE = 0.01
"""Action and state are equal when they differ by less than this share of the motion in a step."""
OFFSET_SHARE, OFFSET_DEVIATIONS = 0.03, 3.0
"""An offset counts above this share of the joint's reach (a loaded arm sags by 1 to 2 degrees of
90), above this many deviations of the difference (it is there throughout, not now and then) and
above the normaliser's floor (a joint that hardly moves)."""
FOLLOWS = 0.9
"""Correlation with the state above which an action is a target, not a velocity or a difference."""
MOST_LAG_SECONDS = 0.5
"""A state follows its target within this time."""


def equal(evidence: Evidence) -> Iterator[Finding]:
    """Report actions that say where the joint is, not where it should go."""
    same = []
    for pair in evidence.pairs:
        position, target = _of_pair(evidence, pair)
        motion = np.concatenate([np.abs(np.diff(p)) for p in position])
        apart = np.abs(np.concatenate(target) - np.concatenate(position))
        if motion.any() and apart.mean() < EQUAL_SHARE * motion.mean():
            same.append(pair.name)
    if same:
        yield Finding(Verdict.WARNING, Kind.ACTION_IS_STATE, detail={"dimensions": same})


def offset(evidence: Evidence) -> Iterator[Finding]:
    """Report a joint whose state stays apart from its target, however long it has had to follow."""
    for pair in evidence.pairs:
        if not follows(evidence, pair):
            continue
        position, target = _of_pair(evidence, pair)
        apart = _apart(position, target, _lag(evidence, position, target))
        middle = float(np.median(apart))
        deviation = 1.4826 * float(np.median(np.abs(apart - middle)))  # outliers do not count
        reach = np.ptp(np.concatenate(position))
        least = evidence.config.std_floor
        if abs(middle) > max(OFFSET_DEVIATIONS * deviation, OFFSET_SHARE * reach, least):
            detail = {"offset": middle, "deviation": deviation, "unit": pair.unit}
            yield Finding(Verdict.WARNING, Kind.OFFSET, pair.name, detail)


def _of_pair(evidence: Evidence, pair: Pair) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Position and target of a joint, (T,) per episode."""
    return (
        [state[:, pair.state] for state in evidence.states],
        [action[:, pair.action] for action in evidence.actions],
    )


def follows(evidence: Evidence, pair: Pair) -> bool:
    """Whether the action is a position that the state follows."""
    position, target = (np.concatenate(every) for every in _of_pair(evidence, pair))
    if np.ptp(position) == 0 or np.ptp(target) == 0:
        return False
    return bool(np.corrcoef(position, target)[0, 1] > FOLLOWS)


def _lag(evidence: Evidence, position: list[np.ndarray], target: list[np.ndarray]) -> int:
    """Steps after which the state agrees best with the action, apart from an offset."""
    shortest = min(map(len, position))
    lags = range(min(round(MOST_LAG_SECONDS * evidence.rate), shortest - 1) + 1)
    return min(lags, key=lambda lag: _apart(position, target, lag).std())


def _apart(position: list[np.ndarray], target: list[np.ndarray], lag: int) -> np.ndarray:
    pairs = zip(position, target, strict=True)
    return np.concatenate([t[: len(t) - lag] - p[lag:] for p, t in pairs])
