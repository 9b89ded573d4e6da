"""Index a video file: its frames, their order, and where decoding can begin."""

from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from act_policy.data.episode_errors import UnfinishedError
from act_policy.errors import UserError

CUT_SHORT = "A copy or a recording that was cut short looks like this: copy the file again."


class Stream(NamedTuple):
    """Everything that two videos must share to be parts of one file."""

    codec: str
    header: bytes
    height: int
    width: int
    pixels: str
    time_base: Fraction


class VideoHeader(NamedTuple):
    """A file's number of frames by its header, None where it is not stated, and its encoding."""

    frames: int | None
    stream: Stream


class VideoIndex(NamedTuple):
    """The frames of one file, numbered through in the order in which they are shown.

    pts: int64 (frames,), ascending times of showing, in the stream's unit.
    places: int64 (frames,), the place of each frame in the order of decoding.
    dts: int64 (frames,), times of decoding, in that order.
    keys: int64, ascending numbers of the key frames.
    whole: False where the file ends before all the frames that its header counts.
    seconds: float64 (frames,), times of showing.
    """

    pts: np.ndarray
    places: np.ndarray
    dts: np.ndarray
    keys: np.ndarray
    whole: bool
    seconds: np.ndarray

    def number_of(self, pts: int | None) -> int:
        """The frame shown at a time; -1 if there is none."""
        if pts is None:
            return -1
        number = int(np.searchsorted(self.pts, pts))
        return number if number < len(self.pts) and self.pts[number] == pts else -1


def read_index(path: Path) -> VideoIndex:
    """Count a file's packets without decoding; a file that has not changed is read once.

    Raises:
        UserError: the file is missing, is not a video, or has two frames with the same time.
    """
    if not path.is_file():
        raise UnfinishedError(f"{path}: no such video file", path, missing=True)
    status = path.stat()
    return _read_index(path, status.st_size, status.st_mtime_ns)


def read_header(path: Path) -> VideoHeader:
    """Read the header alone; raises UnfinishedError where the file is missing or not a video."""
    with open_video(path) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        encoding = Stream(
            context.name,
            bytes(context.extradata or b""),
            context.height,
            context.width,
            str(context.pix_fmt),
            Fraction(stream.time_base or 1),
        )
        return VideoHeader(stream.frames or None, encoding)


def open_video(path: Path) -> Any:
    """Open a file for demuxing; raises UnfinishedError where it is missing or not a video."""
    if not path.is_file():
        raise UnfinishedError(f"{path}: no such video file", path, missing=True)
    try:
        container = av.open(str(path))
    except av.error.FFmpegError as error:
        raise UnfinishedError(
            f"{path}: is not a readable video ({error.strerror}). {CUT_SHORT}", path
        ) from None
    if not container.streams.video:
        container.close()
        raise UnfinishedError(f"{path}: holds no video. {CUT_SHORT}", path)
    decoder = container.streams.video[0].codec_context
    # Without it a decoder may fill in what it cannot decode and call the frame good.
    decoder.options = {"err_detect": "explode"}
    # With more threads the decoder reads packets of later frames first, wasted after a jump (AV1,
    # groups of 2, random order: 4.6 ms per frame instead of 2.0). We decode files in parallel.
    decoder.thread_count = 1
    return container


@lru_cache(maxsize=4096)
def _read_index(path: Path, size: int, time: int) -> VideoIndex:
    packets: list[tuple[int, int, bool]] = []
    found, whole = 0, True
    with open_video(path) as container:
        stream = container.streams.video[0]
        try:
            for packet in container.demux(stream):
                if packet.pts is None or packet.is_corrupt:  # the file ends, or in the middle of it
                    break
                found += 1
                if packet.is_discard:  # the container does not show it
                    continue
                dts = packet.pts if packet.dts is None else packet.dts
                packets.append((packet.pts, dts, packet.is_keyframe))
        except av.error.FFmpegError:
            whole = False
        whole = whole and found >= stream.frames
        unit = float(stream.time_base or 0)
    if not whole and packets:
        # A lost frame may be shown before frames that are here: keep only frames that surely have
        # no gap. A frame is never shown before the time at which it is decoded.
        cut = packets[-1][1]
        packets = [packet for packet in packets if packet[0] <= cut]
    shown = np.array([pts for pts, _, _ in packets], np.int64)
    if len(np.unique(shown)) < len(shown):
        raise UserError(f"{path}: two frames have the same time; encode the video again")
    places = np.argsort(shown, kind="stable")
    is_key = np.array([key for _, _, key in packets], bool)
    return VideoIndex(
        pts=shown[places],
        places=places,
        dts=np.array([dts for _, dts, _ in packets], np.int64),
        keys=np.flatnonzero(is_key[places]),
        whole=whole,
        seconds=shown[places] * unit,
    )
