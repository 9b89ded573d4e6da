"""Write video files frame by frame, or join parts of others without decoding."""

import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from act_policy.data.video.index import read_header
from act_policy.errors import UserError, check_choice
from act_policy.system.atomic import atomic_file
from act_policy.system.scheduling import keep_scheduling

ENCODERS = {"av1": "libsvtav1", "h264": "libx264", "hevc": "libx265"}
_OPTIONS = {
    "libsvtav1": {"preset": "12"},
    # Without B-frames the order of decoding is that of showing.
    "libx264": {"preset": "veryfast", "bf": "0", "threads": "1"},  # files are made in parallel
    "libx265": {"preset": "veryfast", "x265-params": "bframes=0:log-level=error"},
}


class FrameRange(NamedTuple):
    """Consecutive frames of a video file: the number of the first, and how many there are."""

    path: Path
    first: int
    frames: int


def check_encoder(codec: str, height: int, width: int) -> str:
    """The encoder's name; raises UserError where this machine or this image size has none."""
    check_choice("codec", codec, tuple(ENCODERS))
    try:
        av.codec.Codec(ENCODERS[codec], "w")
    except av.codec.codec.UnknownCodecError:
        raise UserError(
            f"codec={codec}: this machine's PyAV has no {ENCODERS[codec]}; choose another codec "
            f"of {', '.join(ENCODERS)}, or images=png"
        ) from None
    if height % 2 or width % 2:
        raise UserError(
            f"images of {height}x{width}: a video needs an even height and width; use images=png"
        )
    return ENCODERS[codec]


def encode_video(
    path: Path,
    frames: Iterable[np.ndarray],
    rate: float,
    codec: str = "av1",
    crf: int = 30,
    group: int = 2,
) -> int:
    """Write frames as one video, whole or not at all.

    Args:
        path: the file.
        frames: uint8 (h, w, 3) RGB, one after the other.
        rate: frames per second.
        codec: av1, h264 or hevc.
        crf: the encoder's constant quality; a smaller number gives better images and larger files.
        group: frames per key frame; a frame far from a key frame takes longer to reach.

    Returns:
        The number of frames written.
    """
    os.environ.setdefault("SVT_LOG", "1")  # errors only: the library prints a page otherwise
    count, stream = 0, None
    with atomic_file(path) as file, _open_mp4(file.name) as container:
        for frame in frames:
            if stream is None:
                height, width = frame.shape[:2]
                encoder = check_encoder(codec, height, width)
                options = {"crf": str(crf), "g": str(group), **_OPTIONS[encoder]}
                stream = container.add_stream(encoder, rate=_exact(rate), options=options)
                stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
                with keep_scheduling():
                    stream.codec_context.open()
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            count += 1
        if stream is None:
            raise UserError(f"{path}: there is no frame to write")
        container.mux(stream.encode())
    return count


class _Order(NamedTuple):
    """Of the packets of some frames, in the order of decoding.

    begin: how many packets of the file come before them.
    numbers: which frame of the range each shows.
    """

    begin: int
    numbers: list[int]


def can_be_copied(frames: FrameRange) -> bool:
    """Whether the frames can be cut out without decoding: no other frame is needed for them.

    They must begin with a key frame and lie together in the order of decoding too.
    """
    return _order(frames) is not None


def _order(frames: FrameRange) -> _Order | None:
    shown: list[int] = []
    keys: list[bool] = []
    with av.open(str(frames.path)) as container:
        for packet in container.demux(video=0):
            if packet.pts is None:
                continue
            if packet.is_discard or packet.is_corrupt:
                return None
            shown.append(packet.pts)
            keys.append(packet.is_keyframe)
    wanted = sorted(shown)[frames.first : frames.first + frames.frames]
    if len(wanted) < frames.frames or len(set(shown)) < len(shown):
        return None
    number_of = {pts: number for number, pts in enumerate(wanted)}
    places = [place for place, pts in enumerate(shown) if pts in number_of]
    numbers = [number_of[shown[place]] for place in places]
    together = places[-1] - places[0] + 1 == len(places)
    return _Order(places[0], numbers) if together and keys[places[0]] and not numbers[0] else None


def join_videos(path: Path, parts: Sequence[FrameRange], rate: float) -> None:
    """Copy the packets of some frame ranges into one file, whole or not at all, without decoding.

    Frame n of the file is shown at exactly n / rate, regardless of the times in the sources.

    Raises:
        UserError: a part cannot be copied, or the parts are not encoded alike.
    """
    first_stream = read_header(parts[0].path).stream
    orders: list[_Order] = []
    for part in parts:
        order = _order(part)
        if order is None or read_header(part.path).stream != first_stream:
            raise UserError(f"{part.path}: its frames cannot be copied beside {parts[0].path}")
        orders.append(order)
    # A packet must be decoded no later than it is shown: decode all of them this many frames early.
    early = max(place - n for order in orders for place, n in enumerate(order.numbers))
    ticks = 1 / (_exact(rate) * first_stream.time_base)
    before = 0
    with atomic_file(path) as file, _open_mp4(file.name) as output:
        stream: Any = None
        for part, order in zip(parts, orders, strict=True):
            with av.open(str(part.path)) as source:
                if stream is None:
                    stream = output.add_stream_from_template(source.streams.video[0], opaque=True)
                    stream.time_base = first_stream.time_base
                place = -order.begin
                for packet in source.demux(video=0):
                    if packet.pts is None:
                        continue
                    if 0 <= place < len(order.numbers):
                        packet.pts = round((before + order.numbers[place]) * ticks)
                        packet.dts = round((before + place - early) * ticks)
                        packet.duration = round(ticks)
                        packet.stream = stream
                        output.mux(packet)
                    place += 1
            before += part.frames


def size_in_bytes(frames: FrameRange) -> int:
    """Approximate bytes that the frames take in their file."""
    total = read_header(frames.path).frames or frames.frames
    return frames.path.stat().st_size * frames.frames // max(total, 1)


def _open_mp4(path: str) -> Any:
    # With the index in front, a file that was copied only in part can be recognised as cut short.
    return av.open(path, "w", format="mp4", options={"movflags": "faststart"})


def _exact(rate: float) -> Fraction:
    return Fraction(rate).limit_denominator(1001)
