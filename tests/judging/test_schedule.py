"""Turns of several policies, and verdicts that do not depend on who finishes first."""

import numpy as np
import pytest

from act_policy.judging.schedule import Schedule, Turn
from act_policy.judging.verdict import Verdict, judge

STATES = 120


def draw(rates: tuple[float, ...]) -> np.ndarray:
    return np.random.default_rng(5).random((len(rates), STATES)) < np.array(rates)[:, None]


def play(schedule: Schedule, outcomes: np.ndarray, workers: int) -> list[Turn]:
    """Give turns to workers; failures take four times as long as successes."""
    played, running, clock = [], [], 0
    while True:
        while len(running) < workers and (turn := schedule.next_turn()) is not None:
            running.append((clock + (1 if outcomes[turn] else 4), len(played), turn))
            played.append(turn)
        if not running:
            return played
        running.sort()
        clock, _, turn = running.pop(0)
        schedule.record(turn, bool(outcomes[turn]))


def test_policies_take_turns_at_the_same_initial_states() -> None:
    schedule = Schedule(3, 2, 0.05, 0.95)
    assert [schedule.next_turn() for _ in range(7)] == [
        Turn(0, 0), Turn(1, 0), Turn(2, 0), Turn(0, 1), Turn(1, 1), Turn(2, 1), None,
    ]  # fmt: skip


@pytest.mark.parametrize("rates", [(0.3, 0.8), (0.9, 0.9), (0.2, 0.5, 0.9)])
def test_the_verdicts_do_not_depend_on_the_number_of_workers(rates: tuple[float, ...]) -> None:
    outcomes = draw(rates)
    judged = []
    for workers in (1, 3, 10):
        schedule = Schedule(len(rates), STATES, 0.05, 0.95)
        play(schedule, outcomes, workers)
        judged.append((schedule.judged, [schedule.states_used(i) for i in range(len(rates))]))
    assert judged[0] == judged[1] == judged[2]


def test_it_stops_at_the_verdict_of_the_pairs_in_their_order() -> None:
    outcomes = draw((0.3, 0.8))
    schedule = Schedule(2, STATES, 0.05, 0.95)
    played = play(schedule, outcomes, 1)
    assert schedule.is_decided
    assert schedule.judged[0, 1] == judge(*outcomes)
    assert len(played) == 2 * schedule.judged[0, 1].pairs < 2 * STATES
    assert schedule.states_used(0) == schedule.states_used(1) == len(played) // 2


def test_what_is_finished_early_waits_for_what_was_begun_before() -> None:
    schedule = Schedule(2, 50, 0.05, 0.95)
    for state in range(1, 50):
        schedule.record(Turn(0, state), False)
        schedule.record(Turn(1, state), True)
    assert schedule.judged[0, 1].pairs == 0
    schedule.record(Turn(0, 0), False)
    schedule.record(Turn(1, 0), True)
    assert schedule.judged[0, 1].verdict is Verdict.B_BETTER


def test_a_policy_whose_pairs_are_decided_plays_no_longer() -> None:
    outcomes = draw((0.0, 0.7, 0.8))
    schedule = Schedule(3, STATES, 0.0, 0.95)
    played = play(schedule, outcomes, 1)
    counts = np.bincount([turn.policy for turn in played])
    assert counts[0] < 30
    assert counts[1] == counts[2] == STATES
    assert not schedule.is_decided
    assert schedule.judged[0, 1].verdict is schedule.judged[0, 2].verdict is Verdict.B_BETTER


def test_a_continued_comparison_runs_nothing_twice() -> None:
    outcomes = draw((0.9, 0.9))
    first = Schedule(2, 10, 0.0, 0.95)
    played = play(first, outcomes, 3)
    second = Schedule(2, 25, 0.0, 0.95)
    for turn in played:
        second.record(turn, bool(outcomes[turn]))
    rest = play(second, outcomes, 3)
    assert len(rest) == 30
    assert not set(rest) & set(played)
    whole = Schedule(2, 25, 0.0, 0.95)
    play(whole, outcomes, 1)
    assert second.judged == whole.judged
