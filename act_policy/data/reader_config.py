"""Settings for reading the files of demonstrations, the same for every command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from act_policy.data.schemas import SchemaSource
from act_policy.errors import UserError, check_choice, check_whole_number

STATE, ACTION = "state", "action"
"""The names in `features` that are not cameras."""


@dataclass(frozen=True)
class ReaderConfig:
    """Settings for reading the files of demonstrations; configs/reader holds the same ones.

    schema: names, units and rate where the files do not store them (a JSON file or a mapping).
    cameras: the cameras to use, in this order; None is all. `open_demonstrations` also takes
        new name -> name in the files.
    features: where the files hold the state, the action and cameras under other names than their
        format's: "state", "action" or the name that a camera gets -> the column, video or HDF5
        path. None in place of the state: there is none to read.
    jpeg_order: channel order inside the JPEG rows of HDF5. "bgr" is for act-plus-plus (it
        compresses RGB frames with OpenCV, so red and blue are exchanged in the JPEG); "rgb" is for
        files whose JPEGs look right in an image viewer.
    action_shift: how many steps before a step its action is stored: 1 in ALOHA recordings of a
        real robot, 0 in simulation; see `shift_actions`.
    unreadable: "stop" at an episode that cannot be read or contradicts its metadata, or "skip" it
        with a warning.
    download: whether a hub id that is not on this machine may be downloaded.
    """

    schema: SchemaSource | None = None
    cameras: Sequence[str] | Mapping[str, str] | None = None
    features: Any = None  # a mapping of names to keys, which `__post_init__` checks
    jpeg_order: str = "bgr"
    action_shift: int = 0
    unreadable: str = "stop"
    download: bool = False

    def __post_init__(self) -> None:
        check_choice("jpeg_order", self.jpeg_order, ("bgr", "rgb"))
        check_choice("unreadable", self.unreadable, ("stop", "skip"))
        check_whole_number("action_shift", self.action_shift, 0)
        given = {} if self.features is None else self.features
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) and (isinstance(key, str) or (key is None and name == STATE))
            for name, key in given.items()
        ):
            raise UserError(
                f"features={given}: expected names like {{state: KEY, action: KEY, top: KEY}}, "
                "with the key that each has in the files (state: null where there is none to read)"
            )
        if twice := sorted({str(key) for key in given.values() if _count(given, key) > 1}):
            raise UserError(f"features: {', '.join(twice)} has two names; give it one")
        if self.features is not None:
            object.__setattr__(self, "features", dict(self.features))
        if isinstance(self.cameras, str):  # one camera, given by its name alone
            object.__setattr__(self, "cameras", (self.cameras,))

    def find(self, name: str, default: str) -> str | None:
        """Return where the files hold the state or the action; None for a state left unread."""
        return default if self.features is None else self.features.get(name, default)

    @property
    def named_cameras(self) -> dict[str, str]:
        """The cameras that `features` names: name -> where the files hold it."""
        named = {} if self.features is None else self.features
        return {n: str(key) for n, key in named.items() if n not in (STATE, ACTION)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ReaderConfig":
        """Select its settings from a larger configuration; UserError if one is impossible.

        A setting that is null or missing has its default.
        """
        given = {name: config.get(name) for name in cls.names()}
        return cls(**{name: value for name, value in given.items() if value is not None})

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [field.name for field in fields(cls)]


def _count(given: Mapping[str, str | None], key: str | None) -> int:
    return list(given.values()).count(key)


DEFAULT_READER = ReaderConfig()
