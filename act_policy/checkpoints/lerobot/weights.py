"""The same network under LeRobot's names: one map, read in both directions.

LeRobot keeps query, key and value in one `in_proj` tensor, a table of the latent encoder's
positions, and without VAE still a projection of the latent, which is then always zero.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from act_policy.checkpoints.files import list_misfits
from act_policy.errors import UserError
from act_policy.model.act import ACT
from act_policy.model.config import ACTConfig
from act_policy.model.positions import sine_positions

NO_VAE_LATENT_SIZE = 32
"""LeRobot's default; without VAE the size changes nothing."""

POSITION_TABLE = "vae_encoder_pos_enc"
LATENT_WEIGHT, LATENT_BIAS = "encoder_latent_input_proj.weight", "encoder_latent_input_proj.bias"

# The first that fits holds.
_STARTS = {
    "image_encoder.backbone.": "backbone.",
    "image_encoder.projection.": "encoder_img_feat_input_proj.",
    "latent_projection.": "encoder_latent_input_proj.",
    "latent_token": LATENT_BIAS,
    "state_projection.": "encoder_robot_state_input_proj.",
    "environment_state_projection.": "encoder_env_state_input_proj.",
    "vector_positions": "encoder_1d_feature_pos_embed.weight",
    "query_positions": "decoder_pos_embed.weight",
    "latent_encoder.cls": "vae_encoder_cls_embed.weight",
    "latent_encoder.state_projection.": "vae_encoder_robot_state_input_proj.",
    "latent_encoder.action_projection.": "vae_encoder_action_input_proj.",
    "latent_encoder.latent_projection.": "vae_encoder_latent_output_proj.",
    "latent_encoder.encoder.": "vae_encoder.",
    "decoder_norm.": "decoder.norm.",
    "decoder.": "decoder.layers.",
}
_PARTS = {
    ".attention.": ".self_attn.",
    ".self_attention.": ".self_attn.",
    ".cross_attention.": ".multihead_attn.",
    ".ffn.expand.": ".linear1.",
    ".ffn.contract.": ".linear2.",
}
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def lerobot_name(name: str) -> tuple[str, int | None]:
    """Give LeRobot's name for one of ACT's tensors, and which third of that tensor it is."""
    for start, theirs in _STARTS.items():
        if name.startswith(start):
            name = theirs + name.removeprefix(start)
            break
    for part, theirs in _PARTS.items():
        name = name.replace(part, theirs)
    for third, projection in enumerate(_PROJECTIONS):
        if f".{projection}." in name:
            return name.replace(f".{projection}.", ".in_proj_"), third
    return name, None


def to_lerobot(config: ACTConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename ACT's state dict; batch norms count as frozen, as they are when the policy acts."""
    found: dict[str, Tensor] = {}
    thirds: dict[str, dict[int, Tensor]] = {}
    for ours, tensor in weights.items():
        if ours.endswith("num_batches_tracked"):
            continue
        name, third = lerobot_name(ours)
        if third is not None:
            thirds.setdefault(name, {})[third] = tensor
        else:
            found[name] = tensor[None] if ours == "latent_encoder.cls" else tensor
    for name, parts in thirds.items():
        found[name] = torch.cat([parts[0], parts[1], parts[2]])
    if config.latent_size:
        tokens = (2 if config.state_size else 1) + config.chunk_length
        found[POSITION_TABLE] = sine_positions(tokens, config.width)[None]
    else:
        found[LATENT_WEIGHT] = found[LATENT_BIAS].new_zeros(config.width, NO_VAE_LATENT_SIZE)
    return found


def from_lerobot(
    config: ACTConfig, theirs: Mapping[str, Tensor], latent_size: int = NO_VAE_LATENT_SIZE
) -> dict[str, Tensor]:
    """Make ACT's state dict out of LeRobot's tensors; each must be there, and fit.

    latent_size: LeRobot's, of a policy without VAE.

    Raises:
        UserError: tensors are missing, unknown, or of another shape; all are listed.
    """
    with torch.device("meta"):
        ours = ACT(config).state_dict()
    made = to_lerobot(config, ours)
    expected = {name: tuple(tensor.shape) for name, tensor in made.items()}
    if not config.latent_size:
        expected[LATENT_WEIGHT] = (config.width, latent_size)
    if problems := list_misfits(theirs, expected):
        raise UserError("the tensors do not fit the network: " + "; ".join(problems))
    if config.latent_size and not torch.allclose(
        theirs[POSITION_TABLE].float(), made[POSITION_TABLE], atol=1e-5
    ):
        raise UserError(f"{POSITION_TABLE} is not the sinusoidal table of ACT")
    found: dict[str, Tensor] = {}
    for name in ours:
        their_name, third = lerobot_name(name)
        tensor = theirs[their_name].float()
        if third is not None:
            tensor = tensor.chunk(3)[third]
        found[name] = (tensor[0] if name == "latent_encoder.cls" else tensor).clone()
    return found
