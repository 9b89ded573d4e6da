"""A race drops the policies that are beaten, whoever finishes first, and keeps the best."""

import numpy as np
import pytest

from act_policy.judging.race import Race
from act_policy.judging.schedule import Turn
from act_policy.judging.verdict import Verdict
from tests.judging.test_schedule import play

STATES = 200


def draw(rates: tuple[float, ...], seed: int = 5, states: int = STATES) -> np.ndarray:
    return np.random.default_rng(seed).random((len(rates), states)) < np.array(rates)[:, None]


def start(policies: int, states: int = STATES, margin: float = 0.05) -> Race:
    return Race(policies, states, margin, 0.95)


def test_the_beaten_drop_out_and_the_best_is_left() -> None:
    race = start(4)
    played = play(race, draw((0.2, 0.5, 0.95, 0.4)), 1)
    assert race.left == [2]
    assert race.is_decided
    counts = np.bincount([turn.policy for turn in played])
    assert counts.tolist() == [race.states_used(i) for i in range(4)]
    assert counts[0] < counts[1] <= counts[2] < STATES
    assert race.judged[0, 2].verdict is Verdict.B_BETTER
    assert race.judged[0, 2].pairs == race.states_used(0)


@pytest.mark.parametrize(
    "rates", [(0.3, 0.8, 0.6), pytest.param((0.9, 0.9, 0.9, 0.2), marks=pytest.mark.slow)]
)
def test_the_result_does_not_depend_on_the_number_of_workers(rates: tuple[float, ...]) -> None:
    outcomes = draw(rates)
    results = []
    for workers in (1, 3, 10):
        race = start(len(rates))
        play(race, outcomes, workers)
        used = [race.states_used(i) for i in range(len(rates))]
        results.append((race.left, race.judged, used))
    assert results[0] == results[1] == results[2]


def test_those_that_always_end_alike_end_the_race_together() -> None:
    race = start(3)
    outcomes = np.repeat(draw((0.9,)), 3, axis=0)
    played = play(race, outcomes, 1)
    assert race.left == [0, 1, 2]
    assert race.is_decided
    assert len(played) < 3 * STATES


def test_the_last_state_ends_the_race_undecided() -> None:
    race = start(2, states=5)
    played = play(race, draw((0.4, 0.6), states=5), 1)
    assert len(played) == 10
    assert (race.left, race.is_decided) == ([0, 1], False)


def test_a_continued_race_runs_nothing_twice() -> None:
    outcomes = draw((0.2, 0.5, 0.95))
    whole, continued = start(3), start(3)
    played = play(whole, outcomes, 1)
    for turn in played[:40]:
        continued.record(turn, bool(outcomes[turn]))
    assert play(continued, outcomes, 1) == played[40:]
    assert continued.left == whole.left


def test_episodes_of_those_that_had_dropped_out_do_not_count() -> None:
    """A worker may still have been busy with one, or an earlier run had more."""
    outcomes = draw((0.1, 0.9))
    race = start(2)
    for state in range(STATES):
        for policy in (0, 1):
            race.record(Turn(policy, state), bool(outcomes[policy, state]))
    assert race.left == [1]
    assert race.states_used(0) == race.states_used(1) < 30


@pytest.mark.slow
def test_the_best_is_dropped_in_at_most_one_race_of_twenty() -> None:
    races = 100
    lost = 0
    for seed in range(races):
        race = start(4, states=150, margin=0.0)
        play(race, draw((0.5, 0.5, 0.5, 0.55), seed, 150), 1)
        lost += 3 not in race.left
    assert lost <= 0.05 * races + 3 * np.sqrt(0.05 * 0.95 * races)
