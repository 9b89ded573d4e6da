"""Checkpoints of LeRobot that cannot be read rightly are refused, by file and field."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.checkpoints.lerobot.statistics import Normalisation, PolicyFeature, to_statistics
from act_policy.checkpoints.open import open_network
from act_policy.errors import UserError
from act_policy.export.export import ExportConfig, export_policy
from tests.checkpoints.lerobot_for_tests import (
    EXPRESSIBLE,
    PREPROCESSOR,
    STATISTICS,
    change_config,
    change_features,
    change_statistics,
    change_step,
    change_weights,
    rewrite,
    step,
)
from tests.export.export_for_tests import make_policy

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
