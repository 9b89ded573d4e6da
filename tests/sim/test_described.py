"""Simulators that nothing here was written for: a few lines describe them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from act_policy.cli.entry import compose_config, load_yaml, plain
from act_policy.cli.evaluate import prepare_simulator
from act_policy.cli.record import find_simulator
from act_policy.data.aloha.episode import read_recorded_config
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.evaluation.rollouts.demonstrations import TrainingDemonstrations
from act_policy.evaluation.rollouts.run import build_environment, run_episode
from act_policy.sim.described import SimulatorConfig
from act_policy.sim.record import RecordingConfig, record_episode
from tests.paths import ROOT
from tests.sim.slide_for_tests import GOAL, ID

TEACHER = "tests.sim.slide_for_tests:push"
SLIDE = SimulatorConfig(
    ID,
    package="tests.sim.slide_for_tests",
    images={"above": "eyes.above", "drawn": "render"},
    state="bead",
    state_names=["bead"],
    success="reached",
)
CAMERAS = {"above": (4, 20)}
RECORDING = RecordingConfig(ID, CAMERAS, max_steps=30, teacher=TEACHER, tail=2, simulator=SLIDE)


def test_it_observes_what_the_description_says() -> None:
    described = replace(
        SLIDE, state=["bead", "goal"], state_names=None, options={"render_mode": "rgb_array"}
    )
    environment = described.make({"above": (4, 20), "drawn": (8, 40)})
    observation, info = environment.reset(seed=3)
    assert info == {"success": False}
    bead = environment.unwrapped.bead
    np.testing.assert_array_equal(observation["agent_pos"], np.float32([bead, GOAL]))
    assert observation["pixels"]["drawn"][0, :, 0].argmax() == round(39 * bead)
    assert observation["pixels"]["above"].shape == (4, 20, 3)
    assert observation["pixels"]["above"][0, :, 0].argmax() == round(39 * bead) // 2
    schema = environment.schema
    assert schema.camera_names == ("above", "drawn")
    assert schema.states == [("state_0", ""), ("state_1", "")]
    assert (schema.action_names, schema.rate, schema.environment) == (("action_0",), 20.0, ID)


@pytest.mark.parametrize("success", ["reached", "terminated", "reward>=0.8", "reward >= 8e-1"])
def test_success_is_told_by_info_termination_or_reward(success: str) -> None:
    environment = replace(SLIDE, success=success, options={"speed": 0.5}).make(CAMERAS)
    environment.reset(seed=3)
    told = [environment.step(np.float32([1.0]))[-1]["success"] for _ in range(2)]
    assert told == [False, True]


def test_demonstrations_of_a_function_are_recorded_and_evaluated_in_it(tmp_path: Path) -> None:
    environment = RECORDING.make_environment()
    path = tmp_path / "episode_000000.hdf5"
    assert record_episode(environment, RECORDING, 3, path)
    dataset = open_dataset(tmp_path)
    assert (dataset.schema.environment, dataset.schema.teacher) == (ID, TEACHER)
    assert dataset.state(0)[-1] >= GOAL
    kept = read_recorded_config(path)
    assert kept["teacher"] == TEACHER
    # an evaluation finds the description with the demonstrations
    config = compose_config("evaluate", ["checkpoint=x"])
    found = prepare_simulator(config, TrainingDemonstrations([], config=kept))
    assert found == SLIDE
    tried = build_environment(dataset.schema, max_steps=30, simulator=found)
    result = run_episode(tried, lambda observation: np.float32([1.0]), seed=3)
    assert result.success
    assert result.steps == len(dataset.action(0)) - 2
    still = run_episode(tried, lambda observation: np.float32([0.0]), seed=3)
    assert (still.success, still.steps) == (False, 30)
    unnamed = replace(dataset.schema, environment="")  # as of a LeRobotDataset
    assert build_environment(unnamed, simulator=found).schema.environment == ID
    with pytest.raises(UserError, match="is of environment 'x'; simulator= describes 'some"):
        build_environment(replace(unnamed, environment="x"), simulator=found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": "nobodys/Slide-v0"}, "environment nobodys/Slide-v0: "),
        ({"package": "nowhere"}, "No module named 'nowhere'; install what has it"),
        ({"options": {"colour": 1}}, "unexpected keyword argument 'colour'"),
        ({"images": {"above": "eyes.below"}}, "no eyes.below: there is above"),
        ({"images": {"side": "eyes.above"}}, "camera above: simulator.images says where .* side"),
        ({"images": {"above": "render"}}, "render.. draws nothing; simulator.options"),
        ({"images": {"above": "bead"}}, "camera above: image: float64"),
        ({"state": "arm.joints"}, "no arm.joints: there is eyes, bead, goal"),
        ({"state_names": ["x", "y"]}, r"simulator.state_names=\['x', 'y'\]: expected 1"),
        ({"success": "reward>0.8"}, "simulator.success=reward>0.8: expected a number"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(SLIDE, **changes).make(CAMERAS)


def test_success_of_another_name_is_refused_with_those_there_are() -> None:
    environment = replace(SLIDE, success="is_success").make(CAMERAS)
    environment.reset(seed=0)
    with pytest.raises(UserError, match="success=is_success: info has reached; name one of"):
        environment.step(np.float32([1.0]))


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(UserError, match=r"its actions are Discrete\(2\); expected a Box"):
        SimulatorConfig("CartPole-v1", {}, "terminated", state=".").make({})


def test_a_teacher_that_cannot_act_here_is_refused(tmp_path: Path) -> None:
    environment = RECORDING.make_environment()
    for teacher, message in (
        ("tests.sim.slide_for_tests:push_too_much", r"expected \(1,\) finite values, found"),
        ("expert", "no scripted expert for it; teacher=module:function"),
        ("original", "acts in ALOHA's tasks only"),
    ):
        with pytest.raises(UserError, match=message):
            record_episode(environment, replace(RECORDING, teacher=teacher), 0, tmp_path / "x.hdf5")
    with pytest.raises(UserError, match=r"noise=0\.1: only this package's environments know"):
        replace(RECORDING, noise=0.1)


def test_a_simulator_is_named_or_in_a_file(tmp_path: Path) -> None:
    assert prepare_simulator(compose_config("evaluate", ["checkpoint=x"]), None) is None
    for name, message in (
        ("metaworld/reach", "MetaWorld-reach-v0 is one of our environments"),
        ("nowhere", r"simulator=nowhere: there is no .*nowhere\.yaml"),
        (tmp_path / "mine.yaml", r"there is no .*mine\.yaml"),
    ):
        config = compose_config("evaluate", ["checkpoint=x", f"simulator={name}"])
        with pytest.raises(UserError, match=message):
            prepare_simulator(config, None)
    file = tmp_path / "mine.yaml"
    file.write_text(f"env: {ID}\nsimulator: {{images: {{above: eyes}}, success: reached}}\n")
    config = compose_config("evaluate", ["checkpoint=x", f"simulator={file}"])
    assert prepare_simulator(config, None) == SimulatorConfig(ID, {"above": "eyes"}, "reached")


def test_push_t_takes_fifteen_lines() -> None:
    file = ROOT / "configs" / "task" / "pusht.yaml"
    assert len(file.read_text().splitlines()) <= 15
    task = plain(load_yaml(file))
    simulator = find_simulator(task)
    assert find_simulator(plain(load_yaml(file.parent / "metaworld" / "reach.yaml"))) is None
    with pytest.raises(UserError, match="unknown fields picture"):
        SimulatorConfig.from_config(ID, {**task["simulator"], "picture": 1})
    pytest.importorskip("gym_pusht", reason="pip install gym-pusht compares with the real one")
    environment = simulator.make(task["cameras"], task["max_steps"])
    observation, _ = environment.reset(seed=0)
    theirs = gymnasium.make(simulator.environment, obs_type="pixels_agent_pos")
    expected, _ = theirs.reset(seed=0)
    np.testing.assert_array_equal(observation["pixels"]["top"], expected["pixels"])
    np.testing.assert_array_equal(observation["agent_pos"], np.float32(expected["agent_pos"]))
    assert environment.schema.rate == 10.0
    *_, info = environment.step(np.float32([256, 256]))
    assert info["success"] is False
