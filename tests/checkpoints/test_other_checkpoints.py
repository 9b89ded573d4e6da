"""Checkpoints of other software: what is refused, what is found, how they are told apart."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

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
from tests.checkpoints.test_original_act import arrays, original
from tests.export.test_export import make_policy, run_script
from tests.tolerance import RESNET18, network_rounding

EXPRESSIBLE = {
    "backbone_stages": 4,
    "backbone_width": 1.0,
    "backbone_norm": "frozen_batch",
    "camera_embedding": False,
}
PREPROCESSOR = "policy_preprocessor.json"
STATISTICS = "policy_preprocessor_step_3_normalizer_processor.safetensors"


@pytest.fixture(scope="module")
def policy() -> ACTPolicy:
    return make_policy(**EXPRESSIBLE)


@pytest.fixture(scope="module")
def exported(policy: ACTPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lerobot") / "exported"
    save_lerobot(policy, folder)
    return folder


@pytest.fixture
def checkpoint(exported: Path, tmp_path: Path) -> Path:
    """A copy to spoil; the weights are a link until they are written."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(exported, folder, copy_function=os.link)
    return folder


def assert_same_chunk(found: np.ndarray, expected: np.ndarray) -> None:
    tolerance = network_rounding(RESNET18, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON or safetensors file; the other name of the same file keeps what it has."""
    if path.suffix == ".json":
        plain = json.loads(path.read_text())
        changed = change(plain)
        path.unlink()
        path.write_text(json.dumps(plain if changed is None else changed))
    else:
        tensors = load_file(path)
        change(tensors)
        path.unlink()
        save_file(tensors, path)


def step(plain: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in plain["steps"] if s["registry_name"] == name)
    return found


def both_processors(folder: Path, change: Callable[[Any], Any]) -> None:
    for file in (STATISTICS, "policy_postprocessor_step_0_unnormalizer_processor.safetensors"):
        rewrite(folder / file, change)


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


def change_config(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / "config.json", lambda plain: {**plain, **fields})


def change_weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    return lambda folder: rewrite(folder / "model.safetensors", change)


def change_features(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(plain: dict[str, Any]) -> None:
        change(plain["input_features"])

    return lambda folder: rewrite(folder / "config.json", changed)


def change_step(
    name: str, change: Callable[[dict[str, Any]], Any], file: str = PREPROCESSOR
) -> Callable[[Path], None]:
    return lambda folder: rewrite(
        folder / file, lambda plain: change(step(plain, name)["config"]) and None
    )


def change_statistics(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    return lambda folder: both_processors(folder, change)


STATE_STD = "observation.state.std"
QUERIES = "model.decoder_pos_embed.weight"
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "other type": (change_config(type="diffusion"), "'diffusion'"),
    "unknown fields": (change_config(rope=1, n_wheels=4), "unknown fields n_wheels, rope"),
    "glu": (change_config(feedforward_activation="glu"), "glu halves its input"),
    "dilation": (change_config(replace_final_stride_with_dilation=True), "no dilation"),
    "several steps": (change_config(n_obs_steps=2), "n_obs_steps=2"),
    "adapter": (change_config(use_peft=True), "use_peft"),
    "backbone": (change_config(vision_backbone="resnet101"), "resnet101"),
    "no state": (
        change_features(lambda f: f.pop("observation.state")),
        "state_size: the network has 0, the schema 2",
    ),
    "no camera": (
        change_features(lambda f: [f.pop(k) for k in list(f) if "images" in k]),
        "no camera",
    ),
    "other feature": (
        change_features(lambda f: f.update(lidar={"type": "STATE", "shape": [9]})),
        r"lidar: STATE \[9\]",
    ),
    "depth": (
        change_features(lambda f: f["observation.images.top"].update(shape=[4, 32, 48])),
        r"images.top: VISUAL \[4, 32, 48\]",
    ),
    "missing and extra tensors": (
        change_weights(
            lambda w: w.update({"model.extra": w.pop(QUERIES), "model.more": torch.zeros(2)})
        ),
        r"missing decoder_pos_embed.weight \(4, 16\); unknown extra \(4, 16\); unknown more \(2,\)",
    ),
    "other shape": (
        change_weights(lambda w: w.update({QUERIES: torch.zeros(5, 16)})),
        r"decoder_pos_embed.weight is \(5, 16\) instead of \(4, 16\)",
    ),
    "extra module": (
        change_weights(lambda w: w.update({"critic.weight": torch.zeros(5)})),
        "unknown tensors critic.weight",
    ),
    "other table": (
        change_weights(lambda w: w["model.vae_encoder_pos_enc"].add_(0.1)),
        "vae_encoder_pos_enc is not the sinusoidal table",
    ),
    "statistics are missing": (
        change_statistics(lambda s: [s.pop(STATE_STD), s.pop("action.mean")]),
        r"observation.state \(MEAN_STD\) lacks std; action \(MEAN_STD\) lacks mean",
    ),
    "statistics of another size": (
        change_statistics(lambda s: s.update({STATE_STD: torch.ones(3)})),
        "observation.state.std has 3 values instead of 2",
    ),
    "statistics are not finite": (
        change_statistics(lambda s: s[STATE_STD].fill_(torch.inf)),
        "observation.state.std is not finite",
    ),
    "quantiles are missing": (
        change_step("normalizer_processor", lambda c: c["norm_map"].update(STATE="QUANTILES")),
        r"observation.state \(QUANTILES\) lacks q01; observation.state \(QUANTILES\) lacks q99",
    ),
    "unknown mode": (
        change_step("normalizer_processor", lambda c: c["norm_map"].update(STATE="LOG")),
        "mode LOG is unknown",
    ),
    "actions come back otherwise": (
        change_step("normalizer_processor", lambda c: c["norm_map"].update(ACTION="MIN_MAX")),
        "normalise differently",
    ),
    "actions come back by other statistics": (
        lambda folder: rewrite(folder / STATISTICS, lambda s: s["action.mean"].add_(1)),
        "action: mean differ",
    ),
    "two renamed to one": (
        change_step(
            "rename_observations_processor",
            lambda c: c["rename_map"].update(dict.fromkeys(("a", "b"), "observation.images.top")),
        ),
        "rename_map makes observation.images.top of both a and b",
    ),
    "other step": (
        lambda folder: rewrite(
            folder / PREPROCESSOR,
            lambda plain: plain["steps"].append({"registry_name": "delta_action_processor"}),
        ),
        "step delta_action_processor",
    ),
    "half precision": (
        change_step("device_processor", lambda c: c.update(float_dtype="float16")),
        "float16",
    ),
    "outside": (
        lambda folder: rewrite(
            folder / PREPROCESSOR,
            lambda plain: step(plain, "normalizer_processor").update(state_file="../secret"),
        ),
        "outside the checkpoint",
    ),
    "no processor": (lambda folder: (folder / PREPROCESSOR).unlink(), "policy_preprocessor.json"),
    "no statistics anywhere": (
        lambda folder: [path.unlink() for path in folder.glob("policy_*")] and None,
        r"observation.state \(MEAN_STD\) lacks mean",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unknown_keys_and_wrong_values_are_refused(case: str, checkpoint: Path) -> None:
    spoil, message = REFUSED[case]
    spoil(checkpoint)
    with pytest.raises(UserError, match=message) as error:
        open_network(checkpoint)
    assert str(checkpoint) in str(error.value)


def test_what_is_left_behind_is_said(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    change_config(n_action_steps=1, temporal_ensemble_coeff=0.01)(checkpoint)
    change_features(lambda f: f.update({"observation.effort": {"type": "STATE", "shape": [9]}}))(
        checkpoint
    )
    (checkpoint / "schema.json").unlink()
    open_network(checkpoint)
    for said in ("execute_steps=1", "ensemble_coefficient=0.01", "observation.effort", "30 steps"):
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


def test_impossible_ranges_are_refused() -> None:
    features = {
        "observation.state": PolicyFeature("STATE", (1,)),
        "action": PolicyFeature("ACTION", (1,)),
    }
    one = np.ones(1)
    values = {
        "observation.state": {"min": one, "max": -one},
        "action": {"mean": one, "std": -one},
    }
    modes = {"observation.state": "MIN_MAX", "action": "MEAN_STD"}
    with pytest.raises(UserError, match=r"max is below min; action\.std is negative"):
        to_statistics(Normalisation(modes, values), features, {})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("camera_embedding", True),
        ("backbone_stages", 3),
        ("backbone_width", 0.5),
        ("backbone_norm", "group"),
    ],
)
def test_what_lerobot_cannot_express_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    policy = make_policy(**{**EXPRESSIBLE, "backbone_width": 0.25, field: value})
    with pytest.raises(UserError, match=f"cannot express .*{field}={value}"):
        export_policy(policy, tmp_path / "out", ExportConfig(("lerobot",)))
    assert not (tmp_path / "out").exists()


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
