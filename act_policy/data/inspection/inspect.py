"""Inspect demonstrations: all of a folder for a report, or quickly before training on them."""

from dataclasses import dataclass, field
from pathlib import Path

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.camera_looks import CameraLook, look
from act_policy.data.inspection.evidence import (
    ActionReport,
    DimensionReport,
    Evidence,
    InspectionConfig,
)
from act_policy.data.inspection.file_findings import find_no_camera, open_readable
from act_policy.data.inspection.finding import Finding, Verdict, worst_first
from act_policy.data.inspection.image_findings import find_in_images
from act_policy.data.inspection.number_findings import find
from act_policy.data.inspection.sentences import sentence
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.errors import check_whole_number
from act_policy.report.pieces import spread

FEW, MANY = 3, 8
"""Images per camera and episode: to find black and frozen ones, and to see what happens."""
QUICK_EPISODES = 3
"""Episodes whose images are looked at before training."""


@dataclass(frozen=True)
class Inspection:
    """Everything that a report shows.

    folder: the folder that was inspected.
    dataset: the demonstrations that can be read; None where none can.
    dimensions: ranges and statistics of state and action.
    actions: what each dimension of the action is.
    findings: the worst first.
    shown: indices of the episodes that are shown in full.
    looks: the cameras' images of these episodes.
    """

    folder: Path
    dataset: DemonstrationDataset | None
    dimensions: list[DimensionReport] = field(default_factory=list)
    actions: list[ActionReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    looks: list[CameraLook] = field(default_factory=list)

    def count(self, verdict: Verdict) -> int:
        """How many findings have this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    def sentence(self, finding: Finding) -> str:
        """Put one of the findings into words, with the names of episodes."""
        episodes = self.dataset.episodes if self.dataset else ()
        return sentence(finding, [episode.name for episode in episodes])


def inspect_folder(
    path: str | Path,
    config: InspectionConfig,
    shown_episodes: int,
    every_frame: bool = False,
    progress: bool = False,
    reader: ReaderConfig = DEFAULT_READER,
) -> Inspection:
    """Find everything unusual in a folder, files that cannot be read included.

    Args:
        path: the folder.
        config: settings that the findings depend on.
        shown_episodes: most episodes that get film strips: up to half of them are episodes that a
            warning about numbers names, the others are spread over all.
        every_frame: decode every frame instead of a few, to find all that cannot be decoded.
        progress: show a progress bar while images are decoded.
        reader: how training will read the files.

    Raises:
        UserError: there is nothing to inspect.
    """
    check_whole_number("shown_episodes", shown_episodes, 0)
    dataset, findings = open_readable(path, reader)
    if dataset is None:
        return Inspection(Path(path), None, findings=findings)
    evidence = Evidence(dataset, config)
    numbers = find(evidence)
    named = {e for f in numbers if f.verdict is not Verdict.NOTE for e in f.episodes}
    first = sorted(named)[: shown_episodes // 2]
    shown = sorted({*first, *spread(len(dataset.episodes), shown_episodes - len(first))})
    others = sorted(set(range(len(dataset.episodes))) - set(shown))
    looks = look(dataset, shown, MANY, True, every_frame, progress)
    more = look(dataset, others, FEW, False, every_frame, progress)
    findings += [*numbers, *find_in_images(evidence, [*looks, *more])]
    return Inspection(
        Path(path),
        dataset,
        evidence.dimensions,
        evidence.action_reports,
        worst_first(findings),
        shown,
        looks,
    )


def inspect_before_training(
    dataset: DemonstrationDataset, config: InspectionConfig
) -> list[Finding]:
    """Find what shows in states, actions and a few images, the worst first."""
    evidence = Evidence(dataset, config)
    episodes = spread(len(dataset.episodes), QUICK_EPISODES)
    images = find_in_images(evidence, look(dataset, episodes, FEW))
    return worst_first([*find_no_camera(dataset), *find(evidence), *images])
