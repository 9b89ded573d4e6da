"""Checkpoints of the original ACT code: a state dict, and statistics in a pickle of numpy arrays.

The weights are LeRobot's under other names, with a few that the original never uses. The user
has to give what the two files do not say: cameras, image size, attention heads.

Source: tonyzhaozh/act, detr/models/detr_vae.py, imitate_episodes.py and utils.py.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from act_policy.checkpoints.files import read_state_dict
from act_policy.checkpoints.lerobot.weights import from_lerobot
from act_policy.checkpoints.locate import (
    ORIGINAL_STATISTICS_FILE,
    ORIGINAL_WEIGHTS_FILES,
    find_first,
)
from act_policy.checkpoints.source import Source
from act_policy.data.schemas import ALOHA_NAMES, aloha_schema, read_schema
from act_policy.errors import UserError, located
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.types import Camera

ORIGINAL_WIDTH, ORIGINAL_HEADS = 512, 8
"""Of the original's recipe. The weights fit any number of heads that divides the width."""

# Original to LeRobot; the first that fits counts.
_STARTS = {
    "transformer.": "",
    "encoder.": "vae_encoder.",
    "backbones.0.0.body.": "backbone.",
    "input_proj.": "encoder_img_feat_input_proj.",
    "input_proj_robot_state.": "encoder_robot_state_input_proj.",
    "query_embed.": "decoder_pos_embed.",
    "cls_embed.": "vae_encoder_cls_embed.",
    "encoder_joint_proj.": "vae_encoder_robot_state_input_proj.",
    "encoder_action_proj.": "vae_encoder_action_input_proj.",
    "latent_proj.": "vae_encoder_latent_output_proj.",
    "latent_out_proj.": "encoder_latent_input_proj.",
    "additional_pos_embed.": "encoder_1d_feature_pos_embed.",
    "pos_table": "vae_encoder_pos_enc",
}
_STATISTICS = ("action_mean", "action_std", "qpos_mean", "qpos_std")
_MORE_STATISTICS = ("action_min", "action_max", "example_qpos")
# All that a pickled array of numbers needs, by the names of numpy 1 and 2.
_ADMITTED = {
    (module, name)
    for package in ("numpy.core", "numpy._core")
    for module, name in (
        (f"{package}.multiarray", "_reconstruct"),
        (f"{package}.multiarray", "scalar"),
        (f"{package}.numeric", "_frombuffer"),
    )
} | {("numpy", "ndarray"), ("numpy", "dtype")}


class _ArraysOnly(pickle.Unpickler):
    """Reads numpy arrays and plain containers; any other name in the file is refused unread."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not a numpy array")
        return super().find_class(module, name)


def load_original_act(path: Path, source: Source) -> ACTPolicy:
    """Load a checkpoint of the original ACT; no code in its files is run.

    Args:
        path: the folder (policy_best.ckpt, else policy_last.ckpt) or one .ckpt file in it.
        source: cameras and image size, and the rest where it is not the original's; without a
            schema it is ALOHA's, of 14 dimensions at 50 Hz.

    Raises:
        UserError: cameras or image size are not given, or the files do not hold such a policy.
    """
    weights_path = path if path.is_file() else find_first(path, ORIGINAL_WEIGHTS_FILES)
    if weights_path is None:
        raise UserError(
            f"{path} holds neither {' nor '.join(ORIGINAL_WEIGHTS_FILES)}; name the file itself"
        )
    with located(f"original ACT checkpoint {weights_path}"):
        theirs = _weights(weights_path)
        cameras = _cameras(source, theirs)
        statistics = _statistics(weights_path.parent / ORIGINAL_STATISTICS_FILE)
        config = _config(theirs, cameras, source.heads or ORIGINAL_HEADS)
        if source.schema is not None:
            schema = read_schema(source.schema, cameras)
        elif config.state_size == config.action_size == len(ALOHA_NAMES):
            schema = aloha_schema(cameras)
        else:
            raise UserError(
                f"it has {config.state_size} joints and {config.action_size} actions, not ALOHA's "
                f"{len(ALOHA_NAMES)}; name them with source.schema=FILE.json"
            )
        policy = ACTPolicy(config, schema, statistics)
        policy.act.load_state_dict(from_lerobot(config, theirs))
        return policy.eval()


def _cameras(source: Source, weights: Mapping[str, Tensor]) -> tuple[Camera, ...]:
    """Make the cameras; one message asks for everything that is missing, the heads as well."""
    asked = []
    if not source.cameras or source.image_size is None:
        asked.append(
            "it says neither cameras nor image size; give source.cameras=[NAME,...] in the order "
            "of training and source.image_size=[HEIGHT,WIDTH]"
        )
    head = weights.get("action_head.weight")
    width = ORIGINAL_WIDTH if head is None or head.dim() != 2 else head.shape[1]
    if source.heads is None and width != ORIGINAL_WIDTH:
        asked.append(
            f"its width is {width}, not the original's {ORIGINAL_WIDTH}, and no tensor says "
            "the number of attention heads; give source.heads=NUMBER (nheads of its training)"
        )
    if asked or not source.cameras or source.image_size is None:
        raise UserError("; ".join(asked))
    return tuple(Camera(name, *source.image_size) for name in source.cameras)


def _weights(path: Path) -> dict[str, Tensor]:
    """Read the state dict under LeRobot's names, without what the original never uses."""
    found: dict[str, Tensor] = {}
    for key, tensor in read_state_dict(path).items():
        name = key.removeprefix("model.")
        for start, new in _STARTS.items():
            if name.startswith(start):
                name = new + name.removeprefix(start)
                break
        # It configures seven decoder layers and reads the first; the padding it predicts has no
        # loss that reaches the policy.
        layer = name.split(".")[2] if name.startswith("decoder.layers.") else "0"
        if layer == "0" and not name.startswith("is_pad_head."):
            found[name] = tensor
    return found


