"""Open what can be read of a folder, and name every file that cannot."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from act_policy.data.dataset import DemonstrationDataset, open_dataset
from act_policy.data.inspection import Finding, Verdict
from act_policy.errors import UserError

if TYPE_CHECKING:
    from act_policy.data.aloha_episode import Episode
    from act_policy.data.lerobot_metadata import Metadata

SUBJECT = "files that cannot be used"


def open_readable(
    path: str | Path, **reader_options: Any
) -> tuple[DemonstrationDataset | None, list[Finding]]:
    """Open a folder without the files that are broken or do not fit the others.

    Args:
        path: the folder.
        reader_options: see `open_dataset`.

    Returns:
        The demonstrations, None where nothing can be used, and a finding for each problem.

    Raises:
        UserError: there is no such folder, or no demonstration in it.
    """
    try:
        return open_dataset(path, **reader_options), []
    except UserError as error:
        folder = Path(path)
        if (folder / "meta" / "info.json").is_file():
            dataset, problems = _lerobot(folder, str(error), **reader_options)
        elif any(folder.glob("*.hdf5")):
            dataset, problems = _aloha(folder, str(error), **reader_options)
        else:
            raise
    return dataset, [_finding(problem) for problem in dict.fromkeys(problems)]


def _finding(problem: str) -> Finding:
    return Finding(
        Verdict.ERROR,
        SUBJECT,
        problem,
        "Training refuses the folder as it is: repair the file, or move the episode out of it.",
    )


def _aloha(
    folder: Path, first: str, **options: Any
) -> tuple[DemonstrationDataset | None, list[str]]:
    """Read each file by itself, and leave out those that differ from most."""
    from act_policy.data.aloha_episode import read_episode
    from act_policy.data.aloha_hdf5 import AlohaHDF5Dataset, episode_files

    problems, episodes = [], []
    for path in episode_files(folder):
        try:
            episode = read_episode(path, options.get("jpeg_order", "bgr"))
        except UserError as error:
            problems.append(str(error))
            continue
        # a schema that is given stands in place of the stored ones
        episodes.append(episode._replace(schema=None) if options.get("schema") else episode)
    if not episodes:
        return None, problems
    cameras = options.get("cameras")
    usual = Counter(_form(episode, cameras) for episode in episodes).most_common(1)[0][0]
    alike = [episode for episode in episodes if _form(episode, cameras) == usual]
    problems += [
        f"{episode.path}: differs from {len(alike)} of {len(episodes)} episodes: {said}"
        for episode in episodes
        if (said := _differences(episode, alike[0], cameras))
    ]
    if not problems:  # it is not the files: the schema given, the cameras chosen
        raise UserError(first)
    try:
        return AlohaHDF5Dataset(folder, paths=[e.path for e in alike], **options), problems
    except UserError as error:
        return None, [*problems, str(error)]


def _form(episode: "Episode", chosen: str | Sequence[str] | None) -> tuple[tuple[str, Any], ...]:
    """What all episodes of a dataset must share, by name."""
    wanted = [chosen] if isinstance(chosen, str) else chosen
    cameras = (
        f"{camera.name} {camera.height}x{camera.width}"
        for name, camera in sorted(episode.cameras.items())
        if wanted is None or name in wanted
    )
    return (
        ("state dimensions", episode.state.shape[1]),
        ("action dimensions", episode.action.shape[1]),
        ("cameras", ", ".join(cameras) or "none"),
        ("schema", episode.schema),
    )


def _differences(episode: "Episode", other: "Episode", chosen: str | Sequence[str] | None) -> str:
    """Say what one episode has and what the other."""
    pairs = zip(_form(episode, chosen), _form(other, chosen), strict=True)
    apart = {name: (here, there) for (name, here), (_, there) in pairs if here != there}
    here, there = apart.pop("schema", (None, None))
    said = [f"{name}: {one} here, {two} there" for name, (one, two) in apart.items()]
    if here != there and not said:
        if here is None or there is None:
            return "one stores a schema, the other does not"
        said = here.differences(there) or [f"task: {here.task!r} here, {there.task!r} there"]
    return "; ".join(said)


def _lerobot(
    folder: Path, first: str, **options: Any
) -> tuple[DemonstrationDataset | None, list[str]]:
    """Look at every file that the metadata name; without a broken camera the rest can be read."""
    from act_policy.data.lerobot_dataset import LeRobotDataset
    from act_policy.data.lerobot_metadata import read_metadata
    from act_policy.data.lerobot_rows import data_files, read_file

    try:
        metadata = read_metadata(folder)
    except UserError as error:
        return None, [str(error)]
    problems = []
    for path, group in data_files(metadata).items():
        try:
            read_file(metadata, path, group)
        except UserError as error:
            problems.append(str(error))
    broken = set()
    for key, problem in _video_problems(metadata):
        problems.append(problem)
        broken.add(key)
    if not any(first.startswith(problem.split(": ")[0]) for problem in problems):
        problems.append(first)
    whole = [
        key.rpartition(".")[2]
        for key, feature in metadata.features.items()
        if feature.is_image and key not in broken and not feature.is_depth
    ]
    wanted = options.pop("cameras", None)
    options.pop("jpeg_order", None)
    names = [name for name in whole if wanted is None or name in wanted]
    try:
        return LeRobotDataset(folder, cameras=names, **options), problems
    except UserError as error:
        return None, [*problems, str(error)] if str(error) not in problems else problems


def _video_problems(metadata: "Metadata") -> Iterator[tuple[str, str]]:
    """The feature of each video that is missing, unreadable or too short, and what is wrong."""
    from act_policy.data.lerobot_metadata import in_same_video
    from act_policy.data.video_file import read_header

    for key, feature in metadata.features.items():
        if feature.dtype != "video":
            continue
        for path, group in in_same_video(key, metadata.episodes):
            where = f"episodes {group[0]} to {group[-1]}" if group[1:] else f"episode {group[0]}"
            wanted = sum(metadata.episodes[index].length for index in group)
            try:
                frames = read_header(path).frames
            except UserError as error:
                yield key, f"{error} ({where}, {key})"
                continue
            if frames is not None and frames < wanted:
                yield (
                    key,
                    f"{path}: {where}, {key}: the video has {frames} frames, the metadata count "
                    f"{wanted}",
                )
