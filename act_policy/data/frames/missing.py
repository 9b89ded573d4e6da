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
    datasets: Sequence[DemonstrationDataset], folder: str | Path | None, cache_format: str
) -> Missing:
    """Find out what a `FrameStore` of each of these datasets would still have to decode.

    Args:
        datasets: with images at the sizes at which they are kept.
        folder: holds the folders of the caches, see `cache_folder`.
        cache_format: "raw" or "jpeg".
    """
    frames = missing = size = 0
    space = 0.0
    for dataset in datasets:
        own = cache_folder(dataset, folder)
        for camera in dataset.schema.cameras:
            encoded = [
                episode
                for episode in range(len(dataset.episodes))
                if dataset.frame_offsets(episode, camera.name) is None
            ]
            if not encoded:
                continue
            cache = name_cache(dataset, camera, encoded, own, cache_format == "jpeg")
            frames, size = frames + cache.frames, size + cache.size
            if cache.is_whole:
                continue
            decoded = sum(int(dataset.lengths[e]) for e in cache.open_journal().undecodable)
            missing += cache.frames - decoded
            share = 1 - decoded / cache.frames if cache.compact else float(not decoded)
            space += cache.size * share
    return Missing(missing / frames, space / size) if frames else EVERYTHING
