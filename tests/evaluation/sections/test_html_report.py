"""Both reports as a reader's browser shows them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from PIL import Image

from act_policy import ACTPolicy, Observation, UserError
from act_policy.checkpoints.bundle import to_checkpoint
from act_policy.cli import evaluate as evaluate_command
from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from act_policy.data.statistics import compute_statistics
from act_policy.evaluation.evaluate import EvaluationConfig, evaluate
from act_policy.evaluation.results import format_errors
from act_policy.evaluation.rollouts.demonstrations import TrainingDemonstrations
from act_policy.evaluation.rollouts.moments import Look, see_moments
from act_policy.evaluation.rollouts.run import EpisodeResult
from act_policy.evaluation.sections.chunk_sections import match_joints
from act_policy.evaluation.sections.rollout_report import Background, _asked, _of_every_stage
from act_policy.evaluation.sections.rollout_sections import group_failures
from act_policy.report.pieces import spread
from act_policy.sim import aloha_environment_id
from act_policy.sim.aloha.tasks import stages_in_words
from act_policy.types import Camera, Schema
from tests.browser import headings, image_widths, opened, video_seconds
from tests.evaluation.evaluation_for_tests import STEP_LIMIT, build, build_staged, load
from tests.paths import ROOT
from tests.policy_for_tests import smallest_policy

METRICS = "step,minutes,train_l1,held_out_l1,held_out_error/elbow\n1,0.1,1,,\n2,0.2,0.5,0.6,0.01\n"


@pytest.fixture(scope="module")
def rollout_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 episodes, of which 2 fail beyond half way."""
    folder = tmp_path_factory.mktemp("rollouts")
    checkpoint = folder / "best.ckpt"
    checkpoint.write_bytes(b"weights")
    (folder / "metrics.csv").write_text(METRICS)
    evaluate(
        checkpoint,
        folder,
        EvaluationConfig(episodes=8, seed=10, max_steps=STEP_LIMIT, execute_steps=2),
        TrainingDemonstrations(
            [np.full((30, 1), 0.05, np.float32), np.full((3, 1), -0.05, np.float32)]
        ),
        videos=1,
        workers=1,
        background=Background(folder / "metrics.csv"),
        load=load,
        build=build_staged,
    )
    return folder


def test_rollouts_play_and_failures_are_grouped(rollout_report: Path) -> None:
    episodes = json.loads((rollout_report / "evaluation.json").read_text())["episodes"]
    assert {episode["stage"] for episode in episodes if not episode["success"]} == {1}
    with opened(rollout_report / "report.html") as shown:
        assert headings(shown) == [
            "Success",
            "Rollouts",
            "Failures",
            "Predicted chunks, executed and demonstrated actions",
            "Training",
            "Made with",
        ]
        seconds = video_seconds(shown)
        assert len(seconds) == 2
        assert all(0.1 < one < 2 for one in seconds)
        width = shown.locator("video").first.get_attribute("width")
        assert width == str(2 * 320)  # two cameras side by side
        widths = image_widths(shown)
        assert len(widths) == 2 * 6
        assert set(widths) == {204 + 136}  # both cameras, 136 high
        assert shown.locator("summary").first.text_content() == "reached stage 1: 2 of 8 episodes"
        assert "6 of 8" in shown.locator("table").first.text_content()
        legend = shown.locator(".legend").first.locator("span").all_text_contents()
        assert legend == ["predicted", "executed", "closest demonstration"]
        assert shown.locator("svg .title").first.text_content() == "move (m/step)"
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with Image.open(rollout_report / "film_strip.png") as strip:
        assert strip.width > strip.height > 0
    assert not (rollout_report / "attention.png").exists()  # this policy has no attention


def test_what_is_shown_is_what_the_policy_looked_at() -> None:
    def episode(execute_steps: int) -> EpisodeResult:
        steps = np.arange(217)
        captured = steps - steps % execute_steps
        return EpisodeResult(0, True, 217, np.zeros((217, 1), np.float32), captured=captured)

    assert _asked(episode(60), 4) == [0, 60, 120, 180]
    assert _asked(episode(100), 4) == [0, 100, 200]
    assert _asked(episode(1), 2) == [0, 216]


