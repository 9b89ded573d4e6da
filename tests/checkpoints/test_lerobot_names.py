"""LeRobot checkpoints whose names or inputs are unusual: rename_map, and no state."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from act_policy.checkpoints.lerobot.checkpoint import load_lerobot, save_lerobot
from act_policy.errors import UserError
from act_policy.export.parity import random_observation
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, Schema
from tests.policy_for_tests import smallest_policy
from tests.tolerance import network_rounding

EXPRESSIBLE = {"backbone_stages": 4, "backbone_width": 1.0, "backbone_norm": "frozen_batch"}
PREPROCESSOR = "policy_preprocessor.json"
JOINTS = ("x", "y")
SCHEMA = Schema(
    cameras=(Camera("top", 64, 64), Camera("wrist", 48, 64)),
    state_names=JOINTS,
    state_units=("rad",) * 2,
    action_names=JOINTS,
    action_units=("rad",) * 2,
    rate=10.0,
)


def save(policy: ACTPolicy, folder: Path, rename_map: dict[str, str]) -> Path:
    """Save without our schema, with a map of the names that LeRobot is given."""
    save_lerobot(policy, folder)
    (folder / "schema.json").unlink()
    file = folder / PREPROCESSOR
    plain = json.loads(file.read_text())
    plain["steps"][0]["config"]["rename_map"] = rename_map
    file.write_text(json.dumps(plain))
    return folder


def same(one: ACTPolicy, other: ACTPolicy, renamed: dict[str, str]) -> None:
    observation = random_observation(one, 2, np.random.default_rng(0))
    images = {renamed.get(name, name): image for name, image in observation.images.items()}
    found = other.predict_chunk(observation._replace(images=images))
    tolerance = network_rounding(3000, np.abs(found).max())
    expected = one.predict_chunk(observation)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_cameras_have_the_names_that_lerobot_is_given(tmp_path: Path) -> None:
    policy = smallest_policy(SCHEMA, **EXPRESSIBLE)
    camera = "observation.images."
    renamed = {
        f"{camera}front": f"{camera}top",
        "observation.image": f"{camera}wrist",
        f"{camera}not_there": f"{camera}nor_here",
    }
    loaded = load_lerobot(save(policy, tmp_path / "a", renamed))
    assert loaded.schema.camera_names == ("front", "image")
    same(policy, loaded, {"top": "front", "wrist": "image"})
    with pytest.raises(UserError, match=r"expects .*front"):
        loaded.predict_chunk(random_observation(policy, 1, np.random.default_rng(0)))
    swapped = {f"{camera}top": f"{camera}wrist", f"{camera}wrist": f"{camera}top"}
    loaded = load_lerobot(save(policy, tmp_path / "b", swapped))
    assert loaded.schema.camera_names == ("wrist", "top")
    same(policy, loaded, {"top": "wrist", "wrist": "top"})
    twice = {f"{camera}a": f"{camera}top", f"{camera}b": f"{camera}top"}
    with pytest.raises(UserError, match=r"rename_map makes .*top of both .*a and .*b"):
        load_lerobot(save(policy, tmp_path / "c", twice))


@pytest.mark.parametrize("latent", [{}, {"latent_size": 4, "latent_layers": 1}])
def test_a_checkpoint_may_have_no_state(tmp_path: Path, latent: dict[str, int]) -> None:
    """The tensors that LeRobot makes without `robot_state_feature`: a token less of each kind."""
    schema = replace(SCHEMA, state_names=(), state_units=())
    policy = smallest_policy(schema, **EXPRESSIBLE, **latent)
    save_lerobot(policy, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert "observation.state" not in config["input_features"]
    tensors = load_file(tmp_path / "model.safetensors")
    assert not any("state" in name for name in tensors)
    assert tensors["model.encoder_1d_feature_pos_embed.weight"].shape[0] == 1
    if latent:
        assert tensors["model.vae_encoder_pos_enc"].shape[1] == 1 + policy.chunk_length
    loaded = load_lerobot(tmp_path)
    assert loaded.schema == schema
    same(policy, loaded, {})
