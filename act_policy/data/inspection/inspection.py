"""What a person should know of demonstrations before training on them, as data."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from act_policy.data.dataset import DemonstrationDataset
from act_policy.errors import UserError, check_whole_number


class Verdict(StrEnum):
    """How bad a finding is: training is impossible, would learn something wrong, or nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(NamedTuple):
    """One thing that is unusual.

    verdict: how bad it is.
    subject: what is concerned, in a few words; the same for findings of one kind.
    text: what was found, and where.
    advice: what to do.
    episodes: indices of the episodes concerned, empty where all are.
    """

    verdict: Verdict
    subject: str
    text: str
    advice: str
    episodes: tuple[int, ...] = ()


class DimensionReport(NamedTuple):
    """One dimension of state or action over the finite values of all episodes."""

    field: str
    name: str
    unit: str
    mean: float
    std: float
    min: float
    max: float
    remark: str


class CameraLook(NamedTuple):
    """What a camera shows in an episode, as far as it was looked at.

    steps: of which an image was decoded, ascending.
    images: uint8 (h, w, 3), shrunk, of these steps; empty where they are not kept.
    black, empty: whether every one is.
    still: first and last step of the longest stretch of images that are the same, from three on
        and half of them at least; None where there is none.
    undecodable: a message for each step that cannot be decoded.
    refused: why no image of it can be read, None where some can.
    """

    episode: int
    camera: str
    steps: list[int]
    images: list[np.ndarray]
    black: bool
    empty: bool
    still: tuple[int, int] | None
    undecodable: list[str]
    refused: str | None


@dataclass(frozen=True)
class InspectionConfig:
    """What the findings depend on besides the demonstrations.

    Args:
        chunk_length: k, actions that the policy will predict; None leaves the chunk unchecked.
        std_floor: smallest divisor of the normaliser, in physical units.
        undecodable: "stop" or "skip", what training will do with a frame that cannot be decoded.
    """

    chunk_length: int | None = None
    std_floor: float = 1e-2
    undecodable: str = "stop"

    def __post_init__(self) -> None:
        if self.chunk_length is not None:
            check_whole_number("chunk_length", self.chunk_length, 1)
        if not self.std_floor > 0:
            raise UserError(f"std_floor must be positive, found {self.std_floor}")
        if self.undecodable not in ("stop", "skip"):
            raise UserError(f"undecodable must be stop or skip, found {self.undecodable!r}")


@dataclass(frozen=True)
class Inspection:
    """The whole report.

    folder: that was inspected.
    dataset: the demonstrations that can be read; None where none can.
    dimensions: their ranges and statistics.
    findings: the worst first.
    shown: indices of the episodes that are shown in full.
    looks: what the cameras show in them.
    """

    folder: Path
    dataset: DemonstrationDataset | None
    dimensions: list[DimensionReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    looks: list[CameraLook] = field(default_factory=list)

    def count(self, verdict: Verdict) -> int:
        """How many findings have this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Errors, warnings, notes; within them the order stays."""
    order = list(Verdict)
    return sorted(findings, key=lambda finding: order.index(finding.verdict))


def report_dimensions(
    dataset: DemonstrationDataset, std_floor: float = 1e-2
) -> list[DimensionReport]:
    """Statistics of each dimension; the remark says what is unusual: constant, not finite, ..."""
    schema, reports = dataset.schema, []
    episodes = range(dataset.episode_count)
    for kind, arrays, names, units in (
        ("state", map(dataset.state, episodes), schema.state_names, schema.state_units),
        ("action", map(dataset.action, episodes), schema.action_names, schema.action_units),
    ):
        values = np.concatenate(list(arrays)).astype(np.float64)
        for dimension, (name, unit) in enumerate(zip(names, units, strict=True)):
            column = values[:, dimension]
            finite = column[np.isfinite(column)]
            low, high = (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
            std = finite.std() if len(finite) else np.nan
            remarks = []
            if len(finite) < len(column):
                remarks.append(f"{len(column) - len(finite)} values are not finite")
            if low == high:
                remarks.append("constant")
            elif std < std_floor:
                remarks.append(f"nearly constant: std below the floor {std_floor:g}")
            mean = finite.mean() if len(finite) else np.nan
            reports.append(
                DimensionReport(kind, name, unit, mean, std, low, high, "; ".join(remarks))
            )
    return reports
