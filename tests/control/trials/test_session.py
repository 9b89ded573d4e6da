"""Trials tick by tick: the phases, what the arm does in each, and what is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.chunks.asynchronous import AsynchronousExecutor
from act_policy.control.loop import ControlLoop
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.observed import ObservedRobot
from act_policy.control.trials.film import FilmMaker
from act_policy.control.trials.report import write_report
from act_policy.control.trials.results import TrialEpisode, TrialResults, read_or_begin
from act_policy.control.trials.session import Phase, TrialExecutor, TrialInput, TrialSession
from act_policy.control.trials.turns import Turns
from act_policy.types import Observation
from tests.browser import headings, image_widths, opened
from tests.control.loop_for_tests import CHUNK_LENGTH, RANGES, SCHEMA, Bench

START = {"shoulder": 0.2, "gripper": 0.5}
SUBJECT = {"policy": {"path": "p.onnx"}, "seconds": 1.0}


def go_on(observation: Observation[np.ndarray]) -> np.ndarray:
    """The shoulder goes 0.05 a step further than it is; the base drives."""
    rows = np.tile([*observation.state, 0.1], (CHUNK_LENGTH, 1))
    rows[:, 0] += 0.05 * np.arange(1, CHUNK_LENGTH + 1)
    return rows


class Trials:
    """A session on the bench's arm."""

    def __init__(self, folder: Path, episodes: int = 2, results: TrialResults | None = None):
        self.bench = Bench(go_on)
        (folder / "films").mkdir(exist_ok=True)
        self.film = FilmMaker(folder / "films")
        contract = Contract(SCHEMA, RANGES, self.bench.config)
        policy = AsynchronousExecutor(self.bench.inference, contract.space, self.bench.config)
        executor, self.operator = TrialExecutor([policy]), TrialInput()
        robot = ObservedRobot(
            self.bench.arm, lambda reading: self.film.look(reading.images, reading.captured)
        )
        self.loop = ControlLoop(robot, contract, executor, self.bench.events)
        self.results = results or TrialResults(dict(SUBJECT), dict(START))
        self.said: list[str] = []
        start = np.array([START["shoulder"], START["gripper"], 0.0])
        self.session = TrialSession(
            self.loop, executor, self.operator, self.results, self.film,
            Turns(self.results, episodes), 1.0, folder, start, self.said.append,
        )  # fmt: skip

    def run(self, ticks: int) -> list[dict[str, float]]:
        before = len(self.bench.arm.sent)
        for _ in range(ticks):
            self.loop.tick(self.bench.clock.now, self.operator)
            self.session.after_tick(self.bench.clock.now)
            self.bench.clock.now += self.loop.period
        return self.bench.arm.sent[before:]

    def press(self, keys: str, ticks: int = 1) -> list[dict[str, float]]:
        for key in keys:
            self.operator.key(key)
        return self.run(ticks)


@pytest.fixture
def trials(tmp_path: Path) -> Any:
    made = Trials(tmp_path)
    yield made
    made.film.close()


def test_an_episode_runs_for_its_time_and_is_judged(trials: Trials, tmp_path: Path) -> None:
    assert trials.session.phase is Phase.RESET
    assert trials.run(5) == []  # nothing moves before enter
    trials.press("yn", 3)  # nothing is judged either
    assert trials.session.phase is Phase.RESET
    sent = trials.press("\n", 14)
    assert trials.session.phase is Phase.JUDGE
    moved = [command for command in sent if command["base"] != 0]
    assert 10 <= len(moved) <= 13  # 1 s at 10 a second, and the stop
    rest = trials.run(5)
    assert all(command == rest[0] for command in rest)
    assert rest[0]["base"] == 0
    trials.press("y")
    (episode,) = json.loads((tmp_path / "trials.json").read_text())["episodes"]
    assert (episode["success"], episode["ended_by"]) == (True, "the time")
    assert episode["seconds"] == pytest.approx(1.0, abs=0.11)


def test_an_episode_that_nobody_judged_leaves_no_film(trials: Trials, tmp_path: Path) -> None:
    trials.film.begin("episode_001.webp")
    trials.film.look({"front": np.zeros((4, 6, 3), np.uint8)}, 0.0)
    trials.film.end()
    trials.film.close()
    assert list((tmp_path / "films").iterdir()) == []


