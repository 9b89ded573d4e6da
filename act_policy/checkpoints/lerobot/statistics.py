"""LeRobot's normalisation modes, each of which is (x - centre) / spread per dimension.

    MEAN_STD     centre mean, spread std + eps
    MIN_MAX      [min, max] to [-1, 1]; QUANTILES and QUANTILE10 the same between two quantiles
    IDENTITY     centre 0, spread 1

Sources: lerobot 0.4.4, processor/normalize_processor.py; lerobot 0.3.3, policies/normalize.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from act_policy.errors import UserError
from act_policy.model.normalizer import IMAGENET_MEAN, IMAGENET_STD
from act_policy.statistics import FieldStatistics, ImageStatistics, Statistics
from act_policy.types import ACTION_KEY, ENVIRONMENT_STATE_KEY, IMAGE_PREFIX, STATE_KEY

EPS = 1e-8
BOUNDS = {
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
    "IDENTITY": (),
}


class PolicyFeature(NamedTuple):
    """One of LeRobot's features: its kind (STATE, VISUAL, ENV, ACTION) and its shape."""

    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of values normalised separately: dimensions, or an image's channels."""
        return self.shape[0]


class Normalisation(NamedTuple):
    """How a checkpoint normalises.

    modes: of each feature. values: feature -> statistic -> array.
    widened: eps is added to every range, as LeRobot 0.3 does; else only to an empty one.
    """

    modes: Mapping[str, str]
    values: Mapping[str, Mapping[str, np.ndarray]]
    eps: float = EPS
    widened: bool = False


def to_statistics(
    normalisation: Normalisation, features: Mapping[str, PolicyFeature], cameras: Mapping[str, str]
) -> Statistics:
    """Turn the normalisation of a checkpoint into our statistics.

    Args:
        normalisation: of every feature.
        features: those that the network reads, and the action.
        cameras: feature -> camera name.

    Raises:
        UserError: statistics are missing, not finite or of another size; all are listed.
    """
    problems = [
        p for key, feature in features.items() for p in _missing(normalisation, key, feature)
    ]
    if problems:
        raise UserError("statistics: " + "; ".join(problems))
    fields = {key: _field(normalisation, key, features[key]) for key in features}
    images = {
        name: ImageStatistics(fields[key].mean, fields[key].std) for key, name in cameras.items()
    }
    imagenet = all(
        np.allclose(image.mean, IMAGENET_MEAN, rtol=0, atol=1e-6)
        and np.allclose(image.std, IMAGENET_STD, rtol=0, atol=1e-6)
        for image in images.values()
    )
    return Statistics(
        state=fields.get(STATE_KEY, FieldStatistics(*[np.empty(0)] * 4)),
        action=fields[ACTION_KEY],
        step_count=0,
        std_floor=normalisation.eps,
        environment_state=fields.get(ENVIRONMENT_STATE_KEY),
        images=None if imagenet else images,
    )


def from_statistics(
    statistics: Statistics, cameras: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    """Write ours as LeRobot's, feature -> statistic -> float32, to be used with MEAN_STD."""
    values: dict[str, dict[str, np.ndarray]] = {}
    for key, field in (
        (STATE_KEY, statistics.state),
        (ENVIRONMENT_STATE_KEY, statistics.environment_state),
        (ACTION_KEY, statistics.action),
    ):
        if field is None or not len(field.mean):
            continue
        values[key] = {"mean": field.mean, "std": np.maximum(statistics.scale(field) - EPS, 0)}
        if np.isfinite(field.min).all() and np.isfinite(field.max).all():
            values[key] |= {"min": field.min, "max": field.max}
    for name in cameras:
        image = ImageStatistics(np.asarray(IMAGENET_MEAN), np.asarray(IMAGENET_STD))
        if statistics.images is not None:
            image = statistics.images[name]
        values[IMAGE_PREFIX + name] = {
            "mean": image.mean.reshape(3, 1, 1),
            "std": (image.std - EPS).reshape(3, 1, 1),
        }
    return {
        key: {name: np.asarray(value, dtype=np.float32) for name, value in field.items()}
        for key, field in values.items()
    }


def _missing(normalisation: Normalisation, key: str, feature: PolicyFeature) -> Sequence[str]:
    """List the statistics that a feature's mode needs and does not find."""
    mode = normalisation.modes[key]
    if mode not in BOUNDS:
        return [f"{key}: mode {mode} is unknown; known are {', '.join(BOUNDS)}"]
    problems = []
    for name in BOUNDS[mode]:
        value = normalisation.values.get(key, {}).get(name)
        if value is None:
            problems.append(f"{key} ({mode}) lacks {name}")
        elif value.size != feature.size:
            problems.append(f"{key}.{name} has {value.size} values instead of {feature.size}")
        elif not np.isfinite(value).all():
            problems.append(f"{key}.{name} is not finite")
    if not problems and mode == "MEAN_STD" and (normalisation.values[key]["std"] < 0).any():
        problems.append(f"{key}.std is negative")
    if not problems and mode not in ("MEAN_STD", "IDENTITY"):
        low, high = (normalisation.values[key][name] for name in BOUNDS[mode])
        if (high < low).any():
            problems.append(f"{key}: {BOUNDS[mode][1]} is below {BOUNDS[mode][0]}")
    return problems


def _field(normalisation: Normalisation, key: str, feature: PolicyFeature) -> FieldStatistics:
    mode, eps = normalisation.modes[key], normalisation.eps
    found = {
        name: np.asarray(value, dtype=np.float64).reshape(-1)
        for name, value in normalisation.values.get(key, {}).items()
    }
    centre, spread = np.zeros(feature.size), np.ones(feature.size)
    if mode == "MEAN_STD":
        centre, spread = found["mean"], found["std"] + eps
    elif mode != "IDENTITY":
        low, high = (found[name] for name in BOUNDS[mode])
        width = high - low
        empty = width == 0
        if normalisation.widened:
            width = width + eps
        # A constant reading is sent to -1. LeRobot divides its deviation, which is zero, by eps;
        # in float32 that needs another centre and any spread. A constant action comes back.
        constant = (
            (low, np.full_like(low, eps)) if key == ACTION_KEY else (low + 1, np.ones_like(low))
        )
        centre = np.where(empty, constant[0], low + width / 2)
        spread = np.where(empty, constant[1], width / 2)
    unknown = np.full(feature.size, np.nan)
    ranges = [
        value if value.shape == unknown.shape else unknown
        for value in (found.get("min", unknown), found.get("max", unknown))
    ]
    return FieldStatistics(centre, spread, *ranges)
