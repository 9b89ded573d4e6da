"""Findings from a few images of each episode: black, empty, frozen and undecodable ones."""

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image
from tqdm import tqdm

from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError
from act_policy.data.inspection.evidence import Evidence
from act_policy.data.inspection.inspection import CameraLook, Finding, Verdict, worst_first
from act_policy.errors import UserError

WIDTH = 128
"""Pixels to which wider images are shrunk before they are looked at and shown: it averages the
sensor's noise away."""
BLACK = 16
"""An image is black when 99 of 100 values are darker: 16 is black in video."""
UNIFORM = 2.0
"""An image is empty when its values deviate by less: a covered lens, a green screen of a driver."""
CHANGED_BY, CHANGED_SHARE = 8, 1e-3
"""A pixel changed when a channel did by more than so much (sensors and codecs do less); an image
changed when more than this share of its pixels did (a gripper far away covers more)."""
MOVED = 0.25
"""The robot moved if some dimension did by so many of its deviations: less may be out of sight."""


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
        count: images of each.
        keep_images: keep them for film strips.
        every_frame: decode all the others as well, to find those that cannot be decoded.
        progress: show a progress bar.
    """
    places = [(e, c.name) for e in episodes for c in dataset.schema.cameras]
    bar = tqdm(places, "images", disable=None if progress else True)
    looks = [
        _look(dataset, episode, camera, count, keep_images, every_frame) for episode, camera in bar
    ]
    dataset.close()
    return looks


def _look(
    dataset: DemonstrationDataset,
    episode: int,
    camera: str,
    count: int,
    keep_images: bool,
    every_frame: bool,
) -> CameraLook:
    length = int(dataset.lengths[episode])
    wanted = spread(length, count)
    seen: dict[int, np.ndarray] = {}
    undecodable: list[str] = []
    refused = None
    for step in range(length) if every_frame else wanted:
        try:
            frame = dataset.frame(episode, step, camera)
        except UndecodableFrameError as error:
            undecodable.append(str(error))
        except UserError as error:
            refused = str(error)
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
        images if keep_images else [],
        black=bool(images) and all(map(_is_black, images)),
        empty=bool(images) and all(map(_is_uniform, images)),
        still=(steps[run.start], steps[run.stop - 1]) if long else None,
        undecodable=undecodable,
        refused=refused,
    )


def spread(length: int, count: int) -> list[int]:
    """At most `count` of the numbers below `length`, the first and the last among them."""
    return sorted(set(np.linspace(0, length - 1, min(count, length)).round().astype(int).tolist()))


def find_in_images(evidence: Evidence, looks: Sequence[CameraLook]) -> list[Finding]:
    """Everything unusual about what was looked at, the worst first."""
    findings = [*_refused(looks), *_undecodable(evidence, looks)]
    for camera in evidence.dataset.schema.camera_names:
        of_camera = [seen for seen in looks if seen.camera == camera]
        findings += [*_empty(evidence, camera, of_camera), *_frozen(evidence, camera, of_camera)]
    return worst_first(findings)


def _refused(looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report images that the metadata place wrongly."""
    for seen in looks:
        if seen.refused is not None:
            yield Finding(
                Verdict.ERROR,
                "images that do not fit the metadata",
                seen.refused,
                "Copy or record the episode again, or leave it out.",
                (seen.episode,),
            )


def _undecodable(evidence: Evidence, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report each frame that cannot be decoded; the reader names file, episode, camera, step."""
    skip = evidence.config.undecodable == "skip"
    for seen in looks:
        count = len(seen.undecodable)
        if count:
            more = f" And {count - 1} more of this camera in this episode." if count > 1 else ""
            yield Finding(
                Verdict.WARNING if skip else Verdict.ERROR,
                "frames that cannot be decoded",
                seen.undecodable[0] + more,
                "Training leaves them out (undecodable: skip)."
                if skip
                else "Repair the file, or let training leave them out with undecodable=skip "
                "(data.undecodable= in training).",
                (seen.episode,),
            )


def _empty(evidence: Evidence, camera: str, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report episodes in which a camera shows nothing."""
    for subject, what, episodes in (
        ("black camera", "black", [seen.episode for seen in looks if seen.black]),
        ("empty camera", "of one colour", [seen.episode for seen in looks if seen.empty]),
    ):
        if episodes:
            yield Finding(
                Verdict.WARNING,
                subject,
                f"every image of camera {camera} that was looked at is {what} in "
                f"{evidence.listed(dict.fromkeys(episodes, ''))}",
                "Leave the camera or the episodes out: a policy would learn to do without it.",
                tuple(episodes),
            )


def _frozen(evidence: Evidence, camera: str, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report stretches of an episode in which the robot moves and the image does not."""
    remarks = {}
    deviation = np.concatenate(evidence.states).std(axis=0)
    for seen in looks:
        if seen.still is None or seen.black or seen.empty:
            continue
        first, last = seen.still
        moved = np.ptp(evidence.states[seen.episode][first : last + 1], axis=0)
        if (moved > MOVED * deviation)[deviation > 0].any():
            remarks[seen.episode] = f"steps {first} to {last}"
    if remarks:
        yield Finding(
            Verdict.WARNING,
            "frozen camera",
            f"camera {camera} shows the same although the robot moves in "
            f"{evidence.listed(remarks)}",
            "The camera hung, or does not see the robot: leave it or the episodes out.",
            tuple(remarks),
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
