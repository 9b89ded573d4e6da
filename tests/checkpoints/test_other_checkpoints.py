"""Checkpoints of other software: what is found in them, how they are told apart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.checkpoints.lerobot.checkpoint import load_lerobot, save_lerobot
from act_policy.checkpoints.lerobot.statistics import Normalisation, PolicyFeature, to_statistics
from act_policy.checkpoints.locate import find_weights, identity
from act_policy.checkpoints.open import open_network
from act_policy.checkpoints.source import Source
from act_policy.errors import UserError
from act_policy.export.export import ExportConfig, export_policy
from act_policy.export.parity import random_observation
from act_policy.model.normalizer import Normalizer
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import ImageStatistics
from tests.checkpoints.lerobot_for_tests import (
    both_processors,
    change_config,
    change_features,
    rewrite,
)
from tests.checkpoints.test_original_act import arrays, original
from tests.export.export_for_tests import run_script
from tests.tolerance import RESNET18, network_rounding


def assert_same_chunk(found: np.ndarray, expected: np.ndarray) -> None:
    tolerance = network_rounding(RESNET18, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_cameras_keep_their_names_and_order(policy: ACTPolicy, checkpoint: Path) -> None:
    """Bound by name: tokens stand in the order of input_features, observations in any."""
    config = json.loads((checkpoint / "config.json").read_text())
    cameras = [key for key in config["input_features"] if "images" in key]
    assert cameras == [f"observation.images.{name}" for name in ("top", "left", "right")]
    observation = random_observation(policy, 2, np.random.default_rng(0))
    again = load_lerobot(checkpoint)
    assert again.schema == policy.schema
    reordered = observation._replace(images=dict(reversed(observation.images.items())))
    expected = policy.predict_chunk(observation)
    assert_same_chunk(again.predict_chunk(reordered), expected)

    def turn_round(plain: dict[str, Any]) -> None:
        plain["input_features"] = dict(reversed(plain["input_features"].items()))

    rewrite(checkpoint / "config.json", turn_round)
    (checkpoint / "schema.json").unlink()
    other = load_lerobot(checkpoint)
    assert other.schema.camera_names == ("right", "left", "top")
    assert other.schema.state_names == ("state_0", "state_1")
    assert_same_chunk(other.predict_chunk(observation), expected)
    names = {"state_names": ["a", "b"], "state_units": ["m", "m"], "rate": 12.5}
    names |= {"environment": "here"}
    names |= {"action_names": ["c", "d", "e"], "action_units": ["m", "m", "m"]}
    named = load_lerobot(checkpoint, {**names, "environment_state_names": ["cube"]})
    assert (named.schema.rate, named.schema.state_names) == (12.5, ("a", "b"))


def test_each_camera_may_have_its_own_statistics(policy: ACTPolicy, checkpoint: Path) -> None:
    """They reach the right camera, survive our bundle and LeRobot's folder."""
    means = {"top": 0.2, "left": 0.4, "right": 0.6}

    def change(statistics: dict[str, torch.Tensor]) -> None:
        for name, mean in means.items():
            statistics[f"observation.images.{name}.mean"].fill_(mean)
            statistics[f"observation.images.{name}.std"].fill_(0.5)

    both_processors(checkpoint, change)
    found = load_lerobot(checkpoint)
    black = torch.zeros(1, 4, 4, 3, dtype=torch.uint8)
    for name, mean in means.items():
        image = found.normalizer.images(black, name)
        torch.testing.assert_close(image, torch.full_like(image, -mean / 0.5))
    observation = random_observation(policy, 2, np.random.default_rng(0))
    chunk = found.predict_chunk(observation)
    assert np.abs(chunk - policy.predict_chunk(observation)).max() > 1e-3
    found.save(checkpoint / "bundle")
    np.testing.assert_array_equal(
        ACTPolicy.load(checkpoint / "bundle").predict_chunk(observation), chunk
    )
    save_lerobot(found, checkpoint / "again")
    again = load_lerobot(checkpoint / "again").predict_chunk(observation)
    assert_same_chunk(again, chunk)
    statistics = policy.statistics._replace(
        images={"top": ImageStatistics(np.zeros(3), np.ones(3))}
    )
    with pytest.raises(
        UserError, match=r"statistics of images: cameras \['top'\], expected \['left"
    ):
        ACTPolicy(policy.config, policy.schema, statistics)


@pytest.mark.parametrize(
    ("config", "steps", "coefficient"),
    [
        ({"n_action_steps": 2}, 2, None),
        ({"n_action_steps": 1, "temporal_ensemble_coeff": 0.01}, None, 0.01),
        ({"n_action_steps": 100}, None, None),  # of more than the chunk has
    ],
)
def test_chunks_are_executed_as_by_lerobot(
    config: dict[str, Any], steps: int | None, coefficient: float | None, checkpoint: Path
) -> None:
    change_config(**config)(checkpoint)
    policy = open_network(checkpoint)
    found = policy.execution
    assert (found.execute_steps, found.ensemble_coefficient) == (steps, coefficient)
    save_lerobot(policy, checkpoint / "again")
    assert load_lerobot(checkpoint / "again").execution == found


