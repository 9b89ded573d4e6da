"""A whole comparison on the fake task: verdict, files, continuation, refusals."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.evaluation.compare import ComparisonConfig, compare
from act_policy.evaluation.rollouts import contest
from act_policy.evaluation.rollouts.contest import Contestant
from act_policy.evaluation.rollouts.demonstrations import TrainingDemonstrations
from act_policy.execution import Execution
from tests.browser import opened
from tests.evaluation.evaluation_for_tests import (
    SCHEMA,
    STEP_LIMIT,
    DemonstratedPolicy,
    SeeingPolicy,
    build,
    build_crashing,
)

CONFIG = ComparisonConfig(seed=10, episodes=60, max_steps=STEP_LIMIT)
DEMONSTRATIONS = TrainingDemonstrations([np.random.default_rng(0).normal(size=(30, 1))])


class ElsewherePolicy(SeeingPolicy):
    schema = replace(SCHEMA, environment="fake/Elsewhere-v0")


def load(contestant: Contestant) -> SeeingPolicy:
    content = contestant.checkpoint.read_text()
    if content == "elsewhere":
        return ElsewherePolicy()
    policy = DemonstratedPolicy() if content == "demonstrated" else SeeingPolicy(float(content))
    if (default := contestant.checkpoint.with_suffix(".execution")).is_file():
        policy.execution = Execution(int(default.read_text()), reason="tuned")
    return policy


def make(folder: Path, name: str, content: str, execute_steps: int | None = None) -> Contestant:
    checkpoint = folder / f"{name}.ckpt"
    checkpoint.write_text(content)
    return Contestant(name, checkpoint, execute_steps)


def run(contestants: list[Contestant], out: Path, **changes: Any) -> dict[str, Any]:
    options = {"workers": 1, "films": 0, "load": load, "build": build, "config": CONFIG, **changes}
    return compare(contestants, out, **options)


@pytest.fixture
def pair(tmp_path: Path) -> list[Contestant]:
    """The first one fails where the target is far."""
    return [make(tmp_path, "near", "0.6"), make(tmp_path, "far", "1.0", execute_steps=2)]


def test_the_better_policy_is_found(pair: list[Contestant], tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = run(pair, out, films=2, demonstrations=[DEMONSTRATIONS])
    assert json.loads((out / "comparison.json").read_text()) == json.loads(json.dumps(report))
    [verdict] = report["verdicts"]
    assert (verdict["verdict"], verdict["a"], verdict["b"]) == ("b_better", "near", "far")
    assert report["decided"]
    near, far = report["policies"]
    assert (near["letters"], far["letters"]) == ("b", "a")
    seeds = [[one["seed"] for one in policy["episodes"]] for policy in (near, far)]
    assert seeds == [list(range(10, 10 + verdict["pairs"]))] * 2
    assert len(seeds[0]) < CONFIG.episodes
    assert far["success_rate"] - near["success_rate"] == pytest.approx(verdict["difference"])
    assert report["demonstrations"] == {"jerk": pytest.approx(1.0), "jumps": pytest.approx(1 / 29)}
    assert near["smoothness"]["jerk"] < 0.5
    assert near["smoothness"]["jumps"] == 0.0
    page = (out / "report.html").read_text()
    assert "far is better than near" in page
    assert page.count("failure after 40 steps") == 2


def test_the_result_does_not_depend_on_workers(pair: list[Contestant], tmp_path: Path) -> None:
    reports = [run(pair, tmp_path / str(workers), workers=workers) for workers in (1, 3)]
    for report in reports:
        del report["versions"]
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_an_episode_whose_process_died_is_run_again_and_named(
    pair: list[Contestant], tmp_path: Path
) -> None:
    config = replace(CONFIG, episodes=4)
    usual = run(pair, tmp_path / "usual", config=config)
    crashing = partial(build_crashing, tmp_path / "marker")
    out = tmp_path / "out"
    report = run(pair, out, config=config, build=crashing)
    [episode] = [e for policy in report["policies"] for e in policy["episodes"] if "rerun" in e]
    assert (episode["seed"], episode.pop("rerun")) == (12, "died: exit code 7")
    assert report["policies"] == usual["policies"]
    assert "seed 12: this episode was run a second time" in (out / "report.html").read_text()
    [kept] = [
        e for p in run(pair, out, config=config)["policies"] for e in p["episodes"] if "rerun" in e
    ]
    assert kept["seed"] == 12


@pytest.mark.slow
def test_three_policies_are_told_apart_by_letters(pair: list[Contestant], tmp_path: Path) -> None:
    report = run([*pair, make(tmp_path, "twin", "1.0")], tmp_path / "out")
    assert [policy["letters"] for policy in report["policies"]] == ["b", "a", "a"]
    assert report["confidence_of_each_pair"] == pytest.approx(1 - 0.05 / 3)
    names = [(one["a"], one["b"], one["verdict"]) for one in report["verdicts"]]
    assert names[:2] == [("near", "far", "b_better"), ("near", "twin", "b_better")]
    assert names[2][2] in ("undecided", "no_difference")
    with opened(tmp_path / "out" / "report.html") as shown:
        assert shown.locator("h2").all_inner_texts() == [
            "Verdict",
            "How the difference developed",
            "Time to success",
            "Smoothness",
            "Where they differ",
            "Made with",
        ]
        assert shown.locator("strong").count() == 3
        assert "in any of their pairs" in shown.locator("section").first.inner_text()


def test_an_interrupted_comparison_continues(
    pair: list[Contestant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", run(pair, tmp_path / "whole")
    write, written = contest.write_episode, []

    def interrupt(*arguments: Any) -> None:
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(arguments[0])
        write(*arguments)

    monkeypatch.setattr(contest, "write_episode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(pair, out)
    assert len(written) == 5
    monkeypatch.setattr(contest, "write_episode", lambda *a: (written.append(a[0]), write(*a)))
    continued = run(pair, out)
    assert len(set(written)) == len(written)
    assert continued["verdicts"] == whole["verdicts"]
    assert continued["policies"] == whole["policies"]
    written.clear()
    assert run(pair, out)["verdicts"] == whole["verdicts"]  # decided: nothing is left to run
    assert written == []


@pytest.mark.slow
def test_equal_policies_stay_undecided_until_the_margin_holds(tmp_path: Path) -> None:
    twins = [make(tmp_path, "one", "0.9"), make(tmp_path, "two", "0.9", execute_steps=4)]
    out = tmp_path / "out"
    report = run(twins, out, config=replace(CONFIG, episodes=4, margin=0.2))
    [verdict] = report["verdicts"]
    assert (report["decided"], verdict["verdict"], verdict["pairs"]) == (False, "undecided", 4)
    assert 5 < verdict["further_pairs"] < 60
    assert "Cannot tell one and two apart yet" in (out / "report.html").read_text()
    report = run(twins, out, config=replace(CONFIG, margin=0.2))
    [verdict] = report["verdicts"]
    assert (report["decided"], verdict["verdict"]) == (True, "no_difference")
    assert [policy["letters"] for policy in report["policies"]] == ["a", "a"]
    assert "do not differ by more than 20 percentage points" in (out / "report.html").read_text()


def test_another_comparison_is_not_continued(pair: list[Contestant], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(pair, out, config=replace(CONFIG, episodes=2))
    for changed in (replace(CONFIG, margin=0.1), replace(CONFIG, confidence=0.9)):
        with pytest.raises(UserError, match=r"holds a comparison with other (margin|confidence)"):
            run(pair, out, config=changed)
    pair[0].checkpoint.write_text("0.7")
    with pytest.raises(UserError, match="holds a comparison with other policies"):
        run(pair, out)


def test_a_broken_episode_is_named(pair: list[Contestant], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(pair, out, config=replace(CONFIG, episodes=2))
    (out / "episodes" / "policy_1_seed_11.npz").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"policy_1_seed_11\.npz is not an episode"):
        run(pair, out, config=replace(CONFIG, episodes=2))


def test_what_cannot_be_compared_is_refused(pair: list[Contestant], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match="expected two or more"):
        run(pair[:1], out)
    with pytest.raises(UserError, match="near is there twice"):
        run([pair[0], pair[0]], out)
    with pytest.raises(UserError, match=r"different environments .*fake/Elsewhere"):
        run([pair[0], make(tmp_path, "elsewhere", "elsewhere")], out)
    with pytest.raises(UserError, match="execute_steps"):
        run([pair[0], make(tmp_path, "eager", "1.0", execute_steps=5)], out)
    shown = make(tmp_path, "shown", "demonstrated")
    with pytest.raises(UserError, match="1 of the 60 initial states were demonstrated"):
        run([pair[0], shown], out, config=replace(CONFIG, seed=1000))
    ways = [DEMONSTRATIONS._replace(config={"quality": way}) for way in ("fast", "exact")]
    with pytest.raises(UserError, match="quality"):
        run(pair, out, demonstrations=ways)
    assert not out.exists()


def test_what_a_policy_executes_by_default_is_part_of_the_comparison(
    pair: list[Contestant], tmp_path: Path
) -> None:
    config, default = replace(CONFIG, episodes=1), pair[0].checkpoint.with_suffix(".execution")
    default.write_text("3")
    report = run(pair, tmp_path / "out", config=config)
    assert [one["execute_steps"] for one in report["policies"]] == [3, 2]
    default.write_text("4")
    with pytest.raises(UserError, match="a comparison with other policies"):
        run(pair, tmp_path / "out", config=config)


def test_a_checkpoint_that_is_replaced_meanwhile_is_refused(
    pair: list[Contestant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = contest.write_episode

    def replace_first(*arguments: Any) -> None:
        pair[0].checkpoint.write_text("0.61")
        write(*arguments)

    monkeypatch.setattr(contest, "write_episode", replace_first)
    with pytest.raises(UserError, match="was replaced while it was compared"):
        run(pair, tmp_path / "out", config=replace(CONFIG, episodes=1))


@pytest.mark.parametrize(
    ("field", "value"),
    [("margin", -0.1), ("confidence", 1.0), ("episodes", 0), ("quality", "best")],
)
def test_settings_out_of_range(field: str, value: Any) -> None:
    with pytest.raises(UserError, match=field):
        replace(CONFIG, **{field: value})
