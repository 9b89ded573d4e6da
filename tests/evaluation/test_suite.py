"""A whole suite on the fake task: the same for any number of workers and after a crash; resumed."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.cli.entry import CONFIGS, compose_config, plain
from act_policy.cli.record import list_recordings
from act_policy.evaluation import suite as suite_run
from act_policy.evaluation.evaluate import EvaluationConfig
from act_policy.evaluation.rollouts.disturbance import UNDISTURBED, Disturbance
from act_policy.evaluation.rollouts.run import EpisodeResult, tell_task
from act_policy.evaluation.rollouts.suite_rows import Suite, SuiteRow
from act_policy.evaluation.suite import run_suite, summarise_suite
from act_policy.intervals import wilson_interval
from act_policy.sim import environment_id
from act_policy.sim.appearance import Appearance
from act_policy.types import Camera, Observation
from tests.browser import opened
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy
from tests.evaluation.suite_for_tests import KnowingPolicy, build_rows, load, load_tasked
from tests.parity.metaworld.record import PROTOCOL

CONFIG = EvaluationConfig(episodes=6, seed=10)
SUITE = Suite(
    "fake",
    (
        SuiteRow("usual", "control"),
        SuiteRow("noisy", "state", disturbance=Disturbance(state_noise=0.05)),
        SuiteRow("very noisy", "state", disturbance=Disturbance(state_noise=0.5)),
        SuiteRow("late", "delay", disturbance=Disturbance(delay=2)),
        SuiteRow("hurried", "time", max_steps=12),
        SuiteRow("mirrored", "elsewhere", environment="fake/Mirrored-v0"),
    ),
    control="usual",
)


class ImagesAlonePolicy(KnowingPolicy):
    schema = replace(SCHEMA, cameras=(Camera("front", 8, 12),), state_names=(), state_units=())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "policy.ckpt"
    path.write_text("0.9")
    return path


def run(checkpoint: Path, out: Path, suite: Suite = SUITE, **changes: Any) -> dict[str, Any]:
    options = {"config": CONFIG, "workers": 1, "load": load, "build": build_rows, **changes}
    return run_suite(checkpoint, out, suite, **options)


def comparable(report: dict[str, Any]) -> dict[str, Any]:
    """All but what says when, where and how often it was run."""
    plain = json.loads(json.dumps(report))
    del plain["versions"]
    for row in plain["rows"]:
        for episode in row["episodes"]:
            episode.pop("rerun", None)
    return plain


def test_every_row_has_the_same_states_and_its_own_settings(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    report = run(checkpoint, out)
    assert json.loads((out / "suite.json").read_text()) == json.loads(json.dumps(report))
    rows = {row["name"]: row for row in report["rows"]}
    assert list(rows) == [row.name for row in SUITE.rows]
    for row in rows.values():
        assert [one["seed"] for one in row["episodes"]] == list(range(10, 16))
    assert rows["usual"]["success_rate"] > 0.5
    assert rows["usual"]["difference"] is None
    assert rows["mirrored"]["success_rate"] == 0.0
    assert rows["mirrored"]["environment"] == "fake/Mirrored-v0"
    assert rows["noisy"]["environment"] == SCHEMA.environment
    assert rows["noisy"]["disturbance"] == {"state_noise": 0.05}
    assert max(one["steps"] for one in rows["hurried"]["episodes"]) == 12
    usual = [one["steps"] for one in rows["usual"]["episodes"]]
    for name in ("noisy", "late"):
        assert [one["steps"] for one in rows[name]["episodes"]] != usual, name
    assert (out / "pictures" / "01.png").is_file()


@pytest.mark.parametrize(
    "workers", [3, pytest.param(10, marks=pytest.mark.slow)], ids=["3 workers", "10 workers"]
)
def test_results_depend_neither_on_workers_nor_on_a_crash(
    workers: int, checkpoint: Path, tmp_path: Path
) -> None:
    alone = run(checkpoint, tmp_path / "1")
    many = run(checkpoint, tmp_path / "many", workers=workers)
    assert comparable(alone) == comparable(many)
    build = partial(build_rows, marker=tmp_path / "crashed")
    crashed = run(checkpoint, tmp_path / "crashed out", workers=workers, build=build)
    assert comparable(alone) == comparable(crashed)
    named = [
        (row["name"], one["seed"], one["rerun"])
        for row in crashed["rows"]
        for one in row["episodes"]
        if "rerun" in one
    ]
    assert named == [(named[0][0], 12, "died: exit code 7")]
    assert (
        "seed 12: this episode was run a second time"
        in (tmp_path / "crashed out" / "report.html").read_text()
    )


def test_an_interrupted_suite_continues(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", run(checkpoint, tmp_path / "whole")
    write, written = suite_run.write_episode, []

    def interrupt(path: Path, result: EpisodeResult) -> None:
        if len(written) == 8:
            raise KeyboardInterrupt
        written.append(path)
        write(path, result)

    monkeypatch.setattr(suite_run, "write_episode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint, out)
    monkeypatch.setattr(suite_run, "write_episode", lambda p, r: (written.append(p), write(p, r)))
    assert comparable(run(checkpoint, out)) == comparable(whole)
    assert len(written) == len(set(written)) == 6 * len(SUITE.rows)
    written.clear()
    more = run(checkpoint, out, config=replace(CONFIG, episodes=7))
    assert [path.name for path in written] == ["seed_16.npz"] * len(SUITE.rows)
    assert [len(row["episodes"]) for row in more["rows"]] == [7] * len(SUITE.rows)


def test_something_else_is_not_continued(checkpoint: Path, tmp_path: Path) -> None:
    one = replace(CONFIG, episodes=1)
    suite, out = SUITE._replace(rows=SUITE.rows[:2]), tmp_path / "out"
    run(checkpoint, out, suite, config=one)
    with pytest.raises(UserError, match="holds a suite with other suite"):
        run(checkpoint, out, SUITE, config=one)
    with pytest.raises(UserError, match="holds a suite with other execute_steps"):
        run(checkpoint, out, suite, config=replace(one, execute_steps=2))
    checkpoint.write_text("0.8")
    with pytest.raises(UserError, match="holds a suite with other checkpoint"):
        run(checkpoint, out, suite, config=one)


def test_means_are_of_rows_and_of_groups_without_the_control() -> None:
    def episodes(wins: int) -> list[EpisodeResult]:
        return [EpisodeResult(seed, seed < wins, 5, np.zeros((5, 1))) for seed in range(10)]

    results = dict(
        zip([row.name for row in SUITE.rows], map(episodes, (9, 8, 4, 2, 9, 3)), strict=True)
    )
    report = summarise_suite(SUITE, results, "fake/Reach-v0")
    assert list(report["groups"]) == ["state", "delay", "time", "elsewhere"]
    assert report["groups"]["state"]["success_rate"] == pytest.approx(0.6)
    # two rows from the same ten initial states tell no more than one
    assert report["groups"]["state"]["interval"] == pytest.approx(wilson_interval(6, 10))
    assert report["mean_of_rows"]["success_rate"] == pytest.approx(
        (0.8 + 0.4 + 0.2 + 0.9 + 0.3) / 5
    )
    assert report["mean_of_groups"]["success_rate"] == pytest.approx((0.6 + 0.2 + 0.9 + 0.3) / 4)
    low, high = report["mean_of_groups"]["interval"]
    # Kish: three quarters of the weight on ten states, one quarter on ten others
    assert (low, high) == pytest.approx(wilson_interval(0.5 * 16, 16))
    difference = report["rows"][2]["difference"]
    assert difference["difference"] == pytest.approx(-0.5)
    assert (difference["row_alone"], difference["control_alone"]) == (0, 5)
    assert difference["interval"][0] < -0.5 < difference["interval"][1]


def test_the_page_shows_every_row_beside_the_control(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(checkpoint, out)
    with opened(out / "report.html") as page:
        assert page.locator("h2").all_inner_texts() == [
            "Success",
            "Difference from usual",
            "Every row",
            "Made with",
        ]
        assert page.locator("tbody img").count() == len(SUITE.rows)
        row = page.locator("tr", has_text="mirrored").last.inner_text()
        assert "0 of 6" in row
        assert "worse" in row or "cannot tell" in row
        assert "The means leave out usual." in page.locator("section").first.inner_text()


def test_rows_are_fitted_to_the_policy() -> None:
    moved = Disturbance(Appearance(camera_shift=(0.01, 0.0, 0.0)))
    rows = (SuiteRow("moved", "camera", disturbance=moved), *SUITE.rows[:2])
    fitted, left_out = Suite("s", rows, "usual").fit(KnowingPolicy())
    assert left_out == []
    assert [row.name for row in fitted.rows] == ["moved: front", "moved: side", "usual", "noisy"]
    assert fitted.rows[1].disturbance.appearance == replace(moved.appearance, camera="side")
    for policy in (SeeingPolicy(), ImagesAlonePolicy()):
        fitted, left_out = Suite("s", rows, "usual").fit(policy)
        assert left_out == ["noisy"]
        assert fitted.rows[-1].name == "usual"
    assert fitted.rows[0] == rows[0]  # it has one camera


def test_a_suite_is_read_from_plain_values() -> None:
    rows = {
        "usual": {"group": "control"},
        "dark": {"group": "light", "disturb": {"light": [0, 0, 0]}},
    }
    made = Suite.from_config({"name": "s", "control": "usual", "rows": rows})
    assert made.rows[0] == SuiteRow("usual", "control")
    assert made.rows[1].disturbance == Disturbance(Appearance(light=(0.0, 0.0, 0.0)))
    with pytest.raises(UserError, match="control='normal' names none of its rows"):
        Suite.from_config({"name": "s", "control": "normal", "rows": rows})
    with pytest.raises(UserError, match="row 'dark': unknown disturbance lamp"):
        SuiteRow.from_config("dark", {"group": "light", "disturb": {"lamp": 1}})
    with pytest.raises(UserError, match="row 'dark': unknown light; known are group"):
        SuiteRow.from_config("dark", {"group": "light", "light": 1})
    with pytest.raises(UserError, match="expected a mapping with group:"):
        SuiteRow.from_config("dark", {})


@pytest.mark.parametrize("path", sorted((CONFIGS / "suite").glob("*.yaml")), ids=lambda p: p.stem)
def test_the_suites_that_there_are(path: Path) -> None:
    config = compose_config("evaluate", [f"suite={path.stem}"])
    suite = Suite.from_config(plain(config.suite))
    assert suite.name == path.stem
    assert config.episodes * len(suite.rows) > 100
    disturbed = [row for row in suite.rows if row.name != suite.control]
    assert all(row.disturbance != UNDISTURBED or row.environment for row in disturbed)
    assert max(len(row.name) for row in suite.rows) <= 30  # as much as a chart has room for


def test_a_policy_of_several_tasks_is_told_each_rows_task(tmp_path: Path) -> None:
    told = tell_task(lambda observation: observation.task, "Open a drawer")
    assert told(Observation({}, np.zeros(1))) == "Open a drawer"
    rows = SUITE.rows[0], replace(SUITE.rows[0], name="other", task="Close it")
    assert [("task" in row) for row in SUITE._replace(rows=rows).to_plain()["rows"]] == [
        False,
        True,
    ]
    checkpoint = tmp_path / "policy.ckpt"
    checkpoint.write_text("0.9")
    with pytest.raises(UserError, match=r"row 'usual': task: the policy knows 2 tasks; say which"):
        run(checkpoint, tmp_path / "out", SUITE._replace(rows=rows), load=load_tasked)
    rows = replace(rows[0], task="Open it"), rows[1]
    report = run(checkpoint, tmp_path / "out", SUITE._replace(rows=rows), load=load_tasked)
    assert [row["success_rate"] > 0.5 for row in report["rows"]] == [True, False]


def test_the_fifty_tasks_are_in_their_groups_with_their_words() -> None:
    protocol = json.loads(PROTOCOL.read_text())
    config = compose_config("evaluate", ["suite=metaworld_mt50"])
    rows = Suite.from_config(plain(config.suite)).rows
    groups = {name.replace("_", " "): tasks for name, tasks in protocol["groups"].items()}
    assert {row.name: row.group for row in rows} == {
        task.removesuffix("-v3"): group for group, tasks in groups.items() for task in tasks
    }
    assert {f"{row.name}-v3": row.task for row in rows} == protocol["words"]
    assert all(row.environment == environment_id(row.name) for row in rows)
    assert config.max_steps == protocol["max_steps"]


def test_a_suite_is_recorded_row_by_row_for_other_seeds_than_it_tries(tmp_path: Path) -> None:
    config = compose_config("record_demos", ["suite=metaworld_mt50", f"out={tmp_path}"])
    recordings = list_recordings(config)
    assert len(recordings) == 50
    assert (config.episodes, config.seed) == (50, 0)
    settings, out = recordings[-1]
    assert out == tmp_path / "pick-place-wall"
    assert settings.environment == environment_id("pick-place-wall")
    assert settings.instruction == "Pick a puck, bypass a wall and place the puck"
    assert (settings.cameras, settings.max_steps) == ({"corner4": [96, 96]}, 500)
    for given, message in (
        ([], "missing: give either task=..., one of aloha/insertion, .*, or suite="),
        (["suite=robustness"], "suite=robustness: undisturbed, .* policy's own environment"),
        (["suite=metaworld_mt50", "task=pusht"], "missing: give either task="),
    ):
        with pytest.raises(UserError, match=message):
            list_recordings(compose_config("record_demos", [*given, "out=x"]))
