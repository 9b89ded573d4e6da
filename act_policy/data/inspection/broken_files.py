"""Open what can be read of a folder, and name every file that cannot."""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from act_policy.data.dataset import DatasetWarning, DemonstrationDataset
from act_policy.data.inspection.inspection import Finding, Verdict
from act_policy.data.open import find_folder, open_dataset
from act_policy.errors import UserError

if TYPE_CHECKING:
    from act_policy.data.aloha.episode import Episode
    from act_policy.data.lerobot.metadata import Metadata


UNLIKE_ADVICE = (
    "Training refuses the folder as it is, with unreadable=skip too: leave the episode out with "
    "data.select.exclude=[...], move it out of the folder, or choose cameras that all have with "
    "cameras=[...] (data.cameras= in training)."
)


def open_readable(
    path: str | Path, unreadable: str = "stop", **reader_options: Any
) -> tuple[DemonstrationDataset | None, list[Finding]]:
    """Open a folder without the episodes that are broken or do not fit the others.

    Args:
        path: the folder.
        unreadable: "stop" or "skip", what training will do with a broken episode.
        reader_options: see `open_dataset`.

    Returns:
        The demonstrations, None where nothing can be used, and a finding for each problem.

    Raises:
        UserError: there is no such folder, or no demonstration in it.
    """
    folder = find_folder(path, reader_options.pop("download", False))
    try:
        with warnings.catch_warnings():  # its notes become findings
            warnings.simplefilter("ignore", DatasetWarning)
            dataset = open_dataset(folder, **reader_options)
    except UserError as error:
        if (folder / "meta" / "info.json").is_file():
            found, broken = _lerobot(folder, f"{error}", **reader_options)
            unlike: list[str] = []
        elif any(folder.glob("*.hdf5")):
            found, broken, unlike = _aloha(folder, f"{error}", **reader_options)
        else:
            raise
        left_out = unreadable == "skip" and found is not None
        return found, [
            *(_broken(problem, left_out) for problem in dict.fromkeys(broken)),
            *(
                Finding(Verdict.ERROR, "files that cannot be used", problem, UNLIKE_ADVICE)
                for problem in unlike
            ),
        ]
    return dataset, [
        Finding(
            Verdict.WARNING,
            "remarks of the reader",
            note,
            "The rest can be trained on; look whether that is what you meant.",
        )
        for note in dataset.notes
    ]


def _broken(problem: str, left_out: bool) -> Finding:
    return Finding(
        Verdict.WARNING if left_out else Verdict.ERROR,
        "files that cannot be used",
        problem,
        "Training leaves the episode out (unreadable: skip)."
        if left_out
        else "Training refuses the folder as it is: repair the file, move the episode out of it, "
        "or leave it out with unreadable=skip (data.unreadable= in training).",
    )


def _aloha(
    folder: Path, first: str, **options: Any
) -> tuple[DemonstrationDataset | None, list[str], list[str]]:
    """Read each file by itself; say what is broken, and what differs from most of the others."""
    from act_policy.data.aloha.dataset import AlohaHDF5Dataset, episode_files
    from act_policy.data.aloha.episode import read_episode

    problems, episodes = [], []
    for path in episode_files(folder):
        try:
            episode = read_episode(path, options.get("jpeg_order", "bgr"))
        except UserError as error:
            problems.append(f"{error}")
            continue
        # a schema that is given stands in place of the stored ones
        episodes.append(episode._replace(schema=None) if options.get("schema") else episode)
    if not episodes:
        return None, problems, []
    cameras = options.get("cameras")
    usual = Counter(_form(episode, cameras) for episode in episodes).most_common(1)[0][0]
    alike = [episode for episode in episodes if _form(episode, cameras) == usual]
    unlike = [
        f"{episode.path}: differs from {len(alike)} of {len(episodes)} episodes: {said}"
        for episode in episodes
        if (said := _differences(episode, alike[0], cameras))
    ]
    if not problems and not unlike:  # it is not the files: the schema given, the cameras chosen
        raise UserError(first)
    try:
        dataset = AlohaHDF5Dataset(folder, paths=[e.path for e in alike], **options)
    except UserError as error:
        return None, problems, [*unlike, f"{error}"]
    return dataset, problems, unlike


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
    """Leave out the episodes with a fault, and look at every file that the metadata name."""
    from act_policy.data.faults import Faults
    from act_policy.data.lerobot.dataset import LeRobotDataset
    from act_policy.data.lerobot.metadata import read_metadata

    chosen = {key: options[key] for key in ("schema", "cameras", "action_shift") if key in options}
    dataset = None
    problems: list[str] = []
    try:
        dataset = LeRobotDataset(folder, unreadable="skip", **chosen)
        problems += dataset.faults.values()
    except UserError as error:
        problems.append(f"{error}")
    try:
        files = list(_file_problems(read_metadata(folder, Faults("skip"))))
    except UserError:
        files = []
    told = {problem.split(": ")[0] for problem in problems}
    problems += [problem for problem in files if problem.split(": ")[0] not in told]
    return dataset, problems or [first]


def _file_problems(metadata: "Metadata") -> Iterator[str]:
    """What is wrong with each parquet file and video that cannot be opened."""
    from act_policy.data.lerobot.metadata import open_parquet
    from act_policy.data.video.file import read_header

    for path in dict.fromkeys(entry.data for entry in metadata.episodes):
        try:
            open_parquet(path).close()
        except UserError as error:
            yield f"{error}"
    videos = [video.path for entry in metadata.episodes for video in entry.videos.values()]
    for path in dict.fromkeys(videos):
        try:
            read_header(path)
        except UserError as error:
            yield f"{error}"
