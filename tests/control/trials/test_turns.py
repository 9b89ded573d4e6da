"""Turns of several policies: pairs stay whole, chance decides who begins, nothing gives it away."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from act_policy import UserError
from act_policy.control.trials.results import HIDDEN, TrialEpisode, TrialResults, read_or_begin
from act_policy.control.trials.turns import BlindTurns

NAMES = ["careful", "bold"]
SUBJECT = {"policy": [{"path": "careful.onnx"}, {"path": "bold.onnx"}], "seconds": 1.0}


def make(states: int = 20, results: TrialResults | None = None, names: Any = NAMES) -> BlindTurns:
    return BlindTurns(results or TrialResults(dict(SUBJECT)), names, states, 0.05, 0.95)


def play(turns: BlindTurns, results: TrialResults, success: bool) -> None:
    """One episode, of whoever is chosen."""
    turns.choose()
    turns.keep(TrialEpisode(len(results.episodes) + 1, success, 1.0, "the time", state=turns.state))


def test_each_runs_once_from_each_state_and_chance_decides_who_begins() -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(200, results)
    while not turns.finished and len(results.episodes) < 60:
        play(turns, results, success=False)
    states = [episode.state for episode in results.episodes]
    assert states == [i // 2 + 1 for i in range(60)]
    first, second = results.played[::2], results.played[1::2]
    assert all({a, b} == {0, 1} for a, b in zip(first, second, strict=True))
    assert 3 <= Counter(first)[0] <= 27  # else once in 100 million runs


def test_it_ends_when_it_is_decided_and_names_the_better() -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(50, results)
    while not turns.finished:
        turns.choose()
        turns.keep(TrialEpisode(1, turns.policy == 1, 1.0, "", state=turns.state))
    assert len(results.episodes) < 20
    compared = turns.compare()
    assert compared["decided"]
    [verdict] = compared["verdicts"]
    assert (verdict["a"], verdict["b"], verdict["verdict"]) == ("careful", "bold", "b_better")
    rates = {one["name"]: (one["success_rate"], one["letters"]) for one in compared["policies"]}
    assert rates == {"careful": (0.0, "b"), "bold": (1.0, "a")}
    assert turns.describe_standing().endswith("decided")


def test_the_last_state_ends_it_undecided() -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(3, results)
    while not turns.finished:
        play(turns, results, success=True)
    assert len(results.episodes) == 6
    assert not turns.compare()["decided"]
    assert turns.compare()["verdicts"][0]["further_pairs"] > 0


def test_a_discarded_state_takes_both_runs_with_it() -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(20, results)
    for _ in range(3):
        play(turns, results, success=True)
    assert turns.state == 2
    turns.choose()
    [dropped] = turns.drop_state()
    assert dropped.episode == 3
    assert (len(results.episodes), len(results.played), results.discarded) == (2, 2, 1)
    turns.choose()
    assert turns.state == 2
    assert turns.drop_state() == []  # nothing has run from it


@pytest.mark.slow
def test_three_policies_run_from_each_state_until_their_pairs_are_decided() -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(40, results, ["bad", "good", "also good"])
    while not turns.finished:
        turns.choose()
        turns.keep(TrialEpisode(1, turns.policy > 0, 1.0, "", state=turns.state))
    counts = Counter(results.played)
    assert counts[0] < 15
    assert counts[1] == counts[2] == 40
    for state in range(1, counts[0] + 1):
        ran = [p for p, e in zip(results.played, results.episodes, strict=True) if e.state == state]
        assert sorted(ran) == [0, 1, 2]


def test_the_file_hides_who_ran_until_the_end_and_is_continued(tmp_path: Path) -> None:
    results = TrialResults(dict(SUBJECT))
    turns = make(2, results)
    for _ in range(3):
        play(turns, results, success=True)
    results.write(tmp_path)
    plain = json.loads((tmp_path / "trials.json").read_text())
    assert all(set(episode) & {"policy", "played"} == set() for episode in plain["episodes"])
    again = read_or_begin(tmp_path, SUBJECT)
    assert again == results
    turns = make(2, again)
    play(turns, again, success=False)
    assert again.played[2:] in ([0, 1], [1, 0])
    assert turns.finished
    again.write(tmp_path, turns.compare())
    plain = json.loads((tmp_path / "trials.json").read_text())
    told = [episode["policy"] for episode in plain["episodes"]]
    assert told == [NAMES[policy] for policy in again.played]
    assert plain["policy"] == SUBJECT["policy"]
    assert read_or_begin(tmp_path, SUBJECT) == again


@pytest.mark.parametrize("hidden", [None, "bm8=", "WzAsIDFd"])
def test_a_file_that_does_not_say_who_ran_is_refused(hidden: str | None, tmp_path: Path) -> None:
    results = TrialResults(dict(SUBJECT))
    play(make(2, results), results, success=True)
    results.write(tmp_path)
    plain = json.loads((tmp_path / "trials.json").read_text())
    if hidden is None:
        del plain[HIDDEN]
    else:
        plain[HIDDEN] = hidden
    (tmp_path / "trials.json").write_text(json.dumps(plain))
    with pytest.raises(UserError, match="cannot be read as trials"):
        read_or_begin(tmp_path, SUBJECT)
