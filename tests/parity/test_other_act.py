"""Weights of LeRobot and of the original ACT, put into our network, give their numbers.

The key maps live here: they prove that our numerics are theirs.
"""

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from act_policy.model.act import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.types import Camera, FieldStatistics, Observation, Schema, Statistics

BACKBONE = {"backbone.": "image_encoder.backbone."}
VECTORS = {
    "encoder_latent_input_proj.": "latent_projection.",
    "encoder_robot_state_input_proj.": "state_projection.",
    "encoder_img_feat_input_proj.": "image_encoder.projection.",
    "encoder_1d_feature_pos_embed.weight": "vector_positions",
    "decoder_pos_embed.weight": "query_positions",
    "vae_encoder_cls_embed.weight": "latent_encoder.cls",
    "vae_encoder_robot_state_input_proj.": "latent_encoder.state_projection.",
    "vae_encoder_action_input_proj.": "latent_encoder.action_projection.",
    "vae_encoder_latent_output_proj.": "latent_encoder.latent_projection.",
    "vae_encoder.": "latent_encoder.encoder.",
    "decoder.layers.": "decoder.",
    "decoder.norm.": "decoder_norm.",
}
ORIGINAL_TO_LEROBOT = {
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


def renamed(key: str, prefixes: dict[str, str]) -> str:
    for old, new in prefixes.items():
        if key.startswith(old):
            return new + key.removeprefix(old)
    return key


def ours_from_lerobot(theirs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    ours: dict[str, torch.Tensor] = {}
    for their_key, tensor in theirs.items():
        key = renamed(their_key, BACKBONE | VECTORS)
        if key == "vae_encoder_pos_enc":
            continue
        decoder = key.startswith("decoder.")
        key = key.replace(".self_attn.", ".self_attention." if decoder else ".attention.")
        key = key.replace(".multihead_attn.", ".cross_attention.")
        key = key.replace(".linear1.", ".ffn.expand.").replace(".linear2.", ".ffn.contract.")
        if ".in_proj_" in key:
            start, kind = key.split(".in_proj_")
            for name, part in zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3), strict=True):
                ours[f"{start}.{name}.{kind}"] = part
        else:
            ours[key] = tensor[0] if key == "latent_encoder.cls" else tensor
    return ours


def statistics(
    state: tuple[np.ndarray, np.ndarray], action: tuple[np.ndarray, np.ndarray]
) -> Statistics:
    fields = [FieldStatistics(mean, std, mean - std, mean + std) for mean, std in (state, action)]
    return Statistics(fields[0], fields[1], step_count=100, std_floor=1e-6)


def schema(state_size: int, action_size: int, cameras: tuple[Camera, ...]) -> Schema:
    state = tuple(f"joint_{i}" for i in range(state_size))
    action = tuple(f"joint_{i}" for i in range(action_size))
    return Schema(cameras, state, ("rad",) * state_size, action, ("rad",) * action_size, rate=20.0)


CAMERAS = (Camera("top", 96, 128), Camera("wrist", 96, 128))
FIELDS = {
    "chunk_length": 10,
    "width": 64,
    "heads": 4,
    "feedforward_width": 128,
    "encoder_layers": 2,
    "latent_layers": 2,
}


def extract(samples: Path, name: str, folder: Path) -> Path:
    with tarfile.open(samples / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


@pytest.fixture(scope="module")
def lerobot(
    samples: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ACTPolicy, dict[str, torch.Tensor]]:
    folder = extract(samples, "lerobot_act_0_4_4", tmp_path_factory.mktemp("lerobot"))
    stats = load_file(folder / "policy_preprocessor_step_3_normalizer_processor.safetensors")

    def field(name: str) -> tuple[np.ndarray, np.ndarray]:
        return stats[f"{name}.mean"].double().numpy(), stats[f"{name}.std"].double().numpy()

    ours = schema(6, 6, CAMERAS)
    config = ACTConfig.for_schema(ours, **FIELDS, latent_size=8)
    policy = ACTPolicy(config, ours, statistics(field("observation.state"), field("action")))
    theirs = {
        key.removeprefix("model."): tensor
        for key, tensor in load_file(folder / "model.safetensors").items()
    }
    policy.act.load_state_dict(ours_from_lerobot(theirs))
    return policy, load_file(samples / "lerobot_act_0_4_4.golden.safetensors")


def lerobot_observation(golden: dict[str, torch.Tensor]) -> Observation[torch.Tensor]:
    return Observation(
        {
            name: golden[f"in/observation.images.{name}"].permute(0, 2, 3, 1).contiguous()
            for name in ("top", "wrist")
        },
        golden["in/observation.state"],
    )


def test_lerobot_chunk(lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]]) -> None:
    policy, golden = lerobot
    chunk = policy.predict_chunk(lerobot_observation(golden))
    np.testing.assert_allclose(chunk, golden["out/action_chunk"].numpy(), atol=1e-5, rtol=0)


