"""Frames of a video file by their number, exactly, whatever the codec and its key frames."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np

from act_policy.errors import UserError

CUT_SHORT = "A copy or a recording that was cut short looks like this: copy the file again."


class BrokenFrameError(Exception):
    """A frame that cannot be decoded; the message says why, the caller knows where."""


class VideoHeader(NamedTuple):
    """What a video file says of itself; frames is None where it does not count them."""

    frames: int | None
    height: int
    width: int


def read_header(path: Path) -> VideoHeader:
    """Read the header alone; raises UserError where the file is missing or no video."""
    container = _open(path)
    with container:
        stream = container.streams.video[0]
        return VideoHeader(
            stream.frames or None, stream.codec_context.height, stream.codec_context.width
        )


class VideoFile:
    """One video, its frames numbered through in the order in which they are shown.

    The packets are counted once, without decoding, so that a number names a frame exactly.
    Reading seeks to the key frame at or before the wanted frame and decodes forward; frames that
    are asked for in order are each decoded once.

    A frame counts as broken when its packet cannot be decoded, and with it all frames up to the
    next key frame that are decoded later: they may be predicted from it.

    Args:
        path: the file.

    Raises:
        UserError: the file is missing, no video, or does not tell its frames apart.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._container = _open(path)
        self._stream = self._container.streams.video[0]
        packets: list[tuple[int, int, bool]] = []
        found = 0
        self.whole = True
        """False where the file ends before all the frames that its header counts."""
        try:
            for packet in self._container.demux(self._stream):
                if packet.pts is None or packet.is_corrupt:  # the file ends, or in the middle of it
                    break
                found += 1
                if packet.is_discard:  # outside of what the container wants shown
                    continue
                dts = packet.pts if packet.dts is None else packet.dts
                packets.append((packet.pts, dts, packet.is_keyframe))
        except av.error.FFmpegError:
            self.whole = False
        self.whole = self.whole and found >= self._stream.frames
        if not self.whole and packets:
            # What is lost may be shown before frames that are here: keep those that surely follow
            # on each other. A frame is never shown before the time at which it is decoded.
            cut = packets[-1][1]
            packets = [packet for packet in packets if packet[0] <= cut]
        shown = [pts for pts, _, _ in packets]
        if len(set(shown)) < len(shown):
            raise UserError(f"{path}: two frames have the same time; encode the video anew")
        self._decoding_order = np.argsort(np.array(shown, np.int64), kind="stable")
        """int64 (frames,), the place of each frame in the order of decoding."""
        self._pts = np.array(shown, np.int64)[self._decoding_order]
        self._number_of = {int(pts): number for number, pts in enumerate(self._pts)}
        self._dts = [dts for _, dts, _ in packets]
        self._keys = np.array(
            [n for n, place in enumerate(self._decoding_order) if packets[place][2]], np.int64
        )
        """int64, ascending numbers of the key frames."""
        self._broken = np.zeros(len(shown), bool)
        self._frames: Iterator[tuple[int, Any]] = iter(())
        self._at = -2  # number of the frame decoded last; -1 would be before the first
        self.times = self._pts * float(self._stream.time_base or 0)
        """float64 (frames,), seconds at which each frame is shown, ascending."""

    def __len__(self) -> int:
        return len(self._pts)

    def frame(self, number: int) -> np.ndarray:
        """uint8 (h, w, 3) RGB of one frame; raises BrokenFrameError."""
        if number >= len(self):
            raise BrokenFrameError(f"the video ends after {len(self)} frames")
        group = int(np.searchsorted(self._keys, number, side="right")) - 1
        if group < 0:
            raise BrokenFrameError("no key frame comes before it")
        if not self._broken[number] and not self._keys[group] - 1 <= self._at < number:
            self._frames = self._decode(int(self._keys[group]))
        while not self._broken[number]:
            try:
                self._at, frame = next(self._frames, (-2, None))
            except av.error.FFmpegError as error:
                self._at = -2
                raise BrokenFrameError(f"the file cannot be read: {error}") from None
            if frame is None or self._at > number:
                self._mark_broken(int(self._decoding_order[number]))
            elif self._at == number and not self._broken[number]:
                pixels: np.ndarray = frame.to_ndarray(format="rgb24")
                return pixels
        raise BrokenFrameError("the decoder reports an error in it or in a frame it builds on")

    def close(self) -> None:
        """Close the file."""
        self._frames = iter(())
        self._container.close()

    def _decode(self, key: int) -> Iterator[tuple[int, Any]]:
        """Decode from a key frame on, as (number, frame) in the order of showing."""
        wanted = int(self._decoding_order[key])
        self._container.seek(self._dts[wanted], stream=self._stream)
        packets = self._container.demux(self._stream)
        first = next(packets)
        if first.pts is None or self._place_of(first.pts) > wanted:
            # The container's own index led too far: start from the beginning, only slower.
            self._container.close()
            self._container = _open(self.path)
            self._stream = self._container.streams.video[0]
            packets = self._container.demux(self._stream)
            first = next(packets)
        expected = key
        for packet in chain([first], packets):
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                if packet.pts in self._number_of:
                    self._mark_broken(self._place_of(packet.pts))
                continue
            for frame in frames:
                number = self._number_of.get(frame.pts, -1)
                if number < expected:
                    continue  # shown before the key frame, though decoded after it
                for missing in range(expected, number):
                    self._mark_broken(int(self._decoding_order[missing]))
                if frame.is_corrupt:
                    self._mark_broken(int(self._decoding_order[number]))
                expected = number + 1
                yield number, frame

    def _place_of(self, pts: int) -> int:
        """Place in the order of decoding; past the end where the packet is not known."""
        number = self._number_of.get(pts)
        return len(self) if number is None else int(self._decoding_order[number])

    def _mark_broken(self, place: int) -> None:
        places = self._decoding_order
        later_keys = self._keys[places[self._keys] > place]
        end = later_keys[0] if len(later_keys) else len(self)
        self._broken[:end] |= places[:end] >= place


def _open(path: Path) -> Any:
    if not path.is_file():
        raise UserError(f"{path}: no such video file")
    try:
        container = av.open(str(path))
    except av.error.FFmpegError as error:
        raise UserError(
            f"{path}: is not a readable video ({error.strerror}). {CUT_SHORT}"
        ) from None
    if not container.streams.video:
        container.close()
        raise UserError(f"{path}: holds no video. {CUT_SHORT}")
    # Without it a decoder may fill in what it cannot decode and call the frame good.
    container.streams.video[0].codec_context.options = {"err_detect": "explode"}
    return container
