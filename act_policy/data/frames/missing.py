"""How much of a cache of decoded frames is still missing, before anything is decoded."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.frames.store import cache_folder, name_cache


class Missing(NamedTuple):
    """The shares of a cache that are not there yet, from 0 to 1.

    images: still to be decoded.
    space: still to be taken on the disk. Raw images take all of theirs when the first is decoded.
    """

    images: float = 1.0
    space: float = 1.0


EVERYTHING = Missing()


def find_missing(
    datasets: Sequence[DemonstrationDataset], folder: str | Path | None
) -> dict[str, Missing]:
    """Find out what a `FrameStore` of each of these datasets would still have to decode.

    Args:
        datasets: with images at the sizes at which they are kept.
        folder: holds the folders of the caches, see `cache_folder`.

    Returns:
        The format of the caches, "raw" or "jpeg" -> what they lack together.
    """
    folders = [cache_folder(dataset, folder) for dataset in datasets]
    begun = (path for own in folders for path in own.glob("*"))
    if not any(path.suffix in (".frames", ".unfinished") for path in begun):
        return dict.fromkeys(("raw", "jpeg"), EVERYTHING)
    encoded = [
        (dataset, own, camera, episodes)
        for dataset, own in zip(datasets, folders, strict=True)
        for camera in dataset.schema.cameras
        if (episodes := _find_encoded(dataset, camera.name))
    ]

    def add_up(compact: bool) -> Missing:
        frames = missing = size = 0
        space = 0.0
        for dataset, own, camera, episodes in encoded:
            cache = name_cache(dataset, camera, episodes, own, compact)
            frames, size = frames + cache.frames, size + cache.size
            if cache.is_whole:
                continue
            decoded = sum(int(dataset.lengths[e]) for e in cache.open_journal().undecodable)
            missing += cache.frames - decoded
            share = 1 - decoded / cache.frames if compact else float(not decoded)
            space += cache.size * share
        return Missing(missing / frames, space / size) if frames else EVERYTHING

    return {"raw": add_up(compact=False), "jpeg": add_up(compact=True)}


def _find_encoded(dataset: DemonstrationDataset, camera: str) -> list[int]:
    """List the episodes in which the camera's frames are encoded."""
    episodes = range(len(dataset.episodes))
    return [episode for episode in episodes if dataset.frame_offsets(episode, camera) is None]
