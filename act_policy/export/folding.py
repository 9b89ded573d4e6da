"""A policy for inference alone: everything that no observation changes is computed before export.

    batch norm              into the convolution before it
    scale of the images     into the first convolution; the mean is still subtracted from the
                            pixels, because the border of zeros around an image is of that mean
    positions               into the biases: W (x + p) + b = W x + (W p + b)
    1 / sqrt(e)             into the projection of the queries
    the latent of zero      one constant token
    first decoder layer     its queries start as zeros, so they read each other, and ask the memory,
                            in the same way whatever the cameras see

The sums are the same and their order is not: the result differs by rounding, 1e-6 or so.
"""

import copy
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.ops import FrozenBatchNorm2d

from act_policy.model.attention import MultiHeadAttention
from act_policy.model.backbone import ResNet
from act_policy.model.block import Block, BlockConfig, DecoderBlock
from act_policy.model.policy import ACTPolicy
from act_policy.model.prefix import follow_prefix, with_prefix
from act_policy.types import Observation

LARGEST_BATCH = 2**16


def trace_inputs(policy: ACTPolicy) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """Make two zeros of each input of FoldedPolicy, and the `dynamic_shapes`: the batch is free."""
    schema, prefix = policy.schema, (policy.prefix_length, policy.schema.action_size)
    images = [torch.zeros(2, c.height, c.width, 3, dtype=torch.uint8) for c in schema.cameras]
    sizes = [size for size in (schema.state_size, len(schema.environment_state_names)) if size]
    tasks = [torch.zeros(2, dtype=torch.int64)] if schema.chooses_task else []
    prefixes = [torch.zeros(2, *prefix)] if policy.prefix_length else []
    inputs = (*images, *(torch.zeros(2, size) for size in sizes), *tasks, *prefixes)
    free = torch.export.Dim("b", min=1, max=LARGEST_BATCH)
    return inputs, {"inputs": tuple({0: free} for _ in inputs)}