def test_lerobot_losses(lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]]) -> None:
    """The posterior is theirs too: the L1 with the latent at its mean, and the KL."""
    policy, golden = lerobot
    normalised = policy.normalizer.observation(lerobot_observation(golden))
    actions = policy.normalizer.actions(golden["in/action"])
    policy.eval()
    with torch.no_grad():
        output = policy.act(normalised.images, normalised.state, actions=actions, latent="mean")
    mean, log_variance = output.latent_mean, output.latent_log_variance
    assert mean is not None
    assert log_variance is not None
    kl = (-0.5 * (1 + log_variance - mean**2 - log_variance.exp())).sum(-1).mean()
    l1 = (output.actions - actions).abs().mean()
    torch.testing.assert_close(l1, golden["out/l1_loss"], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(kl, golden["out/kld_loss"], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(l1 + 10 * kl, golden["out/loss"], atol=1e-6, rtol=1e-5)


def test_lerobot_cannot_tell_cameras_apart_and_we_can(
    lerobot: tuple[ACTPolicy, dict[str, torch.Tensor]],
) -> None:
    policy, golden = lerobot
    observation = lerobot_observation(golden)
    swapped = observation._replace(
        images={"top": observation.images["wrist"], "wrist": observation.images["top"]}
    )
    chunk = policy.predict_chunk(observation)
    assert np.abs(policy.predict_chunk(swapped) - chunk).max() < 1e-5
    torch.manual_seed(0)
    fields = {**policy.config.to_dict(), "camera_embedding": True}
    ours = ACTPolicy(ACTConfig.from_dict(fields), policy.schema, policy.statistics)
    ours.load_state_dict(policy.state_dict(), strict=False)
    chunk = ours.predict_chunk(observation)
    assert np.abs(ours.predict_chunk(swapped) - chunk).max() > 1e-2


def test_original_chunk(samples: Path, tmp_path: Path) -> None:
    folder = extract(samples, "act_original", tmp_path)
    # Written with this sample by a known program; a pickle is never read outside of this test.
    with open(folder / "dataset_stats.pkl", "rb") as file:
        stats = pickle.load(file)
    ours = schema(14, 14, CAMERAS)
    config = ACTConfig.for_schema(ours, **FIELDS, latent_size=32)
    policy = ACTPolicy(
        config,
        ours,
        statistics(
            (stats["qpos_mean"].astype(np.float64), stats["qpos_std"].astype(np.float64)),
            (stats["action_mean"].astype(np.float64), stats["action_std"].astype(np.float64)),
        ),
    )
    saved = torch.load(folder / "policy_best.ckpt", weights_only=True)
    theirs = {
        renamed(key.removeprefix("model."), ORIGINAL_TO_LEROBOT): tensor
        for key, tensor in saved.items()
        if "is_pad_head" not in key
        and not any(f"decoder.layers.{unused}." in key for unused in range(1, 7))
    }
    policy.act.load_state_dict(ours_from_lerobot(theirs))
    golden = load_file(samples / "act_original.golden.safetensors")
    images = golden["in/images"].permute(1, 0, 3, 4, 2).contiguous()
    chunk = policy.predict_chunk(
        Observation({"top": images[0], "wrist": images[1]}, golden["in/qpos"])
    )
    np.testing.assert_allclose(chunk, golden["out/action_chunk"].numpy(), atol=1e-5, rtol=0)
