"""What each dimension of the action is of the state: a target that it follows, or its change.

For every action a and every state x, two models are fitted over all steps t, after every short
delay of L steps, and judged on steps that they were not fitted to:

    level    x[t + L]          = (a[t] - offset) / scale
    change   x[t + L + 1] - x[t + L] = (a[t] - offset) / scale

The change is summed over a fifth of a second, which drowns the sensor's noise. A level is a target
(of a position, or of a velocity where the state is one), a change is a displacement or a velocity,
depending on the scale. Nothing is claimed unless one model explains the state and the other
does not. numpy only.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from act_policy.action_kinds import ShownKind, declared_kind, stem, unit_size
from act_policy.types import Schema

MOST_LAG_SECONDS = 0.5
"""A state follows its command within this time."""
WINDOW_SECONDS = 0.2
"""Changes are summed over this time: at 50 Hz a joint moves less in a step than its noise."""
CONVINCING, SURE = 0.8, 0.95
"""Least share of the variance that a claim explains, and one about the state of another name."""
CLEARLY = 0.4
"""The better model leaves less than this share of the variance that the other one leaves."""
NO_MATTER = 0.01
"""Shares of the variance below this are not compared: both models explain the state."""
OWN = 0.1
"""Another state is preferred to the one of the same name if it leaves less than this share of what
that one leaves: joints that move together explain each other, too."""
LEAST_STEPS = 20
"""Fewer steps of a smooth motion agree with almost anything."""
MOST_STEPS = 30_000
"""Of evenly spread episodes; more would not tell more."""
FOLDS = 4
NATURAL = 1.3
"""Factor by which a scale may be off and still be read as 1, or as the rate."""
LIKELY = 2.5
"""The same where nothing else is near: an arm may do less than it is told."""
TURN = 180 / np.pi
"""Degrees in a radian."""


class ActionRelation(NamedTuple):
    """How the state follows one dimension of the action.

    model: "level" or "change"; "" where the data cannot tell.
    state: index of the state dimension; -1 where none follows.
    scale: units of the action per unit of the state, or of its change in one step; negative where
        they run against each other.
    offset: the action at which the state is, or its change is, 0.
    lag: steps until the state follows; -1 where the action is the change before it.
    confidence: share of the variance of the state that is explained, 0 to 1.
    """

    model: Literal["level", "change", ""] = ""
    state: int = -1
    scale: float = np.nan
    offset: float = np.nan
    lag: int = 0
    confidence: float = 0.0


class _Fits(NamedTuple):
    """Best fit over all lags; arrays (models, a, s), the models being level and change."""

    unexplained: np.ndarray
    scale: np.ndarray
    offset: np.ndarray
    lag: np.ndarray


def find_relations(
    states: Sequence[np.ndarray],
    actions: Sequence[np.ndarray],
    rate: float,
    own: Sequence[int] | None = None,
) -> list[ActionRelation]:
    """Find out what each dimension of the action is of the state.

    Args:
        states: finite (T, s) per episode.
        actions: finite (T, a) per episode.
        rate: steps per second.
        own: for each action the state dimension of the same name, -1 where there is none; it is
            preferred to the others.
    """
    count = actions[0].shape[1] if actions else 0
    own = [-1] * count if own is None else own
    states, actions = _thin(states, actions)
    if not count or not states[0].shape[1] or sum(map(len, states)) < LEAST_STEPS:
        return [ActionRelation()] * count
    fits = _fit(states, actions, rate)
    return [_choose(fits, dimension, own[dimension], rate) for dimension in range(count)]


def own_states(schema: Schema) -> list[int]:
    """Return for each action the state dimension of the same joint, -1 where there is none.

    The names may differ in what they say of the kind: "x.vel" is of "x.pos". Names that the reader
    made up, state_0 and action_0, match by their numbers.
    """
    exact = {name: place for place, name in enumerate(schema.state_names)}
    stems = [stem(name.removeprefix("state_")) for name in schema.state_names]
    numbers = {name.removeprefix("state_"): place for name, place in exact.items()}
    found = []
    for name in schema.action_names:
        short = name.removeprefix("action_")
        place = exact.get(name, numbers.get(short, -1))
        if place < 0 and stem(short) and stems.count(stem(short)) == 1:
            place = stems.index(stem(short))
        found.append(place)
    return found


def shown_kinds(schema: Schema, relations: Sequence[ActionRelation]) -> tuple[ShownKind, ...]:
    """Put the relations into words, using what the schema says of the states."""
    return tuple(
        _shown(schema, unit, relation, relation.state == own)
        for unit, relation, own in zip(
            schema.action_units, relations, own_states(schema), strict=True
        )
    )


def _shown(schema: Schema, unit: str, relation: ActionRelation, is_own: bool) -> ShownKind:
    if relation.state < 0:
        return ""
    of_state = declared_kind(*schema.states[relation.state])
    sizes = unit_size(unit), unit_size(schema.state_units[relation.state])
    factor = sizes[0] / sizes[1] if sizes[0] and sizes[1] else None
    scale = abs(relation.scale) * (factor or 1.0)
    turns = (TURN, 1 / TURN) if factor is None else ()  # one of the two may be in degrees
    if relation.model == "level":
        # In a few demonstrations of one task a state of another name may go along with an action in
        # any proportion.
        same = any(1 / NATURAL < scale / unit < NATURAL for unit in (1.0, *turns))
        if not is_own and not same:
            return ""
        # Whether a state without a unit is a position or a velocity, its numbers do not say.
        words: dict[str, ShownKind] = {"velocity": "velocity", "displacement": "", "": "target"}
        return words.get(of_state, "position")
    if of_state in ("velocity", "displacement"):
        return ""  # an acceleration
    return _motion(scale, schema.rate, turns)


def _motion(scale: float, rate: float, turns: tuple[float, ...] = (TURN, 1 / TURN)) -> ShownKind:
    """Tell a displacement from a velocity by its scale, where that is possible.

    turns: other sizes that the action's unit may have in the state's.
    """
    kinds: dict[ShownKind, float] = {"displacement": 1.0, "velocity": rate}
    for factor, units in ((NATURAL, (1.0,)), (NATURAL, turns), (LIKELY, (1.0,))):
        near = {
            kind
            for kind, one in kinds.items()
            for unit in units
            if 1 / factor < scale / (one * unit) < factor
        }
        if near:
            return near.pop() if len(near) == 1 else "motion"
    return "motion"


def _choose(fits: _Fits, action: int, own: int, rate: float) -> ActionRelation:
    """Choose the state and the model of one action, or neither."""
    unexplained = np.maximum(fits.unexplained[:, action], NO_MATTER)  # (models, s)
    best = int(unexplained.min(axis=0).argmin())
    least = unexplained.min(axis=0)
    state = best
    if own >= 0 and (least[own] <= NO_MATTER or least[best] > OWN * least[own]):
        state = own
    needed = CONVINCING if state == own else SURE
    level, change = (float(u) for u in unexplained[:, state])
    if min(level, change) > 1 - needed:
        return ActionRelation()
    if min(level, change) <= CLEARLY * max(level, change):
        model = 0 if level < change else 1
    else:
        scales = np.abs(fits.scale[:, action, state])
        natural = (
            fits.scale[0, action, state] > 0 and 1 / NATURAL < scales[0] < NATURAL,
            _motion(float(scales[1]), rate) != "motion",
        )
        if natural[0] == natural[1]:
            return ActionRelation()
        model = 0 if natural[0] else 1
    place = (model, action, state)
    return ActionRelation(
        "change" if model else "level",
        state,
        float(fits.scale[place]),
        float(fits.offset[place]),
        int(fits.lag[place]),
        float(1 - fits.unexplained[place]),
    )


def _thin(
    states: Sequence[np.ndarray], actions: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Take evenly spread episodes of about MOST_STEPS in all."""
    every = max(1, sum(map(len, states)) // MOST_STEPS)
    return list(states[::every]), list(actions[::every])


def _fit(states: list[np.ndarray], actions: list[np.ndarray], rate: float) -> _Fits:
    """Fit both models at every lag and keep the best lag of each."""
    lengths = np.array([len(state) for state in states])
    last = np.repeat(np.cumsum(lengths) - 1, lengths)
    folds = _folds(lengths)
    state, action = _mended(np.concatenate(states)), _mended(np.concatenate(actions))
    middle = float(np.median(lengths))
    longest = max(0, min(round(MOST_LAG_SECONDS * rate), int(middle) // 4))
    window = int(np.clip(round(WINDOW_SECONDS * rate), 1, max(1, middle // 8)))
    sums = np.concatenate([np.zeros((1, action.shape[1])), action.cumsum(axis=0)])
    start = np.arange(len(state))

    def level(lag: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = start[start + lag <= last]
        return action[rows], state[rows + lag], folds[rows]

    def change(lag: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first = last - np.repeat(lengths, lengths) + 1
        rows = start[(start + max(lag, 0) + window <= last) & (start + lag >= first)]
        mean = (sums[rows + window] - sums[rows]) / window
        moved = (state[rows + lag + window] - state[rows + lag]) / window
        return mean, moved, folds[rows]

    models = []
    for model, lags in ((level, _spread(0, longest)), (change, _spread(-1, longest))):
        fits = [_fit_once(*model(lag)) for lag in lags]
        unexplained, scale, offset = (np.stack(part) for part in zip(*fits, strict=True))
        best = unexplained.argmin(axis=0)[None]
        picked = [np.take_along_axis(part, best, 0)[0] for part in (unexplained, scale, offset)]
        models.append((*picked, np.array(list(lags))[best[0]]))
    return _Fits(*(np.stack(part) for part in zip(*models, strict=True)))


def _spread(first: int, last: int) -> list[int]:
    """Whole numbers between two, closer to each other where they are small."""
    grid = np.unique(np.round(np.geomspace(1, last - first + 1, 12))).astype(int)
    return [int(first + step - 1) for step in grid]


def _folds(lengths: np.ndarray) -> np.ndarray:
    """Int (steps,): the part of the data that each step belongs to, whole episodes if possible."""
    if len(lengths) >= FOLDS:
        return np.repeat(np.arange(len(lengths)) % FOLDS, lengths)
    return np.concatenate([np.arange(n) * FOLDS // n for n in lengths])


def _mended(values: np.ndarray) -> np.ndarray:
    """float64; a value far outside the usual range repeats the one before it, or after it.

    A single broken one would outweigh all others.
    """
    values = values.astype(np.float64)
    share = min(0.1, max(0.005, 3 / len(values)))
    low, high = np.quantile(values, [share, 1 - share], axis=0)
    room = np.where(high > low, 2 * (high - low), np.inf)  # what hardly ever moves may do so
    good = (values >= low - room) & (values <= high + room)
    before = np.maximum.accumulate(np.where(good, np.arange(len(values))[:, None], -1), axis=0)
    before = np.where(before < 0, good.argmax(axis=0), before)
    return np.asarray(np.take_along_axis(values, before, axis=0))


def _fit_once(
    action: np.ndarray, state: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit every action to every state, (a, s): unexplained variance, scale and offset.

    Unexplained is measured on the part that was left out of the fit, in shares of the variance of
    all; 1 where one of the two does not vary.
    """
    shape = action.shape[1], state.shape[1]
    if len(action) < LEAST_STEPS // 2:
        return np.ones(shape), np.full(shape, np.nan), np.full(shape, np.nan)
    about = action.mean(axis=0), state.mean(axis=0)
    action, state = action - about[0], state - about[1]
    parts = [
        _moments(action[inside], state[inside])
        for fold in range(FOLDS)
        for inside in [folds == fold]
    ]
    total = _sum(parts)
    varies = _varies(total.aa, action)[:, None] & _varies(total.xx, state)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = sum(
            _error(_line(_sum([p for p in parts if p is not part])), part) for part in parts
        )
        spread = total.xx - total.x**2 / total.n
        unexplained = np.where(varies, error / spread, 1.0)
        slope, intercept = _line(total)
        scale = 1 / slope
        offset = about[0][:, None] - (about[1][None] + intercept) * scale
    unexplained = np.where(np.isfinite(unexplained), np.clip(unexplained, 0.0, 1.0), 1.0)
    return unexplained, scale, offset


class _Moments(NamedTuple):
    """Sums over n steps: a (a,), x (s,), aa (a,), xx (s,), ax (a, s)."""

    n: float
    a: np.ndarray
    x: np.ndarray
    aa: np.ndarray
    xx: np.ndarray
    ax: np.ndarray


def _moments(action: np.ndarray, state: np.ndarray) -> _Moments:
    return _Moments(
        len(action),
        action.sum(axis=0),
        state.sum(axis=0),
        (action**2).sum(axis=0),
        (state**2).sum(axis=0),
        action.T @ state,
    )


def _sum(parts: Sequence[_Moments]) -> _Moments:
    return _Moments(*(sum(values[1:], values[0]) for values in zip(*parts, strict=True)))


def _line(m: _Moments) -> tuple[np.ndarray, np.ndarray]:
    """Slope and intercept (a, s) of the state over the action."""
    slope = (m.ax - m.a[:, None] * m.x / m.n) / (m.aa - m.a**2 / m.n)[:, None]
    return slope, (m.x - slope * m.a[:, None]) / m.n


def _error(line: tuple[np.ndarray, np.ndarray], m: _Moments) -> np.ndarray:
    """Sum of squares (a, s) that a line leaves of some steps."""
    slope, intercept = line
    a, aa = m.a[:, None], m.aa[:, None]
    return np.asarray(
        m.xx
        - 2 * slope * m.ax
        - 2 * intercept * m.x
        + slope**2 * aa
        + 2 * slope * intercept * a
        + m.n * intercept**2
    )


def _varies(squares: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Bool (dimensions,): whether centred values differ by more than rounding."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    varies: np.ndarray = np.sqrt(squares / len(values)) > 1e-9 + 1e-6 * largest
    return varies