class FoldedPolicy(nn.Module):
    """Raw observation in, physical actions out, as ACTPolicy computes them.

    The inputs are positional, as exporters need them: the cameras in the schema's order, and then,
    where there is one, the state, the environment state, the task's index and the prefix.
    """

    image_means: Tensor
    latent_token: Tensor

    def __init__(self, policy: ACTPolicy) -> None:
        super().__init__()
        policy = copy.deepcopy(policy).cpu().double().eval().requires_grad_(False)
        act, config = policy.act, policy.config
        self.cameras = config.cameras
        self.normalizer = policy.normalizer
        self.image_encoder = act.image_encoder
        _fold_norms(act.image_encoder.backbone)
        if self.normalizer.image_rows is None:  # all cameras are divided by the same scale
            scale = 1 / (255 * self.normalizer.image_std)
            self.image_encoder.backbone.conv1.weight.mul_(scale[None, :, None, None])
        self.register_buffer("image_means", 255 * self.normalizer.image_mean)
        latent = act.latent_projection.bias if config.latent_size else act.latent_token
        self.register_buffer("latent_token", latent[None, None].clone())
        self.state_projection = act.state_projection if config.state_size else None
        self.environment_state_projection = (
            act.environment_state_projection if config.environment_state_size else None
        )
        self.task_tokens = act.task_tokens if config.task_count else None
        positions = act.token_positions()
        self.encoder = act.encoder
        for layer in self.encoder.layers:
            _fold_attention(layer, "attention", positions, positions)
        first, *others = act.decoder
        assert isinstance(first, DecoderBlock)
        queries = act.query_positions
        self.prefix_length, self.rolls_state = config.prefix_length, config.rolls_state
        self.prefix_encoder = act.prefix_encoder if config.prefix_tokens else None
        if self.prefix_encoder is not None:
            places = self.prefix_encoder.positions(queries, config.prefix_tokens)
            positions = torch.cat([positions, places])
        self.first_decoder_block = FoldedFirstDecoderBlock(first, config.block, queries, positions)
        for layer in others:
            _fold_attention(layer, "self_attention", queries, queries)
            _fold_attention(layer, "cross_attention", queries, positions)
        self.decoder = nn.ModuleList(others)
        self.decoder_norm = act.decoder_norm
        self.action_head = act.action_head
        self.float().requires_grad_(False)

    def forward(self, *inputs: Tensor) -> Float[Tensor, "b k a"]:
        """Predict the next k actions in physical units."""
        count = len(self.cameras)
        others = list(inputs[count:])
        cameras = zip(inputs[:count], self.cameras, strict=True)
        images = [self.centred(image, camera.name) for image, camera in cameras]
        maps = self.image_encoder.encode_each(images)
        tokens = [self.latent_token.expand(inputs[0].shape[0], 1, -1)]
        state = tokens[0][:, 0, :0]  # (b, 0): no action is relative to it
        if self.state_projection is not None:
            state = others.pop(0)
        prefix = others.pop() if self.prefix_length else None
        task = others.pop() if self.task_tokens is not None else None
        seen = self.normalizer.observation(
            Observation({}, state, others[0] if others else None, prefix)
        )
        if self.state_projection is not None:
            tokens.append(self.state_projection(seen.state)[:, None])
        if self.environment_state_projection is not None:
            tokens.append(self.environment_state_projection(seen.environment_state)[:, None])
        if self.task_tokens is not None:
            tokens.append(self.task_tokens(task)[:, None])
        memory = self.encoder(torch.cat([*tokens, *maps], dim=1))
        allowed = None
        if self.prefix_encoder is not None:
            memory, allowed = self.prefix_encoder(memory, seen.prefix)
        queries = self.first_decoder_block(memory, allowed)
        for layer in self.decoder:
            queries = layer(queries, memory, allowed=allowed)
        actions = self.action_head(self.decoder_norm(queries))
        if prefix is not None and self.rolls_state:
            actions = follow_prefix(actions, prefix)
        return with_prefix(self.normalizer.physical_actions(actions, state), prefix)

    def centred(self, image: Tensor, camera: str) -> Float[Tensor, "b 3 h w"]:
        """Subtract the mean; the scale is in the first convolution unless cameras differ in it."""
        # Rearranged as bytes, which are a quarter of the size of floats.
        pixels = rearrange(image, "b h w c -> b c h w").to(self.image_means.dtype)
        if self.normalizer.image_rows is None:
            return pixels - self.image_means[:, None, None]
        row = self.normalizer.image_rows[camera]
        scale = 1 / (255 * self.normalizer.image_std[row])
        return (pixels - self.image_means[row][:, None, None]) * scale[:, None, None]


