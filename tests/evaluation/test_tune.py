"""Candidates race, and the winner becomes the policy's default."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.checkpoints.execution_file import EXECUTION_FILE, read_run_execution
from act_policy.evaluation.rollouts.contest import Contestant
from act_policy.evaluation.tune import TuningConfig, list_candidates, tune
from act_policy.execution import Execution
from tests.evaluation.evaluation_for_tests import STEP_LIMIT, SeeingPolicy, build

CONFIG = TuningConfig(seed=10_000, episodes=60, max_steps=STEP_LIMIT)


class ForgetfulPolicy(SeeingPolicy):
    """Only the first two actions of its chunks lead to the target; the others lead back."""

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        chunk = super().predict_chunk(observation)
        chunk[2:] = -0.05
        return chunk


def load(contestant: Contestant) -> SeeingPolicy:
    policy = (SeeingPolicy if contestant.checkpoint.read_text() == "steady" else ForgetfulPolicy)()
    policy.execution = read_run_execution(contestant.checkpoint) or Execution()
    return policy


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "best.ckpt").write_text("forgetful")
    return tmp_path / "run"


def race(run: Path, **changes: Any) -> dict[str, Any]:
    contestant = Contestant("", run / "checkpoints" / "best.ckpt")
    options = {"workers": 1, "films": 0, "load": load, "build": build, **changes}
    return tune(contestant, run / "tuning", CONFIG, ensemble_coefficients=[], **options)


def test_the_winner_and_the_reason_are_kept_in_the_run(run: Path) -> None:
    report = race(run)
    names = [policy["name"] for policy in report["policies"]]
    assert names == ["execute_steps=4", "execute_steps=2", "execute_steps=1"]
    assert report["left"] == ["execute_steps=2", "execute_steps=1"]
    whole, two, one = (len(policy["episodes"]) for policy in report["policies"])
    assert whole < two == one
    kept = Execution.from_dict(json.loads((run / EXECUTION_FILE).read_text()))
    assert kept == Execution.from_dict(report["chosen"])
    assert (kept.execute_steps, kept.ensemble_coefficient) == (2, None)  # asks less often than 1
    assert "worse: execute_steps=4" in kept.reason
    assert "not told apart from execute_steps=1, chosen because it asks" in kept.reason
    assert load(Contestant("", run / "checkpoints" / "best.ckpt")).execution == kept
    pairs = {(verdict["a"], verdict["b"]) for verdict in report["verdicts"]}
    assert pairs == {(names[0], names[1]), (names[1], names[2])}
    assert json.loads((run / "tuning" / "tuning.json").read_text())["chosen"] == report["chosen"]
    page = (run / "tuning" / "report.html").read_text()
    assert "execute_steps=2 is the default now" in page


def test_a_race_goes_on_where_it_was(run: Path) -> None:
    first = race(run)
    played = sorted((run / "tuning" / "episodes").iterdir())
    times = [path.stat().st_mtime_ns for path in played]
    again = race(run)  # the default is one of the candidates now
    assert again["chosen"] == first["chosen"]
    assert [path.stat().st_mtime_ns for path in played] == times


def test_a_policy_that_cannot_keep_it_is_only_reported_on(run: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_text("steady")
    contestant = Contestant("", tmp_path / "policy.onnx")
    report = tune(
        contestant, tmp_path / "out", CONFIG, [4], [0.0], workers=1, films=0, load=load,
        build=build,
    )  # fmt: skip
    assert report["kept_in"] is None
    assert [one["name"] for one in report["policies"]][1] == "ensemble_coefficient=0"


@pytest.mark.parametrize(
    ("length", "own", "steps", "coefficients", "expected"),
    [
        (32, Execution(), None, [], [32, 16, 8, 4, 2]),
        (100, Execution(10), None, [], [100, 50, 25, 12, 10, 6]),
        (4, Execution(), None, [0.1, 0.01], [4, 2, 1, "0.01", "0.1"]),
        (4, Execution(None, 0.0), [1], [], [1, "0"]),
        (8, Execution(2, reason="tuned"), [2, 4], [], [4, 2]),
    ],
)
def test_candidates_come_from_the_chunk_and_the_present_default(
    length: int, own: Execution, steps: Any, coefficients: Any, expected: list[Any]
) -> None:
    found = list_candidates(length, own, steps, coefficients)
    assert [one.execute_steps or f"{one.ensemble_coefficient:g}" for one in found] == expected
    assert not any(one.reason for one in found)


def test_one_candidate_is_no_race() -> None:
    with pytest.raises(UserError, match="one candidate"):
        list_candidates(4, Execution(4), [4], [])


@pytest.mark.parametrize("seed", [950, 1000, 1150])
def test_the_seeds_of_evaluations_are_refused(seed: int) -> None:
    with pytest.raises(UserError, match="evaluations use 1000 to 1199"):
        TuningConfig(seed=seed)
