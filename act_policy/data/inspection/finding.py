"""A finding as data: its kind, what it concerns, and numbers; `sentences` puts it into words."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[Any, Any] = MappingProxyType({})


Details = dict[int, dict[str, Any]]
"""Numbers and names about single episodes, by the episodes' indices."""


class Verdict(StrEnum):
    """How bad a finding is.

    ERROR: training is impossible.
    WARNING: a policy would learn something wrong.
    NOTE: worth knowing, and may well be intended.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """Everything that is looked for, each with the name that a person reads."""

    BROKEN_FILE = "files that cannot be used"
    OTHER_NAMES = "contents under other names"
    UNLIKE_FILE = "files that differ from the others"
    READER_NOTE = "remarks of the reader"
    NO_CAMERA = "no camera that can be used"
    NOT_FINITE = "values that are not finite"
    FAILED = "failed demonstrations"
    INSTRUCTIONS = "several instructions"
    CONTRADICTED = "file and data contradict each other"
    MOVEMENTS = "actions that are movements"
    ACTION_IS_STATE = "action equals state"
    INVERTED = "actions that run against the state"
    EXCHANGED = "actions that another joint follows"
    SCALE = "scale of action and state"
    OFFSET = "offset between action and state"
    LONG_LAG = "states that follow late"
    CONSTANT = "constant dimensions"
    NEARLY_CONSTANT = "nearly constant dimensions"
    RATE = "rate"
    GAPS = "gaps in the timestamps"
    JUMPS = "jumps"
    IDLE = "idle stretches"
    DUPLICATES = "duplicated episodes"
    UNWRITTEN = "steps that were never written"
    ENDS_EARLY = "episodes that end early"
    SHORT = "episodes shorter than a second"
    LONG_CHUNK = "long chunk"
    NUMBERS_LEFT_OUT = "numbers left out"
    MISPLACED_IMAGES = "images that do not fit the metadata"
    UNDECODABLE = "frames that cannot be decoded"
    BLACK_CAMERA = "black camera"
    EMPTY_CAMERA = "empty camera"
    FROZEN_CAMERA = "frozen camera"
    SAME_IMAGES = "two cameras that show the same"


class Finding(NamedTuple):
    """One thing that is unusual.

    verdict: how bad it is.
    kind: what it is.
    subject: the field, dimension or camera that it concerns; empty where the kind says it all.
    detail: numbers, names and errors about the whole.
    episodes: the same about each episode concerned, by its index; empty where all are.
    """

    verdict: Verdict
    kind: Kind
    subject: str = ""
    detail: Mapping[str, Any] = NOTHING
    episodes: Mapping[int, Mapping[str, Any]] = NOTHING


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, warnings, notes; within them the order stays."""
    order = list(Verdict)
    return sorted(findings, key=lambda finding: order.index(finding.verdict))