class FoldedAttention(nn.Module):
    """MultiHeadAttention whose tokens have fixed positions, with one projection for each source.

    Called as MultiHeadAttention is, by the same blocks, but without positions added: query and key
    are given as they are, and key and value are the same tokens.
    """

    query_table: Tensor
    memory_table: Tensor

    def __init__(
        self,
        attention: MultiHeadAttention,
        query_positions: Float[Tensor, "q d"],
        memory_positions: Float[Tensor, "m d"],
    ) -> None:
        super().__init__()
        self.heads = attention.heads
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        scale = (query.in_features // attention.heads) ** -0.5
        # Stored as matrices to multiply by from the right, (d, d) and (d, 2 d).
        self.query_weight = nn.Parameter((query.weight * scale).T.contiguous())
        self.memory_weight = nn.Parameter(torch.cat([key.weight, value.weight]).T.contiguous())
        self.register_buffer("query_table", query(query_positions) * scale)
        values = value.bias.expand(len(memory_positions), -1)
        self.register_buffer("memory_table", torch.cat([key(memory_positions), values], dim=-1))
        self.out_proj = attention.out_proj

    def forward(
        self,
        query: Float[Tensor, "b q d"],
        key: Float[Tensor, "b m d"],
        value: Float[Tensor, "b m d"],
        allowed: Bool[Tensor, "b 1 m"] | None = None,
    ) -> tuple[Float[Tensor, "b q d"], None]:
        """Return the output as MultiHeadAttention does, without weights."""
        return self.read(self.ask(query), value, allowed), None

    def ask(self, query: Float[Tensor, "b q d"]) -> Float[Tensor, "b q d"]:
        """Project the queries."""
        return query @ self.query_weight + self.query_table

    def read(
        self,
        asked: Float[Tensor, "#b q d"],
        memory: Float[Tensor, "b m d"],
        allowed: Bool[Tensor, "b 1 m"] | None = None,
    ) -> Float[Tensor, "b q d"]:
        """Let projected queries read the memory, of which each may read something."""
        projected = memory @ self.memory_weight + self.memory_table
        query = rearrange(asked, "b q (heads e) -> b heads q e", heads=self.heads)
        key, value = rearrange(
            projected, "b m (two heads e) -> two b heads m e", two=2, heads=self.heads
        ).unbind()
        scores = query @ key.transpose(-2, -1)
        if allowed is not None:
            scores = scores.masked_fill(~allowed[:, None], -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(rearrange(weights @ value, "b heads q e -> b q (heads e)"))


class FoldedFirstDecoderBlock(Block):
    """The decoder block whose queries are zeros: from the memory on it depends on the cameras."""

    queries: Tensor
    asked: Tensor

    def __init__(
        self,
        block: DecoderBlock,
        config: BlockConfig,
        query_positions: Float[Tensor, "k d"],
        memory_positions: Float[Tensor, "m d"],
    ) -> None:
        super().__init__(config)
        self.cross_attention = FoldedAttention(
            block.cross_attention, query_positions, memory_positions
        )
        zeros = torch.zeros_like(query_positions)[None]
        placed = query_positions[None]
        own = block.norm1(zeros) if self.pre_norm else zeros
        queries = block.self_attention(own + placed, own + placed, own)[0]
        queries = queries if self.pre_norm else block.norm1(queries)
        asking = block.norm2(queries) if self.pre_norm else queries
        self.register_buffer("queries", queries)
        self.register_buffer("asked", self.cross_attention.ask(asking))
        self.norm2 = nn.Identity() if self.pre_norm else block.norm2
        self.ffn = block.ffn
        self.norm3 = block.norm3

    def forward(
        self, memory: Float[Tensor, "b m d"], allowed: Bool[Tensor, "b 1 m"] | None = None
    ) -> Float[Tensor, "b k d"]:
        """Return what DecoderBlock returns for queries of zeros."""
        queries = self.norm2(self.queries + self.cross_attention.read(self.asked, memory, allowed))
        return self.residual(queries, self.ffn, self.norm3)


def _fold_attention(
    block: nn.Module, name: str, query_positions: Tensor, memory_positions: Tensor
) -> None:
    attention = block.get_submodule(name)
    assert isinstance(attention, MultiHeadAttention)
    block.set_submodule(name, FoldedAttention(attention, query_positions, memory_positions))


def _fold_norms(backbone: ResNet) -> None:
    """Fold every batch norm into its convolution, in place; other norms stay."""
    for module in list(backbone.modules()):
        for number in ("1", "2", "3"):
            if hasattr(module, f"conv{number}"):
                _fold_pair(module, f"conv{number}", f"bn{number}")
        downsample = getattr(module, "downsample", None)
        if downsample is not None:
            _fold_pair(downsample, "0", "1")


def _fold_pair(parent: nn.Module, convolution_name: str, norm_name: str) -> None:
    convolution, norm = parent.get_submodule(convolution_name), parent.get_submodule(norm_name)
    if isinstance(norm, nn.BatchNorm2d | FrozenBatchNorm2d):
        assert isinstance(convolution, nn.Conv2d)
        parent.set_submodule(convolution_name, fuse_conv_bn_eval(convolution, norm))
        parent.set_submodule(norm_name, nn.Identity())
