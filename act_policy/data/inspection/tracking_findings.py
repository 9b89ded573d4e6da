"""Findings from how the state follows the action, with thresholds and their reasons."""

from collections.abc import Iterator

import numpy as np

from act_policy.action_kinds import (
    DeclaredKind,
    ShownKind,
    contradicts,
    declared_kind,
    unit_size,
)
from act_policy.data.action_relations import MOST_LAG_SECONDS, TURN, ActionRelation
from act_policy.data.inspection.evidence import Evidence, Pair
from act_policy.data.inspection.finding import Finding, Kind, Verdict

EQUAL_SHARE = 0.01
"""Action and state are equal when they differ by less than this share of the motion in a step."""
OFFSET_SHARE, OFFSET_DEVIATIONS = 0.03, 3.0
"""An offset counts above this share of the joint's reach (a loaded arm sags by 1 to 2 degrees of
90), above this many deviations of the difference (it is there throughout, not now and then) and
above the normaliser's floor (a joint that hardly moves)."""
SCALE_FACTOR = 1.5
"""A scale counts above this factor: a gripper that holds something stays behind its target."""
LONG_LAG_SECONDS, LAG_MATTERS = 0.3, 0.7
"""A state is late from this time on: arms follow within 0.1 to 0.2 s. It must matter: half of the
lag leaves a difference whose deviation is larger, this is the largest share left of it."""
END_SHARE = 0.8
"""A dimension that is this often at one of two values only opens and closes something: its sign
and its scale are a convention."""


def contradicted(evidence: Evidence) -> Iterator[Finding]:
    """Report actions that are not what the file says; training on them would be in vain."""
    schema = evidence.dataset.schema
    groups: dict[tuple[DeclaredKind, ShownKind], list[str]] = {}
    for (name, unit), shown in zip(schema.actions, evidence.shown, strict=True):
        declared = declared_kind(name, unit)
        if contradicts(declared, shown):
            groups.setdefault((declared, shown), []).append(f"{name} ({unit})" if unit else name)
    for (declared, shown), names in groups.items():
        detail = {"dimensions": names, "declared": declared, "shown": shown}
        yield Finding(Verdict.ERROR, Kind.CONTRADICTED, detail=detail)


def movements(evidence: Evidence) -> Iterator[Finding]:
    """Report actions that move the state by an amount, where the file does not say so."""
    schema = evidence.dataset.schema
    groups: dict[str, list[str]] = {}
    for (name, unit), shown in zip(schema.actions, evidence.shown, strict=True):
        if shown in ("displacement", "velocity", "motion") and not declared_kind(name, unit):
            groups.setdefault(shown, []).append(name)
    for movement, names in groups.items():
        detail = {"dimensions": names, "shown": movement}
        yield Finding(Verdict.WARNING, Kind.MOVEMENTS, detail=detail)


def inverted(evidence: Evidence) -> Iterator[Finding]:
    """Report actions that rise while the state falls."""
    names = evidence.dataset.schema.action_names
    against = [names[i] for i, relation in _tracked(evidence) if relation.scale < 0]
    if against:
        yield Finding(Verdict.WARNING, Kind.INVERTED, detail={"dimensions": against})


def exchanged(evidence: Evidence) -> Iterator[Finding]:
    """Report actions that the state of another joint follows, and that of their own does not."""
    schema = evidence.dataset.schema
    followed = {
        name: schema.state_names[relation.state]
        for name, own, relation in zip(
            schema.action_names, evidence.own, evidence.relations, strict=True
        )
        if own >= 0 and relation.state not in (-1, own)
    }
    if followed:
        yield Finding(Verdict.WARNING, Kind.EXCHANGED, detail={"followed_by": followed})


def scaled(evidence: Evidence) -> Iterator[Finding]:
    """Report targets that are a multiple of the state, such as degrees of radians."""
    schema = evidence.dataset.schema
    for i, relation in _tracked(evidence):
        if relation.model != "level":
            continue
        sizes = unit_size(schema.action_units[i]), unit_size(schema.state_units[relation.state])
        scale = abs(relation.scale) * (sizes[0] / sizes[1] if sizes[0] and sizes[1] else 1.0)
        if not 1 / SCALE_FACTOR < scale < SCALE_FACTOR:
            turns = [turn for turn in (TURN, 1 / TURN) if 0.9 < scale / turn < 1.1]
            detail = {"scale": scale, "degrees": bool(turns)}
            yield Finding(Verdict.WARNING, Kind.SCALE, schema.action_names[i], detail)


def _tracked(evidence: Evidence) -> Iterator[tuple[int, ActionRelation]]:
    """Actions that a state of their own follows, but for those that only open and close."""
    every = np.concatenate(evidence.actions)
    low, reach = every.min(axis=0), np.ptp(every, axis=0)
    ends = (np.abs(every - low) < 0.02 * reach) | (np.abs(every - low - reach) < 0.02 * reach)
    switches = ends.mean(axis=0) > END_SHARE
    for i, relation in enumerate(evidence.relations):
        if relation.state >= 0 and relation.state == evidence.own[i] and not switches[i]:
            yield i, relation


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


def lagging(evidence: Evidence) -> Iterator[Finding]:
    """Report joints that are where they should be only long after they were told."""
    late: dict[str, tuple[int, float]] = {}
    for pair in evidence.pairs:
        lag = evidence.relations[pair.action].lag
        if not follows(evidence, pair) or lag < LONG_LAG_SECONDS * evidence.rate:
            continue
        position, target = _of_pair(evidence, pair)
        here, sooner = (_apart(position, target, steps).std() for steps in (lag, lag // 2))
        if here <= LAG_MATTERS * sooner:
            late[pair.name] = lag, lag / evidence.rate
    if late:
        yield Finding(Verdict.WARNING, Kind.LONG_LAG, detail={"lags": late})


def _of_pair(evidence: Evidence, pair: Pair) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Position and target of a joint, (T,) per episode."""
    return (
        [state[:, pair.state] for state in evidence.states],
        [action[:, pair.action] for action in evidence.actions],
    )


def follows(evidence: Evidence, pair: Pair) -> bool:
    """Whether the action is a target that the state follows, in the same unit."""
    relation = evidence.relations[pair.action]
    alike = 1 / SCALE_FACTOR < relation.scale < SCALE_FACTOR
    return relation.model == "level" and relation.state == pair.state and alike


def _lag(evidence: Evidence, position: list[np.ndarray], target: list[np.ndarray]) -> int:
    """Steps after which the state agrees best with the action, apart from an offset."""
    shortest = min(map(len, position))
    lags = range(min(round(MOST_LAG_SECONDS * evidence.rate), shortest - 1) + 1)
    return min(lags, key=lambda lag: _apart(position, target, lag).std())


def _apart(position: list[np.ndarray], target: list[np.ndarray], lag: int) -> np.ndarray:
    pairs = zip(position, target, strict=True)
    return np.concatenate([t[: len(t) - lag] - p[lag:] for p, t in pairs])
