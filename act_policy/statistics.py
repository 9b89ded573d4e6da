"""Statistics of demonstrations that travel with a policy: for the normaliser and for the robot."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from act_policy.errors import UserError


class FieldStatistics(NamedTuple):
    """Statistics of one vector over every training step: float64, one value per dimension.

    std is the measured population standard deviation; the divisor is `Statistics.scale`. For a
    policy imported from other software, mean and std are the centre and spread that it was
    normalised with, and min and max are NaN where it does not store them.
    """

    mean: np.ndarray
    std: np.ndarray
    min: np.ndarray
    max: np.ndarray


class ImageStatistics(NamedTuple):
    """Normalisation of one camera's pixels in [0, 1], RGB: float64 (3,), std is the divisor."""

    mean: np.ndarray
    std: np.ndarray


class ImageLevels(NamedTuple):
    """Range over one camera's frames of the pixels' mean and deviation, for pixels in [0, 1].

    warmth: range of the mean of red minus that of blue; NaN where it was not measured.
    """

    mean: tuple[float, float]
    deviation: tuple[float, float]
    warmth: tuple[float, float] = (float("nan"), float("nan"))


class Statistics(NamedTuple):
    """Statistics for the normaliser, over exactly the episodes trained on.

    std_floor: the smallest divisor, in physical units; a joint that never moved must not explode.
    step_count: number of steps measured; 0 where an imported policy does not store it.
    images: by camera name, for policies not trained with ImageNet's values; None is ImageNet's.
    relative_actions: action dimensions that the network predicts as the difference from the state
        of the same name at the chunk's beginning; `action` then describes those differences.
    image_levels: by camera name, of a sample of frames, for the robot; None where not measured.
    action_kinds: what the demonstrations show of each action dimension, `action_kinds.ShownKind`;
        empty where it was not measured.
    """

    state: FieldStatistics
    action: FieldStatistics
    step_count: int
    std_floor: float = 1e-2
    environment_state: FieldStatistics | None = None
    images: Mapping[str, ImageStatistics] | None = None
    relative_actions: tuple[str, ...] = ()
    image_levels: Mapping[str, ImageLevels] | None = None
    action_kinds: tuple[str, ...] = ()

    def scale(self, field: FieldStatistics) -> np.ndarray:
        """Return the divisor max(std, std_floor), float64, one value per dimension."""
        scale: np.ndarray = np.maximum(field.std, self.std_floor)
        return scale

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, exact to the bit; `from_dict` is the inverse.

        JSON has no NaN: an unknown value is null.
        """
        described: dict[str, Any] = {
            "state": _plain(self.state),
            "action": _plain(self.action),
            "environment_state": self.environment_state and _plain(self.environment_state),
            "step_count": int(self.step_count),
            "std_floor": float(self.std_floor),
        }
        if self.relative_actions:
            described["relative_actions"] = list(self.relative_actions)
        if self.action_kinds:
            described["action_kinds"] = list(self.action_kinds)
        for field, cameras in (("images", self.images), ("image_levels", self.image_levels)):
            if cameras is not None:
                described[field] = {name: _plain(values) for name, values in cameras.items()}
        return described

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Statistics":
        """Rebuild from `to_dict`; a missing field raises UserError."""
        try:
            extra, images = plain["environment_state"], plain.get("images")
            if (levels := plain.get("image_levels")) is not None:
                levels = {
                    name: ImageLevels(
                        **{k: (float(low), float(high)) for k, (low, high) in _arrays(ends).items()}
                    )
                    for name, ends in levels.items()
                }
            return cls(
                state=FieldStatistics(**_arrays(plain["state"])),
                action=FieldStatistics(**_arrays(plain["action"])),
                step_count=plain["step_count"],
                std_floor=plain["std_floor"],
                environment_state=FieldStatistics(**_arrays(extra)) if extra else None,
                images=images and {n: ImageStatistics(**_arrays(v)) for n, v in images.items()},
                relative_actions=tuple(plain.get("relative_actions", ())),
                image_levels=levels,
                action_kinds=tuple(plain.get("action_kinds", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"statistics: {error}") from None


def _plain(field: FieldStatistics | ImageStatistics | ImageLevels) -> dict[str, list[float | None]]:
    return {
        name: [None if np.isnan(x) else float(x) for x in values]
        for name, values in field._asdict().items()
    }


def _arrays(plain: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(values, dtype=np.float64) for name, values in plain.items()}
