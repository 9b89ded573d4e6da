"""ACT: cameras and joints become tokens, learned queries read them, each query becomes an action.

Source: Zhao et al., "Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware" (2023);
numerics as in the original code and in LeRobot, whose weights fit (see tests/parity).
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from act_policy.model.backbone import ImageEncoder, ResNet
from act_policy.model.block import DecoderBlock, TransformerEncoder
from act_policy.model.config import ACTConfig as ACTConfig
from act_policy.model.latent import LatentEncoder
from act_policy.model.positions import sine_positions_2d
from act_policy.model.prefix import PrefixEncoder, follow_prefix

Latent = Literal["auto", "sample", "mean", "zero"]


class ACTOutput(NamedTuple):
    """The network's prediction, normalised.

    actions: (b, k, a).
    latent_mean, latent_log_variance: (b, z), the posterior that z came from; None when z is zero.
    """

    actions: Tensor
    latent_mean: Tensor | None
    latent_log_variance: Tensor | None


class ACT(nn.Module):
    """The whole network, in normalised units.

    Encoder tokens, in this order: latent, (state), (environment state), (task), every camera's map
    row by row. Positions: learned for the first ones, 2-D sine for the maps, and on request a
    learned vector per camera. That vector is added to the positions, not to the content: like a
    place, the camera steers who reads whom, and without it all cameras share the same places.

    The latent token projects z; without a CVAE a learned constant stands in its place, so the token
    order never changes (LeRobot's policies without VAE keep such a token too).

    A network that knows several tasks has a learned token for each. The one that is asked for joins
    the encoder's tokens, and those of the CVAE.

    The decoder starts from zeros; its queries are learned positions, one per action. Actions that
    are committed already, the prefix of the chunk, are further tokens of its memory, or replace the
    state, or both (`prefix.py`).
    """

    map_positions: Tensor
    camera_of_cell: Tensor

    def __init__(self, config: ACTConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.latent_encoder = None
        if config.latent_size:
            self.latent_encoder = LatentEncoder(config)
            self.latent_projection = nn.Linear(config.latent_size, width)
        else:
            self.latent_token = nn.Parameter(torch.zeros(width))
        vectors = 1
        if config.state_size:
            self.state_projection = nn.Linear(config.state_size, width)
            vectors += 1
        if config.environment_state_size:
            self.environment_state_projection = nn.Linear(config.environment_state_size, width)
            vectors += 1
        self.vector_positions = nn.Parameter(torch.randn(vectors, width))
        backbone = ResNet(
            config.backbone, config.backbone_stages, config.backbone_width, config.backbone_norm
        )
        self.image_encoder = ImageEncoder(backbone, width)
        self.map_sizes = {c.name: backbone.map_size(c.height, c.width) for c in config.cameras}
        map_positions = [sine_positions_2d(*size, width) for size in self.map_sizes.values()]
        self.register_buffer("map_positions", torch.cat(map_positions), persistent=False)
        if config.camera_embedding:
            cells = torch.tensor([len(table) for table in map_positions])
            cameras = torch.arange(len(cells)).repeat_interleave(cells)
            self.register_buffer("camera_of_cell", cameras, persistent=False)
            self.camera_embedding = nn.Parameter(torch.randn(len(config.cameras), width))
        self.encoder = TransformerEncoder(config.encoder_layers, config.block)
        self.query_positions = nn.Parameter(torch.randn(config.chunk_length, width))
        self.decoder = nn.ModuleList(
            DecoderBlock(config.block) for _ in range(config.decoder_layers)
        )
        self.decoder_norm = nn.LayerNorm(width)
        self.action_head = nn.Linear(width, config.action_size)
        for transformer in (self.encoder, self.decoder, self.latent_encoder):
            for parameter in transformer.parameters() if transformer is not None else ():
                if parameter.dim() == 2:
                    nn.init.xavier_uniform_(parameter)
        # last: the other weights are drawn as without them
        if config.prefix_tokens:
            self.prefix_encoder = PrefixEncoder(config)
        if config.task_count:
            self.task_tokens = nn.Embedding(config.task_count, width)
            self.task_position = nn.Parameter(torch.randn(width))

    def forward(
        self,
        images: Mapping[str, Float[Tensor, "b 3 _h _w"]],
        state: Float[Tensor, "b s"],
        environment_state: Float[Tensor, "b _"] | None = None,
        actions: Float[Tensor, "b k a"] | None = None,
        is_pad: Bool[Tensor, "b k"] | None = None,
        latent: Latent = "auto",
        prefix: Float[Tensor, "b p a"] | None = None,
        task: Int[Tensor, " b"] | None = None,
    ) -> ACTOutput:
        """Predict the next k actions, all in normalised units.

        actions and is_pad are the demonstrated chunk; the CVAE alone reads them, to choose z:
        latent="sample" draws z from the posterior, "mean" takes its mean, "zero" ignores the
        actions; "auto" samples while training with actions given and is zero otherwise.

        prefix: actions that are committed already, see `decode`.
        task: index of the task to do, for a network that knows several.
        """
        task_token = self._take_task(task)
        z, mean, log_variance = self._choose_latent(state, actions, is_pad, latent, task_token)
        memory, positions = self.encode(images, state, environment_state, z, task_token)
        return ACTOutput(self.decode(memory, positions, prefix), mean, log_variance)

    def encode(
        self,
        images: Mapping[str, Float[Tensor, "b 3 _h _w"]],
        state: Float[Tensor, "b s"],
        environment_state: Float[Tensor, "b _"] | None,
        z: Float[Tensor, "b z"] | None,
        task_token: Float[Tensor, "b d"] | None = None,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "t d"]]:
        """Make the tokens and let them read each other; return them and their positions."""
        if z is None:
            first = self.latent_token.expand(state.shape[0], -1)
        else:
            first = self.latent_projection(z)
        vectors = [first]
        if self.config.state_size:
            vectors.append(self.state_projection(state))
        if self.config.environment_state_size:
            if environment_state is None:
                raise ValueError("this network reads an environment state; none was given")
            vectors.append(self.environment_state_projection(environment_state))
        if task_token is not None:
            vectors.append(task_token)
        maps = self.encode_images(images)
        tokens = torch.cat([torch.stack(vectors, dim=1), *maps], dim=1)
        positions = self.token_positions()
        return self.encoder(tokens, positions[None]), positions

    def token_positions(self) -> Float[Tensor, "t d"]:
        """Give every encoder token's position."""
        map_positions = self.map_positions
        if self.config.camera_embedding:
            map_positions = map_positions + self.camera_embedding[self.camera_of_cell]
        task_position = [self.task_position[None]] if self.config.task_count else []
        return torch.cat([self.vector_positions, *task_position, map_positions])

    def encode_images(
        self, images: Mapping[str, Float[Tensor, "b 3 _h _w"]]
    ) -> list[Float[Tensor, "b _ d"]]:
        """Give each camera's tokens, in the config's order."""
        for camera in self.config.cameras:
            size, shape = (camera.height, camera.width), tuple(images[camera.name].shape)
            if shape[-2:] != size:
                raise ValueError(f"camera {camera.name}: image {shape}, expected {size}")
        return self.image_encoder.encode_each([images[name] for name in self.config.camera_names])

    def decode(
        self,
        memory: Float[Tensor, "b t d"],
        positions: Float[Tensor, "t d"],
        prefix: Float[Tensor, "b p a"] | None = None,
    ) -> Float[Tensor, "b k a"]:
        """Let the learned queries read the memory, and turn each into an action.

        prefix: the chunk's first actions, which are committed already, NaN from the first on that
        is not. What is predicted for these says nothing; the others continue them. With a state
        that is rolled forward, the first query is for the first action that is free.
        """
        queries = memory.new_zeros(memory.shape[0], *self.query_positions.shape)
        allowed = None
        if prefix is not None and self.config.prefix_tokens:
            memory, allowed = self.prefix_encoder(memory, prefix)
            places = self.prefix_encoder.positions(self.query_positions, prefix.shape[1])
            positions = torch.cat([positions, places])
        for layer in self.decoder:
            queries = layer(queries, memory, self.query_positions[None], positions[None], allowed)
        actions = self.action_head(self.decoder_norm(queries))
        if prefix is not None and self.config.rolls_state:
            actions = follow_prefix(actions, prefix)
        return actions

    def _take_task(self, task: Tensor | None) -> Float[Tensor, "b d"] | None:
        """Return the token of each sample's task; None for a network that knows one task alone."""
        if not self.config.task_count:
            return None
        if task is None:
            raise ValueError(f"this network knows {self.config.task_count} tasks; none was given")
        token: Tensor = self.task_tokens(task)
        return token

    def _choose_latent(
        self,
        state: Tensor,
        actions: Tensor | None,
        is_pad: Tensor | None,
        latent: Latent,
        task_token: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return z and the posterior it came from."""
        if self.latent_encoder is None:
            return None, None, None
        if latent == "auto":
            latent = "sample" if self.training and actions is not None else "zero"
        if latent == "zero":
            return state.new_zeros(state.shape[0], self.config.latent_size), None, None
        if actions is None:
            raise ValueError(f"latent={latent!r} needs the demonstrated actions")
        if is_pad is None:
            is_pad = torch.zeros(actions.shape[:2], dtype=torch.bool, device=actions.device)
        mean, log_variance = self.latent_encoder(state, actions, is_pad, task_token)
        z = mean
        if latent == "sample":
            z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        return z, mean, log_variance

    def describe(self) -> str:
        """Say in a table what becomes a token, in which order, with every shape."""
        c, p = self.config, self.config.prefix_tokens

        def row(name: str, source: str, tokens: int, width: int = c.width) -> str:
            return f"  {name:<20}{source:<44}(b, {tokens}, {width})"

        latent = "a learned constant (no CVAE)"
        if c.latent_size:
            latent = f"z (b, {c.latent_size}), zero at inference"
        lines = ["encoder tokens", row("latent", latent, 1)]
        if c.state_size:
            lines.append(row("state", f"(b, {c.state_size})", 1))
        if c.environment_state_size:
            lines.append(row("environment state", f"(b, {c.environment_state_size})", 1))
        if c.task_count:
            lines.append(row("task", f"(b,), one of {c.task_count}", 1))
        for camera in c.cameras:
            y, x = self.map_sizes[camera.name]
            source = f"(b, 3, {camera.height}, {camera.width}) -> map {y}x{x}"
            lines.append(row(f"camera {camera.name}", source, y * x))
        total = len(self.token_positions())
        lines += [
            row("memory", f"{c.encoder_layers} encoder blocks", total),
            "decoder",
            *([row("prefix", f"(b, {p}, {c.action_size}), beside the memory", p)] if p else []),
            row("queries", f"{c.decoder_layers} decoder blocks", c.chunk_length),
            row("actions", "action head", c.chunk_length, c.action_size),
        ]
        if c.latent_size:
            blocks = f"{c.latent_layers} encoder blocks"
            lines.append("latent encoder (training only)")
            read = {"cls": 1, "state": bool(c.state_size), "actions": c.chunk_length}
            read["task"] = bool(c.task_count)
            names = ", ".join(name for name, tokens in read.items() if tokens)
            lines.append(row(names, blocks, sum(read.values())))
        parameters = sum(parameter.numel() for parameter in self.parameters())
        return "\n".join([*lines, f"{parameters:,} trainable parameters"])
