"""Decode frames of a video file by their exact number, for every codec and key frame interval."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from act_policy.data.video.index import open_video, read_index

_ONE_THREAD: dict[str, Any] = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}
"""Since version 17 PyAV converts with a thread per core; we decode files in parallel."""


class BrokenFrameError(Exception):
    """A frame cannot be decoded; the message says why, and the caller knows where."""


class VideoFile:
    """One video, its frames numbered through in the order in which they are shown.

    The packets are counted once, without decoding, so that a number identifies a frame exactly.
    Reading seeks to the key frame at or before the wanted frame and decodes forward; frames that
    are read in order are each decoded once.

    A frame counts as broken when its packet cannot be decoded, and with it all frames up to the
    next key frame that are decoded later: they may be predicted from it.

    Raises:
        UserError: the file is missing, is not a video, or has two frames with the same time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = read_index(path)
        self._container = open_video(path)
        self._stream = self._container.streams.video[0]
        self._to_rgb = VideoReformatter()  # each frame's own would be prepared for it alone
        self._broken = np.zeros(len(self), bool)
        self._frames: Iterator[tuple[int, Any]] = iter(())
        self._at = -2  # number of the frame decoded last; -1 would be before the first

    def __len__(self) -> int:
        return len(self.index.pts)

    def frame(self, number: int) -> np.ndarray:
        """uint8 (h, w, 3) RGB of one frame; raises BrokenFrameError."""
        if number >= len(self):
            raise BrokenFrameError(f"the video ends after {len(self)} frames")
        group = int(np.searchsorted(self.index.keys, number, side="right")) - 1
        if group < 0:
            raise BrokenFrameError("no key frame comes before it")
        if not self._broken[number] and not self.index.keys[group] - 1 <= self._at < number:
            self._frames = self._decode(int(self.index.keys[group]))
        while not self._broken[number]:
            try:
                self._at, frame = next(self._frames, (-2, None))
            except av.error.FFmpegError as error:
                self._at = -2
                raise BrokenFrameError(f"the file cannot be read: {error}") from None
            if frame is None or self._at > number:
                self._mark_broken(number)
            elif self._at == number and not self._broken[number]:
                rgb = self._to_rgb.reformat(frame, format="rgb24", **_ONE_THREAD)
                pixels: np.ndarray = rgb.to_ndarray()
                return pixels
        raise BrokenFrameError("the decoder reports an error in it or in a frame it builds on")

    def close(self) -> None:
        """Close the file."""
        self._frames = iter(())
        self._container.close()

    def _decode(self, key: int) -> Iterator[tuple[int, Any]]:
        """Decode from a key frame on, as (number, frame) in the order of showing."""
        wanted = int(self.index.places[key])
        self._container.seek(int(self.index.dts[wanted]), stream=self._stream)
        packets = self._container.demux(self._stream)
        first = next(packets)
        number = self.index.number_of(first.pts)
        if number < 0 or self.index.places[number] > wanted:
            # The container's own index led too far: start from the beginning, only slower.
            self._container.close()
            self._container = open_video(self.path)
            self._stream = self._container.streams.video[0]
            packets = self._container.demux(self._stream)
            first = next(packets)
        expected = key
        for packet in chain([first], packets):
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                if (number := self.index.number_of(packet.pts)) >= 0:
                    self._mark_broken(number)
                continue
            for frame in frames:
                number = self.index.number_of(frame.pts)
                if number < expected:
                    continue  # shown before the key frame, though decoded after it
                for missing in range(expected, number):
                    self._mark_broken(missing)
                if frame.is_corrupt:
                    self._mark_broken(number)
                expected = number + 1
                yield number, frame

    def _mark_broken(self, number: int) -> None:
        places = self.index.places
        place = places[number]
        later_keys = self.index.keys[places[self.index.keys] > place]
        end = later_keys[0] if len(later_keys) else len(self)
        self._broken[:end] |= places[:end] >= place
