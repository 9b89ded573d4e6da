"""What a plan is made from: facts of the data, facts of the machine, and settings by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from act_policy.data.frames.missing import EVERYTHING, Missing
from act_policy.types import Camera

Sizes = tuple[tuple[int, int], ...]
"""Height and width of each camera's images."""


@dataclass(frozen=True)
class DataFacts:
    """What the demonstrations are.

    rate: steps per second.
    lengths: steps of each episode.
    cameras: as they will be seen, before the plan scales them.
    state_size, action_size: dimensions.
    moves_by: whether actions say where to go ("position") or how far or fast ("movement").
    read_raw: whether images that are not scaled can be read from the files as they are.
    decoding_seconds: to read, decode and scale one image on one core.
    jpeg_bytes: of a JPEG per pixel, at about the size of training.
    jpeg_error: of its values on average, of 255.
    """

    rate: float
    lengths: tuple[int, ...]
    cameras: tuple[Camera, ...]
    state_size: int
    action_size: int
    moves_by: str = "position"
    read_raw: bool = False
    decoding_seconds: float = 0.004
    jpeg_bytes: float = 0.8
    jpeg_error: float = 1.0

    @property
    def frames(self) -> int:
        """Steps of all episodes together."""
        return sum(self.lengths)

    @property
    def typical_length(self) -> int:
        """The median number of steps in an episode."""
        return sorted(self.lengths)[len(self.lengths) // 2]


@dataclass(frozen=True)
class MachineFacts:
    """What the machine has.

    cores: that this process may use.
    free_memory: bytes, of the GPU if there is one.
    free_disk: bytes, where decoded images would be kept.
    cache: that folder; None keeps none.
    caches: what the caches that were begun still lack, by the sizes of their images and by their
        format, "raw" or "jpeg".
    gpu: its name; "" trains on the CPU.
    imagenet: the file of ImageNet's weights.
    has_imagenet: whether it is there.
    multiplies_bfloat16: whether the processor multiplies matrices of bfloat16 by itself (AMX).
    bfloat16_gain: steps in bfloat16 that take the time of one in float32, on the CPU; None is not
        measured.
    """

    cores: int
    free_memory: int
    free_disk: int
    cache: Path | None = None
    caches: Mapping[tuple[Sizes, str], Missing] = field(default_factory=dict)
    gpu: str = ""
    imagenet: Path = Path("resnet18.pth")
    has_imagenet: bool = False
    multiplies_bfloat16: bool = False
    bfloat16_gain: float | None = None

    def missing(self, sizes: Sizes, cache_format: str) -> Missing:
        """Return what is missing of the cache of such images."""
        return self.caches.get((sizes, cache_format), EVERYTHING)


class ByHand(NamedTuple):
    """The settings that the user gave: key -> value; a group of them has a mapping as its value."""

    settings: Mapping[str, Any] = MappingProxyType({})

    def has(self, key: str) -> bool:
        """Whether the setting was given, by itself or in a group that says what it is."""
        return key in self.settings or self.get(key) is not None

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a setting that was given, else the default."""
        if key in self.settings:
            return self.settings[key]
        for given, found in self.settings.items():
            if key.startswith(f"{given}."):
                for part in key.removeprefix(f"{given}.").split("."):
                    found = found.get(part) if isinstance(found, Mapping) else None
                return default if found is None else found
        return default


NOTHING_BY_HAND = ByHand()


class Workload(NamedTuple):
    """All that the time of a training step depends on.

    network: a file in configs/model; "" for one that the user described.
    sizes: height and width of each camera's image.
    chunk_length, batch_size: of a sample, and samples.
    """

    network: str
    sizes: Sizes
    chunk_length: int
    batch_size: int

    @property
    def pixels(self) -> int:
        """Of all images of a step, to which its time is roughly proportional."""
        return self.batch_size * sum(height * width for height, width in self.sizes)


Measured = Mapping[Workload, float]
"""Seconds of a training step of each workload that was tried on this machine."""
