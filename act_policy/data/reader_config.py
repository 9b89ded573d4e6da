"""Settings for reading the files of demonstrations, the same for every command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from act_policy.data.schemas import SchemaSource
from act_policy.errors import check_choice, check_whole_number


@dataclass(frozen=True)
class ReaderConfig:
    """Settings for reading the files of demonstrations; configs/reader holds the same ones.

    schema: names, units and rate where the files do not store them (a JSON file or a mapping).
    cameras: the cameras to use, in this order; None is all. `open_demonstrations` also takes
        new name -> name in the files.
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
    jpeg_order: str = "bgr"
    action_shift: int = 0
    unreadable: str = "stop"
    download: bool = False

    def __post_init__(self) -> None:
        check_choice("jpeg_order", self.jpeg_order, ("bgr", "rgb"))
        check_choice("unreadable", self.unreadable, ("stop", "skip"))
        check_whole_number("action_shift", self.action_shift, 0)
        if isinstance(self.cameras, str):  # one camera, given by its name alone
            object.__setattr__(self, "cameras", (self.cameras,))

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


DEFAULT_READER = ReaderConfig()
