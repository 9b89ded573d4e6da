"""Settings that the user gives because a checkpoint of other software does not say them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from act_policy.data.schemas import SchemaSource
from act_policy.errors import UserError, check_whole_number


@dataclass(frozen=True)
class Source:
    """Settings `source.*` of every command that opens a checkpoint.

    cameras: of the original ACT, names in the order of its training (camera_names in constants.py).
    image_size: of the original ACT, (height, width) of every camera.
    heads: of the original ACT's attention; None is its 8, refused for another width than 512.
    schema: names, units, rate, environment, as a JSON file or its content.
    """

    cameras: tuple[str, ...] | None = None
    image_size: tuple[int, int] | None = None
    heads: int | None = None
    schema: SchemaSource | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Source":
        """Read a configuration; UserError where a value is of the wrong kind."""
        cameras, size, heads, schema = (config[field.name] for field in fields(cls))
        if cameras is not None:
            cameras = (cameras,) if isinstance(cameras, str) else tuple(map(str, cameras))
        if size is not None:
            size = tuple(size) if isinstance(size, Sequence) else (size,)
            if len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
                raise UserError(
                    f"source.image_size is {list(size)}; expected [HEIGHT,WIDTH] in pixels"
                )
        if heads is not None:
            check_whole_number("source.heads", heads, 1)
        return cls(cameras, size, heads, schema)
