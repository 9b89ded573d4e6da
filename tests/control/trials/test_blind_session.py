"""Two policies on one arm, judged by what the arm does, without a word of which one runs."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.loop import ControlLoop
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.observed import ObservedRobot
from act_policy.control.trials.film import FilmMaker
from act_policy.control.trials.report import write_report
from act_policy.control.trials.results import TrialResults
from act_policy.control.trials.session import Phase, TrialExecutor, TrialInput, TrialSession
from act_policy.control.trials.turns import BlindTurns
from act_policy.types import Observation
from tests.browser import headings, opened
from tests.control.loop_for_tests import RANGES, SCHEMA, Bench, LateInference, hold_still
from tests.control.trials.test_session import START, go_on

NAMES = ["lazy", "eager"]


class BlindTrials:
    """A session of two policies: one holds still, and the other moves the shoulder."""

    def __init__(self, folder: Path, states: int = 20):
        self.bench, self.folder = Bench(), folder
        (folder / "films").mkdir()
        self.film = FilmMaker(folder / "films")
        contract = Contract(SCHEMA, RANGES, self.bench.config)
        predictions: list[Callable[[Observation[np.ndarray]], np.ndarray]] = [hold_still, go_on]
        self.executor = TrialExecutor(
            [
                AsynchronousExecutor(
                    LateInference(self.bench.clock, predict), contract.space, self.bench.config
                )
                for predict in predictions
            ],
            hidden=["eager.onnx"],
        )
        self.operator = TrialInput(compares=True)
        robot = ObservedRobot(
            self.bench.arm, lambda reading: self.film.look(reading.images, reading.captured)
        )
        self.loop = ControlLoop(robot, contract, self.executor, self.bench.events)
        self.results = TrialResults({"policy": NAMES}, dict(START))
        self.turns = BlindTurns(self.results, NAMES, states, 0.05, 0.95)
        self.said: list[str] = []
        start = np.array([START["shoulder"], START["gripper"], 0.0])
        self.session = TrialSession(
            self.loop, self.executor, self.operator, self.results, self.film, self.turns, 1.0,
            folder, start, self.said.append,
        )  # fmt: skip

    def run_until(self, phase: Phase) -> None:
        for _ in range(200):
            if self.session.phase is phase:
                return
            self.tick()
        raise AssertionError(f"waited in {self.session.phase} for {phase}: {self.said[-3:]}")

    def tick(self) -> None:
        self.loop.tick(self.bench.clock.now, self.operator)
        self.session.after_tick(self.bench.clock.now)
        self.bench.clock.now += self.loop.period

    def key(self, character: str) -> None:
        self.operator.key(character)
        self.tick()

    def run_episode(self) -> bool:
        """Run to the judgement; return whether the shoulder moved."""
        self.run_until(Phase.RESET)
        before = self.bench.arm.joints["shoulder"]
        self.key("\n")
        self.run_until(Phase.JUDGE)
        return self.bench.arm.joints["shoulder"] > before + 0.2

    def judge(self) -> None:
        """Run an episode and judge it by what the arm did."""
        self.key("y" if self.run_episode() else "n")


@pytest.fixture
def trials(tmp_path: Path) -> BlindTrials:
    return BlindTrials(tmp_path)


def test_the_better_policy_is_found_blindly(trials: BlindTrials, tmp_path: Path) -> None:
    while not trials.operator.ended:
        trials.judge()
    trials.film.close()
    assert [episode.success for episode in trials.results.episodes] == [
        policy == 1 for policy in trials.results.played
    ]
    assert trials.said[-1].endswith("initial states: decided")
    shown = " ".join([*trials.said, *(f"{e.kind} {e.detail}" for e in trials.bench.events.events)])
    written = (tmp_path / "trials.json").read_text()
    assert not any(name in shown for name in NAMES)
    assert '"policy": "' not in written
    assert not any(name in path.name for name in NAMES for path in (tmp_path / "films").iterdir())

    write_report(tmp_path, trials.results)
    with opened(tmp_path / "report.html") as page:
        assert headings(page) == ["Success", "Episodes", "Made with"]
        assert "is shown once the trials are over" in page.inner_text("body")
        assert "eager, episode" not in page.inner_text("body")
    write_report(tmp_path, trials.results, trials.turns)
    with opened(tmp_path / "report.html") as page:
        assert headings(page)[:2] == ["Verdict", "How the difference developed"]
        text = page.inner_text("body")
        assert "eager is better than lazy" in text
        assert "eager, episode" in text
        assert page.locator("svg").count() == 1


def test_a_repeated_episode_leaves_its_partner_alone(trials: BlindTrials) -> None:
    trials.judge()
    trials.run_episode()
    trials.key("r")
    assert (len(trials.results.episodes), trials.results.discarded) == (1, 1)
    trials.judge()
    assert sorted(trials.results.played) == [0, 1]
    assert [episode.state for episode in trials.results.episodes] == [1, 1]


@pytest.mark.parametrize("phase", [Phase.RESET, Phase.RUN, Phase.JUDGE])
def test_a_lost_initial_state_takes_all_its_runs_with_it(
    phase: Phase, trials: BlindTrials, tmp_path: Path
) -> None:
    trials.judge()
    trials.run_until(Phase.RESET)
    if phase is not Phase.RESET:
        trials.key("\n")
        for _ in range(3):
            trials.tick()
    trials.run_until(phase)
    trials.key("b")
    trials.run_until(Phase.RESET)
    discarded = 1 if phase is Phase.RESET else 2
    assert (trials.results.episodes, trials.results.discarded) == ([], discarded)
    assert json.loads((tmp_path / "trials.json").read_text())["discarded"] == discarded
    trials.judge()
    assert trials.results.episodes[0].state == 1
    trials.film.close()
    assert [path.name for path in (tmp_path / "films").iterdir()] == ["episode_001.webp"]


def test_an_error_does_not_name_the_policy(trials: BlindTrials) -> None:
    def fail(now: float) -> None:
        raise PolicyError("the policy failed: eager.onnx is broken")

    trials.run_until(Phase.RESET)
    trials.key("\n")
    trials.tick()
    for executor in trials.executor._policies:
        executor.action = fail  # type: ignore[assignment,method-assign]
    trials.run_until(Phase.JUDGE)
    trials.key("n")
    assert trials.results.episodes[0].ended_by == "the policy failed: (hidden) is broken"