def test_what_is_left_behind_is_said(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    change_features(lambda f: f.update({"observation.effort": {"type": "STATE", "shape": [9]}}))(
        checkpoint
    )
    (checkpoint / "schema.json").unlink()
    open_network(checkpoint)
    for said in ("observation.effort", "30 steps"):
        assert said in caplog.text


@pytest.mark.parametrize("widened", [True, False])
@pytest.mark.parametrize("mode", ["MIN_MAX", "QUANTILES", "QUANTILE10"])
def test_a_constant_within_a_range(mode: str, widened: bool) -> None:
    """A joint that never moved reads -1, as in LeRobot, and a constant action comes back."""
    low, high = np.array([0.3, -2.0, 90.0]), np.array([0.3, 4.0, 90.0])
    values = dict.fromkeys(("min", "q01", "q10"), low) | dict.fromkeys(("max", "q99", "q90"), high)
    key = ("observation.state", "action")
    normalisation = Normalisation(
        dict.fromkeys(key, mode), dict.fromkeys(key, values), widened=widened
    )
    features = {key[0]: PolicyFeature("STATE", (3,)), key[1]: PolicyFeature("ACTION", (3,))}
    normalizer = Normalizer(to_statistics(normalisation, features, {}))
    state = normalizer.state(torch.tensor([[0.3, -2.0, 90.0], [0.3, 4.0, 90.0]]))
    torch.testing.assert_close(state, torch.tensor([[-1.0, -1, -1], [-1, 1, -1]]))
    actions = normalizer.physical_actions(
        torch.tensor([[[7.0, -1, 7], [-7, 1, -7]]]), torch.zeros(1, 3)
    )
    expected = torch.tensor([[[0.3, -2.0, 90.0], [0.3, 4.0, 90.0]]])
    torch.testing.assert_close(actions, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.slow
def test_exported_beside_a_bundle_and_over_an_earlier_one(
    policy: ACTPolicy, tmp_path: Path
) -> None:
    (tmp_path / "lerobot").mkdir()
    (tmp_path / "lerobot" / "config.json").write_text("earlier")
    report = export_policy(policy, tmp_path, ExportConfig(("bundle", "lerobot")))
    assert report["formats"]["lerobot"]["largest_error_in_std"] <= 1e-4
    observation = random_observation(policy, 1, np.random.default_rng(1))
    expected = policy.predict_chunk(observation)
    for folder in (tmp_path, tmp_path / "lerobot"):
        assert_same_chunk(open_network(folder).predict_chunk(observation), expected)


def test_lerobots_run_folders(exported: Path, tmp_path: Path) -> None:
    """A run, one of its checkpoints, and a run whose link `last` was lost in copying."""
    for number in ("000500", "001000"):
        (tmp_path / "run/checkpoints" / number).mkdir(parents=True)
        (tmp_path / "run/checkpoints" / number / "pretrained_model").symlink_to(exported)
    newest = tmp_path / "run/checkpoints/001000/pretrained_model/model.safetensors"
    assert find_weights(tmp_path / "run") == newest
    open_network(tmp_path / "run/checkpoints/000500")
    (tmp_path / "run/checkpoints/last").symlink_to("000500")
    assert "last" in find_weights(tmp_path / "run").parts
    assert identity(tmp_path / "run") == identity(exported) | {"path": str(tmp_path / "run")}


def test_source_is_only_for_those_that_need_it(policy: ACTPolicy, exported: Path) -> None:
    with pytest.raises(UserError, match=r"leave out source\.cameras"):
        open_network(exported, Source(cameras=("top",)))
    policy.save(exported.parent / "bundle")
    with pytest.raises(UserError, match=r"leave out source\.schema"):
        open_network(exported.parent / "bundle", Source(schema="names.json"))
    assert open_network(exported.parent / "bundle", Source()).schema == policy.schema


def test_source_settings() -> None:
    empty = {"cameras": None, "image_size": None, "heads": None, "schema": None}
    assert Source.from_config(empty) == Source()
    given = {**empty, "cameras": "top", "image_size": [96, 128]}
    assert Source.from_config(given) == Source(("top",), (96, 128))
    for field, value in (("image_size", 96), ("image_size", [96, 0]), ("heads", 2.5)):
        with pytest.raises(UserError, match=rf"source\.{field}\b.*expected"):
            Source.from_config({**empty, field: value})


@pytest.mark.slow
def test_the_scripts_take_them(policy: ACTPolicy, exported: Path, tmp_path: Path) -> None:
    done = run_script(f"checkpoint={exported}", "format=bundle", f"out={tmp_path / 'bundle'}")
    assert done.returncode == 0, done.stderr
    observation = random_observation(policy, 1, np.random.default_rng(1))
    found = ACTPolicy.load(tmp_path / "bundle").predict_chunk(observation)
    assert_same_chunk(found, policy.predict_chunk(observation))
    folder = original(tmp_path / "act", arrays())
    done = run_script(f"checkpoint={folder}", f"out={tmp_path / 'out'}")
    assert done.returncode == 2
    assert "source.image_size" in done.stderr
    done = run_script(f"checkpoint={folder}", f"out={tmp_path / 'out'}", "source.image_size=[96]")
    assert done.returncode == 2
    assert "expected [HEIGHT,WIDTH]" in done.stderr
