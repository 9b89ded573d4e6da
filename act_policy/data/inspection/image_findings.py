"""Findings from a few images of each episode: black, empty, frozen, undecodable, there twice."""

from collections.abc import Iterator, Sequence

import numpy as np

from act_policy.data.inspection.camera_looks import CameraLook
from act_policy.data.inspection.evidence import Evidence
from act_policy.data.inspection.finding import Details, Finding, Kind, Verdict

MOVED = 0.25
"""The robot moved if a dimension moved by more than this share of its deviation: less may be out of
the camera's sight."""


def find_in_images(evidence: Evidence, looks: Sequence[CameraLook]) -> list[Finding]:
    """Everything unusual about the images that were looked at."""
    findings = [*_refused(looks), *_undecodable(evidence, looks)]
    for camera in evidence.dataset.schema.camera_names:
        of_camera = [seen for seen in looks if seen.camera == camera]
        findings += [*_empty(camera, of_camera), *_frozen(evidence, camera, of_camera)]
    return [*findings, *_same(looks)]


def _refused(looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report images that the metadata place wrongly."""
    for seen in looks:
        if seen.refused is not None:
            yield Finding(
                Verdict.ERROR,
                Kind.MISPLACED_IMAGES,
                seen.camera,
                {"error": seen.refused},
                {seen.episode: {}},
            )


def _undecodable(evidence: Evidence, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report cameras and episodes with frames that cannot be decoded."""
    skip = evidence.config.undecodable == "skip"
    for seen in looks:
        if seen.undecodable:
            yield Finding(
                Verdict.WARNING if skip else Verdict.ERROR,
                Kind.UNDECODABLE,
                seen.camera,
                {"error": next(iter(seen.undecodable.values())), "count": len(seen.undecodable)},
                {seen.episode: {"steps": list(seen.undecodable)}},
            )


def _empty(camera: str, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report episodes in which a camera shows nothing."""
    black: Details = {seen.episode: {} for seen in looks if seen.black}
    empty: Details = {seen.episode: {} for seen in looks if seen.empty}
    for kind, episodes in ((Kind.BLACK_CAMERA, black), (Kind.EMPTY_CAMERA, empty)):
        if episodes:
            yield Finding(Verdict.WARNING, kind, camera, episodes=episodes)


def _frozen(evidence: Evidence, camera: str, looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report stretches of an episode in which the robot moves and the image does not."""
    episodes: Details = {}
    deviation = np.concatenate(evidence.states).std(axis=0)
    for seen in looks:
        if seen.still is None or seen.black or seen.empty:
            continue
        first, last = seen.still
        moved = np.ptp(evidence.states[seen.episode][first : last + 1], axis=0)
        if (moved > MOVED * deviation)[deviation > 0].any():
            episodes[seen.episode] = {"first": first, "last": last}
    if episodes:
        yield Finding(Verdict.WARNING, Kind.FROZEN_CAMERA, camera, episodes=episodes)


def _same(looks: Sequence[CameraLook]) -> Iterator[Finding]:
    """Report pairs of cameras that show the same in an episode."""
    pairs: dict[tuple[str, str], Details] = {}
    for seen in looks:
        if seen.same_as is not None:
            pairs.setdefault((seen.same_as, seen.camera), {})[seen.episode] = {}
    for (camera, other), episodes in pairs.items():
        yield Finding(Verdict.WARNING, Kind.SAME_IMAGES, camera, {"other": other}, episodes)
