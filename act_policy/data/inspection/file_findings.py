"""Findings about files: open the readable part of a folder, and name every file that is not."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from act_policy.data.dataset import DatasetWarning, DemonstrationDataset
from act_policy.data.episode_errors import EpisodeErrors, UnfinishedError
from act_policy.data.episode_files import episode_files
from act_policy.data.inspection.finding import Finding, Kind, Verdict
from act_policy.data.open import find_folder, open_dataset
from act_policy.data.reader_config import DEFAULT_READER, ReaderConfig
from act_policy.data.schemas import OtherNamesError
from act_policy.errors import UserError, list_some

if TYPE_CHECKING:
    from act_policy.data.aloha.episode import EpisodeFile
    from act_policy.data.lerobot.metadata import Metadata


def open_readable(
    path: str | Path, reader: ReaderConfig = DEFAULT_READER
) -> tuple[DemonstrationDataset | None, list[Finding]]:
    """Open a folder without the episodes that are broken or do not fit the others.

    Args:
        path: the folder.
        reader: how training will read the files.

    Returns:
        The demonstrations, None where nothing can be used, and a finding for each problem.

    Raises:
        UserError: there is no such folder, or no demonstration in it.
    """
    folder = find_folder(path, reader.download)
    strict = replace(reader, unreadable="stop")
    try:
        with warnings.catch_warnings():  # its notes become findings
            warnings.simplefilter("ignore", DatasetWarning)
            dataset = open_dataset(folder, strict)
    except UserError as error:
        if (folder / "meta" / "info.json").is_file():
            readable, broken = _lerobot(folder, error, reader)
            unlike: list[Finding] = []
        elif episode_files(folder):
            readable, broken, unlike = _aloha(folder, error, strict)
        else:
            raise
        if readable is None and all(isinstance(error, OtherNamesError) for error in broken):
            detail = {"error": broken[0]}  # the others say the same
            return None, [Finding(Verdict.ERROR, Kind.OTHER_NAMES, detail=detail), *unlike]
        left_out = reader.unreadable == "skip" and readable is not None
        verdict = Verdict.WARNING if left_out else Verdict.ERROR
        return readable, [
            *(Finding(verdict, Kind.BROKEN_FILE, detail={"error": error}) for error in broken),
            *unlike,
        ]
    return dataset, [
        *find_no_camera(dataset),
        *(Finding(Verdict.WARNING, Kind.READER_NOTE, detail={"note": n}) for n in dataset.notes),
    ]


def find_no_camera(dataset: DemonstrationDataset) -> Iterator[Finding]:
    """Report demonstrations without a camera that can be used, and why none can."""
    if not dataset.schema.cameras:
        reasons = [f"{name}: {why}" for name, why in dataset.left_out.items() if why]
        detail = {"reasons": list_some(reasons) or f"{dataset.folder} holds no images"}
        yield Finding(Verdict.ERROR, Kind.NO_CAMERA, detail=detail)


def _aloha(
    folder: Path, first: UserError, reader: ReaderConfig
) -> tuple[DemonstrationDataset | None, list[UserError], list[Finding]]:
    """Read each file by itself; collect errors, and findings where a file is unlike most others."""
    from act_policy.data.aloha.dataset import AlohaHDF5Dataset
    from act_policy.data.aloha.episode import read_episode

    errors, episodes = [], []
    for path in episode_files(folder):
        try:
            episode = read_episode(path, reader)
        except UserError as error:
            errors.append(error)
            continue
        # A schema that is given takes the place of the stored ones.
        episodes.append(episode._replace(schema=None) if reader.schema else episode)
    if not episodes:
        return None, errors, []
    cameras = None if reader.cameras is None else list(reader.cameras)
    usual = Counter(_form(episode, cameras) for episode in episodes).most_common(1)[0][0]
    alike = [episode for episode in episodes if _form(episode, cameras) == usual]
    counts = {"alike": len(alike), "count": len(episodes)}
    unlike = [
        Finding(
            Verdict.ERROR,
            Kind.UNLIKE_FILE,
            f"{episode.path}",
            {"differences": differences, **counts},
        )
        for episode in episodes
        if (differences := _differences(episode, alike[0], cameras))
    ]
    if not errors and not unlike:  # it is not the files: the schema given, the cameras chosen
        raise first
    try:
        dataset = AlohaHDF5Dataset(folder, reader, [e.path for e in alike])
    except UserError as error:
        unlike.append(Finding(Verdict.ERROR, Kind.UNLIKE_FILE, detail={"error": error}))
        return None, errors, unlike
    return dataset, errors, unlike


def _form(episode: "EpisodeFile", chosen: Sequence[str] | None) -> tuple[tuple[str, Any], ...]:
    """Everything that all episodes of a dataset must share, by name."""
    cameras = (
        f"{camera.name} {camera.height}x{camera.width}"
        for name, camera in sorted(episode.cameras.items())
        if chosen is None or name in chosen
    )
    return (
        ("state dimensions", episode.state.shape[1]),
        ("action dimensions", episode.action.shape[1]),
        ("cameras", ", ".join(cameras) or "none"),
        ("schema", episode.schema),
    )


def _differences(
    episode: "EpisodeFile", other: "EpisodeFile", chosen: Sequence[str] | None
) -> dict[str, tuple[Any, Any]]:
    """By name, what one episode has and what the other has instead."""
    pairs = zip(_form(episode, chosen), _form(other, chosen), strict=True)
    apart = {name: (here, there) for (name, here), (_, there) in pairs if here != there}
    here, there = apart.pop("schema", (None, None))
    if apart or here == there:
        return apart
    if here is None or there is None:
        return {"schema": ("none", "stored") if here is None else ("stored", "none")}
    mine, theirs = here.to_dict(), there.to_dict()
    return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}


def _lerobot(
    folder: Path, first: UserError, reader: ReaderConfig
) -> tuple[DemonstrationDataset | None, list[UserError]]:
    """Leave out the episodes with an error, and open every file that the metadata name."""
    from act_policy.data.lerobot.dataset import LeRobotDataset
    from act_policy.data.lerobot.metadata import read_metadata

    dataset = None
    errors: list[UserError] = []
    try:
        dataset = LeRobotDataset(folder, replace(reader, unreadable="skip"))
        errors += dict.fromkeys(dataset.episode_errors.values())
    except UserError as error:
        errors.append(error)
    try:
        files = list(_file_errors(read_metadata(folder, EpisodeErrors("skip"))))
    except UserError:
        files = []
    known = {error.path for error in errors if isinstance(error, UnfinishedError)}
    errors += [error for error in files if error.path not in known]
    return dataset, errors or [first]


def _file_errors(metadata: "Metadata") -> Iterator[UnfinishedError]:
    """An error for each parquet file and video that cannot be opened."""
    from act_policy.data.lerobot.metadata import open_parquet
    from act_policy.data.video.index import read_header

    for path in dict.fromkeys(entry.data for entry in metadata.episodes):
        try:
            open_parquet(path).close()
        except UnfinishedError as error:
            yield error
    videos = [video.path for entry in metadata.episodes for video in entry.videos.values()]
    for path in dict.fromkeys(videos):
        try:
            read_header(path)
        except UnfinishedError as error:
            yield error
