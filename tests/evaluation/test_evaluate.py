"""A whole evaluation on the fake task, and what the script refuses."""

import hashlib
import json
from io import StringIO
from pathlib import Path

import h5py
import numpy as np
import pytest
from rich.console import Console

from act_policy import UserError
from act_policy.checkpoints.locate import find_run, find_weights, identity
from act_policy.cli.entry import run_config
from act_policy.evaluation.evaluate import EvaluationConfig, evaluate
from act_policy.evaluation.results import build_success_table, list_warnings, write_json
from act_policy.evaluation.rollouts.demonstrations import (
    TrainingDemonstrations,
    find_demonstrations,
)
from act_policy.execution import Execution
from act_policy.intervals import wilson_interval
from act_policy.types import Schema
from tests.evaluation.evaluation_for_tests import (
    STEP_LIMIT,
    ReachEnv,
    SeeingPolicy,
    build,
    load,
    replace_and_load,
)
from tests.paths import ROOT
from tests.scripts_for_tests import call_script


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "checkpoints" / "best.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    return path


def load_tuned(path: Path) -> SeeingPolicy:
    policy = SeeingPolicy()
    policy.execution = Execution(2, reason="best of three")
    return policy


def test_the_policys_own_execution_counts_unless_another_is_asked_for(
    checkpoint: Path, tmp_path: Path
) -> None:
    for asked, used in ((None, 2), (4, 4)):
        config = EvaluationConfig(episodes=2, seed=10, max_steps=STEP_LIMIT, execute_steps=asked)
        out = tmp_path / str(asked)
        report = evaluate(
            *(checkpoint, out, config), baselines=False, videos=0, workers=1,
            load=load_tuned, build=build,
        )  # fmt: skip
        reason = "" if asked else "best of three"
        assert report["settings"]["execute_steps"] == used
        assert report["execution"] == Execution(used, reason=reason).to_dict()
        assert ("best of three" in (out / "report.html").read_text()) == bool(reason)