def test_the_arm_returns_slowly_and_rests_until_enter(trials: Trials) -> None:
    trials.press("\n", 14)
    away = trials.bench.arm.joints["shoulder"]
    assert away > 0.5
    sent = trials.press("n", 60)
    assert trials.session.phase is Phase.RESET
    steps = np.diff([away, *(command["shoulder"] for command in sent)])
    # the approach speed is 0.1 ranges of 2 rad a second
    assert np.abs(steps).max() <= 0.1 * 2.2 / 10 + 1e-6
    assert trials.bench.arm.joints["shoulder"] == pytest.approx(START["shoulder"], abs=0.1)
    assert all(command["base"] == 0 for command in sent)
    rest = trials.run(5)
    assert all(command == rest[0] for command in rest)


def test_a_key_judges_at_once_and_r_repeats(trials: Trials, tmp_path: Path) -> None:
    trials.press("\n", 5)
    trials.press("r", 2)
    assert trials.session.phase is Phase.RETURN
    assert trials.results.discarded == 1
    assert trials.results.episodes == []
    trials.run(60)
    trials.press("\n", 6)
    trials.press("n", 2)
    plain = json.loads((tmp_path / "trials.json").read_text())
    assert plain["success_rate"] == 0.0
    assert plain["interval"][1] == pytest.approx(0.793, abs=1e-3)
    assert plain["discarded"] == 1
    assert plain["episodes"][0]["seconds"] < 0.8


def test_a_fault_ends_an_episode_and_is_named(trials: Trials) -> None:
    trials.press("\n", 5)
    trials.bench.arm.change = np.zeros_like
    trials.run(2)
    assert trials.session.phase is Phase.JUDGE
    trials.bench.arm.change = lambda image: image
    trials.press("n", 2)
    assert trials.results.episodes[0].ended_by == "camera front is black"


def test_a_stop_on_the_way_back_rests_until_enter(trials: Trials) -> None:
    trials.press("\n", 14)
    trials.press("y", 5)
    assert trials.session.phase is Phase.RETURN
    trials.press(" ")
    rest = trials.run(20)
    assert all(command == rest[0] for command in rest)
    assert trials.session.phase is Phase.RETURN
    trials.press("\n", 60)
    assert trials.session.phase is Phase.RESET


def test_the_last_episode_ends_it(trials: Trials) -> None:
    for _ in range(2):
        assert not trials.session.finished
        trials.press("\n", 14)
        trials.press("y", 60)
    assert trials.session.finished
    assert trials.operator.ended == "the last episode"


def test_an_interrupted_series_goes_on(tmp_path: Path) -> None:
    before = TrialResults(dict(SUBJECT), dict(START), 1, [TrialEpisode(1, True, 1.0, "the time")])
    before.write(tmp_path)
    again = read_or_begin(tmp_path, SUBJECT)
    assert again == before
    trials = Trials(tmp_path, results=again)
    trials.bench.arm.joints["shoulder"] = -0.3
    assert trials.session.phase is Phase.RETURN
    trials.run(60)  # first to the start pose of the series
    assert trials.session.phase is Phase.RESET
    assert trials.bench.arm.joints["shoulder"] == pytest.approx(START["shoulder"], abs=0.1)
    trials.film.close()


@pytest.mark.parametrize(
    ("subject", "content", "words"),
    [
        ({**SUBJECT, "seconds": 2.0}, None, "its seconds is 1.0, now it is 2.0"),
        (SUBJECT, "{}", "cannot be read as trials"),
        (SUBJECT, "[", "cannot be read as trials"),
    ],
)
def test_other_trials_are_not_continued(
    tmp_path: Path, subject: dict[str, Any], content: str | None, words: str
) -> None:
    TrialResults(dict(SUBJECT)).write(tmp_path)
    if content is not None:
        (tmp_path / "trials.json").write_text(content)
    with pytest.raises(UserError, match=words):
        read_or_begin(tmp_path, subject)


def test_the_report_shows_rate_and_films(trials: Trials, tmp_path: Path) -> None:
    trials.press("\n", 14)
    trials.press("y", 2)
    trials.film.close()
    film = tmp_path / "films" / "episode_001.webp"
    from PIL import Image

    with Image.open(film) as opened_film:
        assert opened_film.size == (12, 4)  # both cameras, 4x6 each
        assert 4 <= opened_film.n_frames <= 6  # type: ignore[attr-defined]
    write_report(tmp_path, trials.results)
    with opened(tmp_path / "report.html") as page:
        assert headings(page) == ["Success", "Episodes", "Made with"]
        assert image_widths(page) == [12]
        text = page.inner_text("body")
        assert "1 of 1" in text
        assert "20.7% to 100.0%" in text
        assert "episode 1: success" in text
