"""Camera images: their sizes by config, and images that are drawn only when they are read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from act_policy.errors import UserError


def image_sizes(cameras: object) -> dict[str, tuple[int, int]]:
    """Check a mapping of camera name -> (height, width) in pixels; it may be empty.

    Raises:
        UserError: it is not such a mapping.
    """
    if not isinstance(cameras, Mapping):
        raise UserError(f"cameras={cameras}: expected {{name: [height, width]}}")
    sizes = {}
    for name, size in cameras.items():
        sides = list(size) if isinstance(size, Sequence) else []
        if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
            found = sides or size
            raise UserError(f"camera {name}: size {found}; expected [height, width] in pixels")
        sizes[str(name)] = (sides[0], sides[1])
    return sizes


class LazyImages(dict[str, np.ndarray]):
    """Camera name -> image of one moment; each is drawn when it is first read."""

    def __init__(self, cameras: Iterable[str], draw: Callable[[str], np.ndarray]) -> None:
        super().__init__(dict.fromkeys(cameras))  # type: ignore[arg-type]
        self._draw = draw

    def __getitem__(self, camera: str) -> np.ndarray:
        image = super().__getitem__(camera)
        if image is None:
            image = self._draw(camera)
            self[camera] = image
        return image

    # dict's own versions of the following read the unfilled entries; dict(lazy) and {**lazy} too,
    # unless __iter__ is overridden.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, camera: str, default: Any = None) -> Any:
        """The image, drawn now if necessary; the default for an unknown camera."""
        return self[camera] if camera in self else default  # noqa: SIM401

    def values(self) -> list[np.ndarray]:  # type: ignore[override]
        """Every image, in the cameras' order."""
        return [self[camera] for camera in self]

    def items(self) -> list[tuple[str, np.ndarray]]:  # type: ignore[override]
        """Every camera with its image."""
        return [(camera, self[camera]) for camera in self]

    def copy(self) -> dict[str, np.ndarray]:
        """A plain dictionary with every image."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and self.copy() == dict(other.items())

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyImages._drawn, (self.copy(),)  # a copy stays of this type, as Gymnasium compares

    @classmethod
    def _drawn(cls, images: dict[str, np.ndarray]) -> "LazyImages":
        return cls(images, images.__getitem__)
