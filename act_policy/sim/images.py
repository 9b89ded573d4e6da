"""Camera pictures that cost nothing until somebody looks at them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np


class LazyImages(dict[str, np.ndarray]):
    """Camera name -> picture of one moment, each drawn when it is first read, however late."""

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
        """The picture, drawn now if need be; the default for a camera that is not there."""
        return self[camera] if camera in self else default  # noqa: SIM401

    def values(self) -> list[np.ndarray]:  # type: ignore[override]
        """Every picture, in the cameras' order."""
        return [self[camera] for camera in self]

    def items(self) -> list[tuple[str, np.ndarray]]:  # type: ignore[override]
        """Every camera with its picture."""
        return [(camera, self[camera]) for camera in self]

    def copy(self) -> dict[str, np.ndarray]:
        """A plain dictionary with every picture."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and self.copy() == dict(other.items())

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyImages._drawn, (self.copy(),)

    @classmethod
    def _drawn(cls, images: dict[str, np.ndarray]) -> "LazyImages":
        return cls(images, images.__getitem__)
