"""Which kind of checkpoint a path is, told by its files alone, and what they may not say."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from act_policy.data.schemas import SchemaSource
from act_policy.errors import UserError

ORIGINAL_STATISTICS_FILE = "dataset_stats.pkl"
ORIGINAL_WEIGHTS_FILES = ("policy_best.ckpt", "policy_last.ckpt")


class Source(NamedTuple):
    """What a checkpoint of other software does not say.

    cameras, image_size, heads: of the original ACT, see `load_original_act`.
    schema: names, units, rate and environment, as a JSON file or what it holds.
    """

    cameras: tuple[str, ...] | None = None
    image_size: tuple[int, int] | None = None
    heads: int | None = None
    schema: SchemaSource | None = None

    @classmethod
    def from_config(cls, settings: Mapping[str, Any]) -> "Source":
        """Read what a configuration says; UserError where a value is of the wrong kind."""
        cameras, size, heads, schema = (settings[field] for field in cls._fields)
        if cameras is not None:
            cameras = (cameras,) if isinstance(cameras, str) else tuple(map(str, cameras))
        if size is not None:
            size = tuple(size) if isinstance(size, Sequence) else (size,)
            if len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
                raise UserError(
                    f"source.image_size is {list(size)}; expected [HEIGHT,WIDTH] in pixels"
                )
        if heads is not None and (type(heads) is not int or heads < 1):
            raise UserError(f"source.heads is {heads!r}; expected a whole number")
        return cls(cameras, size, heads, schema)


def resolve(path: Path) -> Path:
    """Return the folder of LeRobot's run that holds the policy; any other path as it is."""
    for candidate in (path, path / "pretrained_model", *_steps(path)):
        if is_lerobot(candidate):
            return candidate
    return path


def is_lerobot(path: Path) -> bool:
    """Whether a folder is one of LeRobot's: its config.json has a type and no format_version."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "type" in config and "format_version" not in config


def is_original_act(path: Path) -> bool:
    """Whether a folder, or a file in it, is the original ACT's."""
    folder = path if path.is_dir() else path.parent
    return path.exists() and (folder / ORIGINAL_STATISTICS_FILE).is_file()


def _steps(run: Path) -> list[Path]:
    """LeRobot's checkpoints in a run: `last`, then the latest (a copy may have lost the link)."""
    folder = run / "checkpoints"
    steps = sorted(folder.glob("[0-9]*"), key=lambda step: step.name.zfill(20), reverse=True)
    return [step / "pretrained_model" for step in (folder / "last", *steps)]