def test_joints_are_actions_of_the_same_name_and_unit() -> None:
    states = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    np.testing.assert_equal(match_joints(SCHEMA, states), [[1.0, np.nan], [3.0, np.nan]])
    degrees = replace(SCHEMA, action_units=("deg", "rad/s"))
    assert np.isnan(match_joints(degrees, states)).all()


def test_failures_say_what_their_stage_means() -> None:
    task = aloha_environment_id("TransferCube")
    failure = EpisodeResult(3, False, 9, np.zeros((9, 14), np.float32), stage=2)
    (group,) = group_failures([failure], [], stages_in_words(task))
    assert group.reached == "reached stage 2, the right gripper has lifted the cube: "
    assert group.seeds == [3]
    (group,) = group_failures([failure], [], stages_in_words("other"))
    assert group.reached == "reached stage 2: "


def test_every_stage_has_failures_to_look_at() -> None:
    stages = [0, 0, 0, 2, 2, 1]
    failures = [
        EpisodeResult(seed, False, 1, np.zeros((1, 1), np.float32), stage)
        for seed, stage in enumerate(stages)
    ]
    assert [one.seed for one in _of_every_stage(failures)] == [0, 3, 5, 1, 4, 2]
    assert _of_every_stage([]) == []


def test_errors_of_a_joint_end_at_the_same_digit() -> None:
    assert format_errors([0.00231, 0.2871, 7e-21]) == ["0.0023", "0.2871", "0.0000"]
    assert format_errors([12345.6, 1.26]) == ["12346", "1"]
    assert format_errors([2.1e-5, 1.1e-6]) == ["0.000021", "0.000001"]
    assert format_errors([0.0, 0.0]) == ["0", "0"]


def test_moments_are_those_of_the_episode(rollout_report: Path) -> None:
    assert spread(11, 3) == [0, 5, 10]
    assert spread(2, 6) == [0, 1]
    actions = np.full((4, 1), 0.03, np.float32)
    looks = [Look(EpisodeResult(10, False, 4, actions), (0, 4), height) for height in (None, 16)]
    schema = load(Path("x")).schema
    seen, larger = see_moments(build, schema, looks, 1)
    np.testing.assert_allclose(seen.states[:, 0], [0, 0.03, 0.06, 0.09, 0.12], atol=1e-6)
    assert list(seen.moments) == [0, 4]
    assert seen.moments[4].images["front"].shape == (8, 12, 3)
    assert larger.moments[4].images["front"].shape == (16, 24, 3)


