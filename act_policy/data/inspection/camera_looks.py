"""A few images of each camera and episode: black, empty, still, broken, or another camera's?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image
from tqdm import tqdm

from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.errors import UserError
from act_policy.report.pieces import spread

WIDTH = 128
"""Width in pixels to which wider images are shrunk before they are looked at and shown: it averages
the sensor's noise away."""
BLACK = 16
"""An image is black when 99 of 100 values are darker: 16 is black in video."""
UNIFORM = 2.0
"""An image is empty when its values deviate by less: a covered lens, a driver's green screen."""
CHANGED_BY, CHANGED_SHARE = 8, 1e-3
"""A pixel changed when a channel changed by more than the first (sensors and codecs add less); an
image changed when more than the second, a share of its pixels, did (a distant gripper covers more).
"""


class CameraLook(NamedTuple):
    """Some images of a camera in an episode, and what was seen in them.

    steps: ascending steps whose images were decoded.
    images: uint8 (h, w, 3), shrunk, of these steps; empty where they are not kept.
    black, empty: whether every image is.
    still: first and last step of the longest stretch of images that are the same, if it has three
        images or more and at least half of them; else None.
    undecodable: the error of each step that cannot be decoded.
    refused: why no image can be read, None where some can.
    same_as: the first other camera of the schema that shows the same in every image of this
        episode; None where there is none, or where the images show nothing.
    """

    episode: int
    camera: str
    steps: list[int]
    images: list[np.ndarray]
    black: bool
    empty: bool
    still: tuple[int, int] | None
    undecodable: dict[int, UndecodableFrameError]
    refused: UserError | None
    same_as: str | None = None


def look(
    dataset: DemonstrationDataset,
    episodes: Sequence[int],
    count: int,
    keep_images: bool = False,
    every_frame: bool = False,
    progress: bool = False,
) -> list[CameraLook]:
    """Decode images of each camera, spread evenly from the first to the last of each episode.

    Args:
        dataset: the demonstrations.
        episodes: indices of the episodes to look at.
        count: images per camera and episode.
        keep_images: keep them for film strips.
        every_frame: decode all other frames as well, to find those that cannot be decoded.
        progress: show a progress bar.
    """
    looks: list[CameraLook] = []
    cameras = dataset.schema.camera_names
    total = len(episodes) * len(cameras)
    with tqdm(total=total, desc="images", disable=None if progress else True) as bar:
        for episode in episodes:
            seen: list[CameraLook] = []
            for camera in cameras:
                one = _look(dataset, episode, camera, count, every_frame)
                seen.append(one._replace(same_as=_find_same(one, seen)))
                bar.update()
            looks += seen if keep_images else [one._replace(images=[]) for one in seen]
    dataset.close()
    return looks


def _find_same(one: CameraLook, others: Sequence[CameraLook]) -> str | None:
    """Name the first of the other cameras whose images are the same at the same steps."""
    if one.black or one.empty:
        return None
    for other in others:
        if one.steps and one.steps == other.steps:
            pairs = zip(one.images, other.images, strict=True)
            if all(a.shape == b.shape and not _changed(a, b) for a, b in pairs):
                return other.camera
    return None


def _look(
    dataset: DemonstrationDataset,
    episode: int,
    camera: str,
    count: int,
    every_frame: bool,
) -> CameraLook:
    """Look at one camera in one episode; the images are kept."""
    length = int(dataset.lengths[episode])
    wanted = spread(length, count)
    seen: dict[int, np.ndarray] = {}
    undecodable: dict[int, UndecodableFrameError] = {}
    refused = None
    for step in range(length) if every_frame else wanted:
        try:
            frame = dataset.frame(episode, step, camera)
        except UndecodableFrameError as error:
            undecodable[step] = error
        except UserError as error:
            refused = error
            break
        else:
            if step in wanted:
                seen[step] = _shrunk(frame)
    steps, images = list(seen), list(seen.values())
    run = _longest_run(images)
    long = len(run) >= max(3, len(wanted) / 2)
    return CameraLook(
        episode,
        camera,
        steps,
        images,
        black=bool(images) and all(map(_is_black, images)),
        empty=bool(images) and all(map(_is_uniform, images)),
        still=(steps[run.start], steps[run.stop - 1]) if long else None,
        undecodable=undecodable,
        refused=refused,
    )


def _longest_run(images: Sequence[np.ndarray]) -> range:
    """Places of the longest run of images that are the same as its first."""
    longest, start = range(0), 0
    for place in range(1, len(images) + 1):
        if place == len(images) or _changed(images[start], images[place]):
            longest = max(longest, range(start, place), key=len)
            start = place
    return longest


def _changed(one: np.ndarray, other: np.ndarray) -> bool:
    apart = np.abs(one.astype(np.int16) - other.astype(np.int16)).max(axis=-1)
    return bool((apart > CHANGED_BY).mean() > CHANGED_SHARE)


def _is_black(image: np.ndarray) -> bool:
    return bool(np.quantile(image, 0.99) < BLACK)


def _is_uniform(image: np.ndarray) -> bool:
    return not _is_black(image) and bool(image.std(axis=(0, 1)).max() < UNIFORM)


def _shrunk(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    if width <= WIDTH:
        return image.copy()
    size = WIDTH, max(1, round(height * WIDTH / width))
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX))
