"""ACTConfig: everything that fixes the network's shape and function, checked when it is made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_origin

from act_policy.errors import UserError, check_choice, check_fields, check_whole_number
from act_policy.model.backbone import CHANNELS_PER_GROUP, BackboneName, BackboneNorm
from act_policy.model.block import Activation, BlockConfig
from act_policy.types import Camera, Schema

_MAY_BE_ZERO = (
    *("state_size", "environment_state_size", "latent_size", "latent_layers", "prefix_length"),
    "task_count",
)


SCHEMA_FIELDS = ("cameras", "state_size", "action_size", "environment_state_size", "task_count")
"""Fields that the schema gives."""

PrefixAs = Literal["tokens", "state", "both"]


@dataclass(frozen=True)
class ACTConfig:
    """The network, in numbers; the defaults are what the original ACT effectively computes.

    They are the preset `act_paper`; `train.py` begins with `act_small` (configs/model).

    The first four fields are what the robot has, in the order of its schema; `for_schema` fills
    them in, and the number of tasks. Pretrained weights are not in here: a saved policy never looks
    for them.
    """

    cameras: tuple[Camera, ...]  # names and image sizes
    state_size: int  # 0: no such token, the policy sees images alone
    action_size: int
    environment_state_size: int = 0  # 0: no such token
    chunk_length: int = 100  # actions predicted at once

    width: int = 512  # of every token
    heads: int = 8
    feedforward_width: int = 3200
    encoder_layers: int = 4
    decoder_layers: int = 1  # the original configures 7 and reads the first
    pre_norm: bool = False
    activation: Activation = "relu"
    dropout: float = 0.1

    latent_size: int = 32  # of the CVAE's z; 0: no CVAE
    latent_layers: int = 4  # of the CVAE's encoder; 0 without CVAE

    backbone: BackboneName = "resnet18"
    backbone_stages: int = 4  # of the ResNet's four; 3 gives a map of stride 16 instead of 32
    backbone_width: float = 1.0  # factor on the ResNet's channels, a multiple of 0.25
    backbone_norm: BackboneNorm = "frozen_batch"
    camera_embedding: bool = False  # a learned vector per camera, to tell them apart
    prefix_length: int = 0  # most actions that may be committed already; 0: it knows of none
    prefix_as: PrefixAs = "tokens"  # how it is told of them, see act_policy/model/prefix.py
    task_count: int = 0  # tasks of which it is told one, 2 or more; 0: no such token

    def __post_init__(self) -> None:
        if not self.cameras:
            raise UserError("ACTConfig.cameras is empty; the network needs at least one camera")
        for field in fields(self):
            name, value = f"ACTConfig.{field.name}", getattr(self, field.name)
            if field.type is int:
                check_whole_number(name, value, 0 if field.name in _MAY_BE_ZERO else 1)
            elif get_origin(field.type) is Literal:
                check_choice(name, value, get_args(field.type))
            elif field.type is bool and not isinstance(value, bool):
                raise UserError(f"{name}={value}: expected true or false")
            elif field.type is float and not isinstance(value, int | float):
                raise UserError(f"{name}={value}: expected a number")
        if self.width % self.heads:
            raise UserError(
                f"ACTConfig: width {self.width} cannot be divided among {self.heads} heads"
            )
        if self.width % 4:
            raise UserError(
                f"ACTConfig.width is {self.width}; expected a multiple of 4 (2-D positions use a "
                "sine and a cosine for y and for x)"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"ACTConfig.dropout is {self.dropout}; expected 0 <= dropout < 1")
        if self.backbone_stages > 4:
            raise UserError(f"ACTConfig.backbone_stages is {self.backbone_stages}; expected 1 to 4")
        base_channels = 64 * self.backbone_width
        if base_channels < CHANNELS_PER_GROUP or base_channels % CHANNELS_PER_GROUP:
            raise UserError(
                f"ACTConfig.backbone_width is {self.backbone_width}; expected a multiple of "
                f"{CHANNELS_PER_GROUP / 64} (channels are normalised in groups of "
                f"{CHANNELS_PER_GROUP})"
            )
        if self.prefix_length >= self.chunk_length:
            raise UserError(
                f"ACTConfig.prefix_length is {self.prefix_length}; expected less than the "
                f"chunk_length of {self.chunk_length}: a chunk needs actions that are still free"
            )
        if self.task_count == 1:
            raise UserError("ACTConfig.task_count is 1; a single task needs no token: set it to 0")
        if (self.latent_size == 0) != (self.latent_layers == 0):
            raise UserError(
                f"ACTConfig: latent_size {self.latent_size} with latent_layers "
                f"{self.latent_layers}; set both to 0 (no CVAE) or neither"
            )

    @property
    def camera_names(self) -> tuple[str, ...]:
        """Cameras in the order of their tokens."""
        return tuple(camera.name for camera in self.cameras)

    @property
    def prefix_tokens(self) -> int:
        """Tokens of committed actions in the decoder's memory."""
        return 0 if self.prefix_as == "state" else self.prefix_length

    @property
    def rolls_state(self) -> bool:
        """Whether the state is rolled forward to where the committed actions end."""
        return self.prefix_length > 0 and self.prefix_as != "tokens"

    @property
    def block(self) -> BlockConfig:
        """The part from which every Transformer block is made."""
        return BlockConfig(
            width=self.width,
            heads=self.heads,
            feedforward_width=self.feedforward_width,
            activation=self.activation,
            dropout=self.dropout,
            pre_norm=self.pre_norm,
        )

    @classmethod
    def for_schema(cls, schema: Schema, **fields: Any) -> "ACTConfig":
        """Take cameras and sizes from the schema, everything else from fields or the defaults.

        Raises:
            UserError: a field is unknown or has an impossible value.
        """
        return cls.from_dict(
            {
                **fields,
                # the network does not care what its images were made from
                "cameras": [Camera(c.name, c.height, c.width).to_dict() for c in schema.cameras],
                "state_size": schema.state_size,
                "action_size": schema.action_size,
                "environment_state_size": len(schema.environment_state_names),
                "task_count": len(schema.tasks) if schema.chooses_task else 0,
            }
        )

    def check_schema(self, schema: Schema) -> None:
        """Raise UserError unless this network is made for such observations and actions."""
        if self.rolls_state and (
            (schema.state_names, schema.state_units) != (schema.action_names, schema.action_units)
        ):
            raise UserError(
                f"prefix_as={self.prefix_as} puts the last committed action in the place of the "
                f"state, so both must be the same positions; the state is "
                f"{', '.join(schema.state_names) or 'empty'}, the action "
                f"{', '.join(schema.action_names)}; set prefix_as to tokens"
            )
        expected = ACTConfig.for_schema(schema)
        for name in SCHEMA_FIELDS:
            if getattr(self, name) != getattr(expected, name):
                raise UserError(
                    f"{name}: the network has {getattr(self, name)}, "
                    f"the schema {getattr(expected, name)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` is the inverse."""
        return {**asdict(self), "cameras": [camera.to_dict() for camera in self.cameras]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ACTConfig":
        """Rebuild from `to_dict`; a missing or unknown field raises UserError."""
        check_fields("ACTConfig", plain, cls)
        try:
            cameras = tuple(Camera.from_dict(camera) for camera in plain["cameras"])
            return cls(**{**plain, "cameras": cameras})
        except TypeError as error:
            raise UserError(f"ACTConfig: {error}") from None