def _config(weights: Mapping[str, Tensor], cameras: tuple[Camera, ...], heads: int) -> ACTConfig:
    """Read the sizes off the tensors; `from_lerobot` then checks every one."""

    def shape(name: str) -> torch.Size:
        if name not in weights or weights[name].dim() < 2:
            raise UserError(f"not an original ACT network: it lacks the matrix {name}")
        return weights[name].shape

    def layers(prefix: str) -> int:
        found = {n.removeprefix(prefix).split(".")[0] for n in weights if n.startswith(prefix)}
        return len(found)

    action_size, width = shape("action_head.weight")
    backbone = "resnet34" if "backbone.layer1.2.conv1.weight" in weights else "resnet18"
    if "backbone.layer1.0.conv3.weight" in weights:
        backbone = "resnet50"
    return ACTConfig(
        cameras=cameras,
        state_size=shape("encoder_robot_state_input_proj.weight")[1],
        action_size=action_size,
        chunk_length=shape("decoder_pos_embed.weight")[0],
        width=width,
        heads=heads,
        feedforward_width=shape("encoder.layers.0.linear1.weight")[0],
        encoder_layers=layers("encoder.layers."),
        decoder_layers=1,
        pre_norm="encoder.norm.weight" in weights,
        latent_size=shape("encoder_latent_input_proj.weight")[1],
        latent_layers=layers("vae_encoder.layers."),
        backbone=backbone,  # type: ignore[arg-type]
    )


def _statistics(path: Path) -> Statistics:
    try:
        with open(path, "rb") as file:
            found = _ArraysOnly(file).load()
    except Exception as error:  # a pickle may be broken in any way
        raise UserError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path.name} does not hold a dictionary")
    problems = [f"lacks {name}" for name in _STATISTICS if name not in found]
    problems += [f"has unknown {n}" for n in found if n not in _STATISTICS + _MORE_STATISTICS]
    arrays: dict[str, np.ndarray] = {}
    for name, value in found.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
            problems.append(f"{name} is not an array of numbers")
        elif not np.isfinite(value).all():
            problems.append(f"{name} is not finite")
        else:
            arrays[name] = value.astype(np.float64).reshape(-1)
    problems += [
        f"{name} is not positive"
        for name in ("qpos_std", "action_std")
        if name in arrays and not (arrays[name] > 0).all()
    ]
    if problems:
        raise UserError(f"{path.name} {'; '.join(problems)}")

    def field(prefix: str) -> FieldStatistics:
        mean, std = arrays[f"{prefix}_mean"], arrays[f"{prefix}_std"]
        unknown = np.full(mean.shape, np.nan)
        low, high = (arrays.get(f"{prefix}_{end}", unknown) for end in ("min", "max"))
        if not mean.shape == std.shape == low.shape == high.shape:
            raise UserError(f"{path.name}: the arrays of {prefix} differ in size")
        return FieldStatistics(mean, std, low, high)

    state, action = field("qpos"), field("action")
    # The original has clipped them at 1e-2 already.
    floor = float(min(state.std.min(), action.std.min()))
    return Statistics(state, action, step_count=0, std_floor=floor)
