"""Examine demonstrations: all of a folder for a report, or quickly before training on them."""

from pathlib import Path
from typing import Any

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.inspection.broken_files import open_readable
from act_policy.data.inspection.evidence import Evidence
from act_policy.data.inspection.findings import find
from act_policy.data.inspection.image_findings import find_in_images, look, spread
from act_policy.data.inspection.inspection import (
    Finding,
    Inspection,
    InspectionConfig,
    Verdict,
    report_dimensions,
    worst_first,
)
from act_policy.errors import check_whole_number

FEW, MANY = 3, 8
"""Images of each camera and episode: to find what is black or frozen, and to see what happens."""
QUICK_EPISODES = 3
"""Episodes of which images are looked at before training."""


def inspect_folder(
    path: str | Path,
    config: InspectionConfig,
    shown_episodes: int,
    every_frame: bool = False,
    progress: bool = False,
    unreadable: str = "stop",
    **reader_options: Any,
) -> Inspection:
    """Find everything unusual in a folder, files that cannot be read included.

    Args:
        path: the folder.
        config: what the findings depend on.
        shown_episodes: at most so many episodes get film strips: those that a warning about
            numbers names, up to half, and others spread over all.
        every_frame: decode every frame instead of a few, to find each that cannot be.
        progress: show a progress bar while images are decoded.
        unreadable: "stop" or "skip", what training will do with a broken episode.
        reader_options: see `open_dataset`.

    Raises:
        UserError: there is nothing to inspect.
    """
    check_whole_number("shown_episodes", shown_episodes, 0)
    dataset, findings = open_readable(path, unreadable, **reader_options)
    if dataset is None:
        return Inspection(Path(path), None, findings=findings)
    evidence = Evidence(dataset, config)
    numbers = find(evidence)
    named = {e for f in numbers if f.verdict is not Verdict.NOTE for e in f.episodes}
    first = sorted(named)[: shown_episodes // 2]
    shown = sorted({*first, *spread(dataset.episode_count, shown_episodes - len(first))})
    others = sorted(set(range(dataset.episode_count)) - set(shown))
    looks = look(dataset, shown, MANY, True, every_frame, progress)
    more = look(dataset, others, FEW, False, every_frame, progress)
    findings += [*numbers, *find_in_images(evidence, [*looks, *more])]
    return Inspection(
        Path(path),
        dataset,
        report_dimensions(dataset, config.std_floor),
        worst_first(findings),
        shown,
        looks,
    )


def inspect_before_training(
    dataset: DemonstrationDataset, config: InspectionConfig
) -> list[Finding]:
    """Find what shows in states, actions and a few images, the worst first."""
    evidence = Evidence(dataset, config)
    episodes = spread(dataset.episode_count, QUICK_EPISODES)
    return worst_first([*find(evidence), *find_in_images(evidence, look(dataset, episodes, FEW))])