SCHEMA = Schema(
    cameras=(Camera("top", 32, 48), Camera("wrist", 32, 32)),
    state_names=("elbow", "grip"),
    state_units=("rad", "mm"),
    action_names=("elbow", "spin"),
    action_units=("rad", "rad/s"),
    rate=10.0,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as training leaves it, with a network that was not trained, and its demonstrations."""
    folder = tmp_path_factory.mktemp("robot")
    rng = np.random.default_rng(0)
    for episode, steps in enumerate((9, 7, 8)):
        state = np.cumsum(rng.normal(size=(steps, 2)), axis=0).astype(np.float32)
        shapes = {c.name: (steps, c.height, c.width, 3) for c in SCHEMA.cameras}
        images = {name: rng.integers(0, 256, shape, np.uint8) for name, shape in shapes.items()}
        path = folder / "demonstrations" / f"episode_{episode:06}.hdf5"
        write_episode(path, SCHEMA, images, state, state + 1, seed=episode)
    data = open_dataset(folder / "demonstrations")
    policy = smallest_policy(data.schema, compute_statistics(data, [0, 1]))
    (folder / "run" / "checkpoints").mkdir(parents=True)
    torch.save(to_checkpoint(policy), folder / "run" / "checkpoints" / "best.ckpt")
    (folder / "run" / "metrics.csv").write_text(METRICS)
    settings = {
        "seed": 0,
        "data": {"path": str(data.folder), "batch_size": 2, "held_out_episodes": [2]},
    }
    (folder / "run" / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    return folder / "run"


def evaluated(*arguments: str) -> None:
    """As `scripts/evaluate.py` is called."""
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        config = compose("evaluate", list(arguments))
    evaluate_command.main(config)


def test_replay_of_a_run_scores_what_it_held_out(run: Path) -> None:
    evaluated(f"checkpoint={run}", "mode=replay")
    written = json.loads((run / "replay" / "evaluation.json").read_text())
    assert written["mode"] == "replay"
    assert written["data"]["episodes"] == ["episode_000002.hdf5"]
    assert written["data"]["chunks"] == 8
    assert "held out of training" in written["data"]["which"]
    assert written["nearest_demonstration_from"] == "the 2 episodes that the policy was trained on"
    assert written["hold_still_repeats"] == {"elbow": "state", "spin": "zero"}
    hold = written["errors"]["hold_still"]["horizon"]["elbow"]
    assert hold[0] == pytest.approx(1.0, abs=1e-5)  # the elbow is told to be 1 rad further on
    policy = ACTPolicy.load(run)
    data = open_dataset(run.parent / "demonstrations")
    first = [
        policy.predict_chunk(
            Observation({n: data.frame(2, t, n) for n in ("top", "wrist")}, data.state(2)[t])
        )[0]
        for t in range(8)
    ]
    expected = np.abs(np.stack(first) - data.action(2)).mean(axis=0)
    found = [written["errors"]["policy"]["horizon"][name][0] for name in ("elbow", "spin")]
    np.testing.assert_allclose(found, expected, rtol=1e-4)

    with opened(run / "replay" / "report.html") as shown:
        assert headings(shown) == [
            "Open-loop error",
            "The demonstration",
            "Predicted chunks and a demonstration",
            "Attention",
            "Training",
            "Made with",
        ]
        widths = image_widths(shown)
        # a strip of 6 a camera; at 4 moments, for 3 queries: image, mean and 2 heads a camera
        assert len(widths) == 2 * 6 + 4 * 3 * 2 * 4
        assert min(widths) > 0
        assert "rad/s" in shown.locator("table").first.text_content()
        shares = shown.locator("details table").first
        assert shares.locator("th").all_text_contents() == ["", "all heads", "head 1", "head 2"]
        read = shares.locator("tbody td:first-child").all_text_contents()
        assert read == ["latent", "state", "camera top", "camera wrist"]
        assert "does not move spin" in shown.locator("p").first.text_content()
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with Image.open(run / "replay" / "attention.png") as made:
        assert made.height == 4 * 168 + 3 * 6


def test_replay_of_other_demonstrations_and_chosen_episodes(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in (run.parent / "demonstrations").glob("*.hdf5"):
        (other / path.name).write_bytes(path.read_bytes())
    bundle = tmp_path / "bundle"
    ACTPolicy.load(run).save(bundle)
    evaluated(f"checkpoint={bundle}", "mode=replay", f"data.path={other}", f"out={tmp_path / 'a'}")
    written = json.loads((tmp_path / "a" / "evaluation.json").read_text())
    assert len(written["data"]["episodes"]) == 3
    assert written["nearest_demonstration_from"] == "the other episodes scored here"
    chosen = ("data.episodes=[0]", "data.chunks=2", f"out={tmp_path / 'b'}")
    evaluated(f"checkpoint={run}", "mode=replay", *chosen)
    written = json.loads((tmp_path / "b" / "evaluation.json").read_text())
    assert written["data"]["chunks"] == 2
    assert "1 of which were trained on" in written["data"]["which"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mode=replays"], "expected rollout or replay"),
        (["data.path=somewhere"], "data.path: for mode=replay"),
        (["data.episodes=[0]", "data.chunks=3"], "data.episodes, data.chunks: for mode=replay"),
        (["mode=replay", "execute_steps=4"], "execute_steps: for mode=rollout"),
        (["mode=replay", "episodes=5"], "episodes: for mode=rollout.*data.episodes chooses"),
        (["mode=replay", "data.episodes=[7]"], r"data.episodes: episodes \[7\].*0 to 2"),
        (["mode=replay", "data.chunks=0"], "data.chunks=0"),
        (["mode=replay", "data.path=/nowhere"], "/nowhere: no such folder"),
        (["mode=replay", "demonstrations=/nowhere"], "were not found; give data.path"),
    ],
)
def test_what_cannot_be_replayed_is_refused(run: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        evaluated(f"checkpoint={run}", *arguments)