def test_report_baselines_and_videos(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    forth = np.full((30, 1), 0.05, np.float32)  # passes by every target
    back = np.full((3, 1), -0.05, np.float32)
    report = evaluate(
        checkpoint,
        out,
        EvaluationConfig(episodes=8, seed=10, max_steps=STEP_LIMIT),
        TrainingDemonstrations([forth, back], frozenset({1, 2, 3})),
        videos=2,
        workers=2,
        load=load,
        build=build,
    )
    written = json.loads((out / "evaluation.json").read_text())
    assert written == json.loads(json.dumps(report))
    assert [episode["seed"] for episode in written["episodes"]] == list(range(10, 18))
    successes = sum(episode["success"] for episode in written["episodes"])
    assert successes == 6
    assert written["success_rate"] == 6 / 8
    assert written["interval"] == pytest.approx(wilson_interval(6, 8))
    assert written["baselines"]["black_image"]["success_rate"] == 0
    assert 0 < written["baselines"]["replayed_demonstration"]["success_rate"] < 1
    for baseline in written["baselines"].values():
        assert [episode["seed"] for episode in baseline["episodes"]] == list(range(10, 18))
    assert written["checkpoint"]["sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert written["settings"]["execute_steps"] is None
    assert written["versions"]["numpy"] == np.__version__
    assert {"act_policy", "command", "python"} <= written["versions"].keys()
    in_a_checkout = (ROOT / ".git").exists()
    assert ("commit" in written["versions"]) == in_a_checkout
    assert sorted(path.name for path in (out / "videos").glob("*.mp4")) == [
        "seed_10_success.mp4",
        "seed_11_success.mp4",
        "seed_13_failure.mp4",
        "seed_15_failure.mp4",
    ]
    text = StringIO()
    Console(file=text, width=120).print(
        build_success_table("x", {"policy": report, **report["baselines"]})
    )
    assert "6 of 8" in text.getvalue()
    assert "40.9% to 92.9%" in text.getvalue()
    assert "black image" in text.getvalue()


def test_without_baselines_and_videos(checkpoint: Path, tmp_path: Path) -> None:
    stale = tmp_path / "videos" / "seed_1_success.mp4"
    stale.parent.mkdir()
    stale.write_bytes(b"of an earlier evaluation")
    report = evaluate(
        checkpoint,
        tmp_path,
        EvaluationConfig(episodes=1, seed=13, max_steps=7, execute_steps=2),
        baselines=False,
        videos=0,
        workers=1,
        load=load,
        build=build,
    )
    assert report["baselines"] == {}
    assert report["episodes"] == [{"seed": 13, "success": False, "steps": 7}]
    assert not stale.exists()


def test_demonstrated_seeds_are_refused_by_number(checkpoint: Path, tmp_path: Path) -> None:
    demonstrations = TrainingDemonstrations([np.zeros((3, 1))], frozenset({5, 1003, 1007}))
    with pytest.raises(UserError, match=r"2 of the 10 initial states .*\(seeds 1003, 1007\)"):
        evaluate(
            checkpoint,
            tmp_path,
            EvaluationConfig(episodes=10),
            demonstrations,
            load=load,
            build=build,
        )
    demonstrated = tmp_path / "demonstrated.ckpt"
    demonstrated.write_bytes(b"")
    with pytest.raises(UserError, match=r"1 of the 10 initial states .*\(seeds 1001\)"):
        evaluate(demonstrated, tmp_path, EvaluationConfig(episodes=10), load=load, build=build)
    assert not (tmp_path / "evaluation.json").exists()


def test_settings_that_do_not_fit_are_refused_at_once(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="execute_steps: found 9, expected 1 to 4"):
        evaluate(checkpoint, tmp_path, EvaluationConfig(execute_steps=9), load=load, build=build)
    with pytest.raises(UserError, match="episodes=0"):
        EvaluationConfig(episodes=0)
    with pytest.raises(UserError, match="workers=0"):
        evaluate(checkpoint, tmp_path, EvaluationConfig(), workers=0, load=load, build=build)
    with pytest.raises(UserError, match="videos=-1"):
        evaluate(checkpoint, tmp_path, EvaluationConfig(), videos=-1, load=load, build=build)
    with pytest.raises(UserError, match="seed=-1"):
        EvaluationConfig(seed=-1)
    with pytest.raises(UserError, match="quality=finest: expected fast or exact"):
        EvaluationConfig(quality="finest")
    wrong = TrainingDemonstrations([np.zeros((3, 2))])
    with pytest.raises(UserError, match=r"episode 0 has actions of shape \(3, 2\)"):
        evaluate(checkpoint, tmp_path, EvaluationConfig(), wrong, load=load, build=build)


def no_environment(schema: Schema, **options: object) -> ReachEnv:
    raise AssertionError("an episode was about to be run")


def test_that_nothing_can_be_written_is_said_before_the_first_episode(
    checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"out=.*file/out: cannot be written \(Not a directory"):
        evaluate(
            checkpoint,
            tmp_path / "file" / "out",
            EvaluationConfig(episodes=2),
            load=load,
            build=no_environment,
        )
    (tmp_path / "out" / "evaluation.json").mkdir(parents=True)
    with pytest.raises(UserError, match=r"evaluation\.json: cannot be written"):
        write_json(tmp_path / "out" / "evaluation.json", {})


def test_what_is_not_said_is_as_the_demonstrations_were_recorded(
    checkpoint: Path, tmp_path: Path
) -> None:
    recorded = {"quality": "exact", "max_steps": 7}
    report = evaluate(
        checkpoint,
        tmp_path,
        EvaluationConfig(episodes=1, seed=13),
        TrainingDemonstrations([np.zeros((3, 1))], config=recorded),
        baselines=False,
        videos=0,
        workers=1,
        load=load,
        build=build,
    )
    assert report["episodes"] == [{"seed": 13, "success": False, "steps": 7}]
    assert (report["settings"]["quality"], report["settings"]["max_steps"]) == ("exact", 7)
    said = EvaluationConfig(quality="fast", max_steps=9)
    assert said.like(recorded, "") == said
    unknown = EvaluationConfig().like({}, "act_policy/MetaWorld-reach-v0")
    assert (unknown.quality, unknown.max_steps) == ("fast", 500)
    assert EvaluationConfig().like({}, "act_policy/AlohaTransferCube-v0").max_steps == 400
    assert EvaluationConfig().like({}, "fake/Reach-v0").max_steps is None


def test_a_baseline_that_may_be_as_good_is_warned_of() -> None:
    def found(low: float, high: float) -> dict[str, list[float]]:
        return {"interval": [low, high], "episodes": []}

    report = found(0.6, 0.9) | {
        "baselines": {"black_image": found(0.2, 0.6), "replayed_demonstration": found(0.1, 0.59)}
    }
    (warning,) = list_warnings(report)
    assert warning.startswith("warning: the policy is not clearly better than the black image")
    assert "cameras" in warning


@pytest.fixture
def foreign_run(tmp_path: Path) -> Path:
    """A run on a robot that the files do not describe, of which one camera was used."""
    folder = tmp_path / "demonstrations"
    folder.mkdir()
    with h5py.File(folder / "episode_0.hdf5", "w") as file:
        file["observations/qpos"] = np.zeros((4, 2), np.float32)
        file["action"] = np.full((4, 2), 7, np.float32)
        for camera in ("left", "right"):
            file[f"observations/images/{camera}"] = np.zeros((4, 6, 8, 3), np.uint8)
    names, units = ["x", "y"], ["m", "m"]
    described = {"state_names": names, "state_units": units, "rate": 10}
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({**described, "action_names": names, "action_units": units}))
    data = {"path": str(folder), "schema": str(schema), "cameras": ["right"], "batch_size": 3}
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(json.dumps({"data": data}))  # JSON is YAML
    return run


def test_a_runs_demonstrations_are_read_as_the_run_read_them(
    foreign_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, moved = run_config(foreign_run), tmp_path / "moved"
    found = find_demonstrations(config, None)
    assert found is not None
    np.testing.assert_array_equal(found.actions, np.full((1, 4, 2), 7))
    assert (found.seeds, found.config) == (frozenset(), {})
    (tmp_path / "demonstrations").rename(moved)
    assert find_demonstrations(config, None) is None
    assert "no longer at" in capsys.readouterr().out
    found = find_demonstrations(config, str(moved))
    assert found is not None
    assert len(found.actions) == 1
    with h5py.File(moved / "episode_0.hdf5", "a") as file:
        file.attrs["settings"] = json.dumps({"quality": "exact"})
        file.attrs["seed"] = 5
    found = find_demonstrations(config, str(moved))
    assert found is not None
    assert (found.seeds, found.config) == (frozenset({5}), {"quality": "exact"})
    assert find_demonstrations({}, None) is None


def test_earlier_results_survive_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "failing.ckpt"
    path.write_bytes(b"")
    (tmp_path / "evaluation.json").write_text("earlier")
    with pytest.raises(UserError, match="cannot act"):
        evaluate(path, tmp_path, EvaluationConfig(episodes=2), workers=1, load=load, build=build)
    assert (tmp_path / "evaluation.json").read_text() == "earlier"


def test_a_checkpoint_that_training_replaces_meanwhile_is_not_reported(
    checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="was replaced while it was tried"):
        evaluate(
            checkpoint,
            tmp_path,
            EvaluationConfig(episodes=1),
            workers=1,
            load=replace_and_load,
            build=build,
        )
    assert not (tmp_path / "evaluation.json").exists()


def test_what_a_checkpoint_may_be(checkpoint: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert find_weights(run) == checkpoint
    assert find_run(run) == find_run(checkpoint) == run
    (run / "checkpoints" / "last.ckpt").write_bytes(b"later")
    assert find_weights(run) == checkpoint
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    with pytest.raises(UserError, match=r"bundle holds no policy; expected one of model\."):
        find_weights(bundle)
    (bundle / "policy.onnx").write_bytes(b"graph")
    assert find_weights(bundle).name == "policy.onnx"
    (bundle / "model.safetensors").write_bytes(b"tensors")
    assert identity(bundle)["sha256"] == hashlib.sha256(b"tensors").hexdigest()
    assert find_run(bundle) is None
    with pytest.raises(UserError, match="nowhere does not exist"):
        find_weights(tmp_path / "nowhere")
    for url in ("ws://localhost:8000", "wss://arm:443"):
        with pytest.raises(UserError, match="policy server"):
            identity(Path(url))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["checkpoint=/nowhere"], "checkpoint=/nowhere does not exist"),
        (["checkpoint=/nowhere", "episode=3"], "episodes"),
        (["checkpoint=/nowhere", "execute_steps=all"], "execute_steps=all: expected a whole"),
        (["checkpoint=/nowhere", "ensemble_coefficient=yes"], "ensemble_coefficient=yes"),
        ([], "checkpoint"),
    ],
)
def test_the_script_refuses_with_code_2_and_one_message(arguments: list[str], message: str) -> None:
    done = call_script("evaluate.py", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_script_asks_where_to_write(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"graph")
    done = call_script("evaluate.py", f"checkpoint={tmp_path / 'policy.onnx'}")
    assert done.returncode == 2
    assert "out=FOLDER" in done.stderr
