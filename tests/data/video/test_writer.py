"""Written and joined videos have every frame at its time; copied frames are equal."""

import os

import av
import numpy as np
import pytest

from act_policy.data.video.decoder import VideoFile
from act_policy.data.video.writer import (
    FrameRange,
    can_be_copied,
    check_encoder,
    encode_video,
    join_videos,
)
from act_policy.errors import UserError
from tests.data.lerobot_for_tests import decode_all, encode, number_of, numbered_frame


@pytest.mark.parametrize(
    ("codec", "options"),
    [("libx264", {"bf": "3"}), ("libx264", {"bf": "0"}), ("libx265", {}), ("libsvtav1", {})],
)
def test_joined_videos_have_every_original_frame(tmp_path, codec, options):
    parts, expected = [], []
    for place, length in enumerate((7, 12, 5)):
        path = tmp_path / f"{place}.mp4"
        encode(path, range(100 * place, 100 * place + length), codec, 4, options=options)
        parts.append(FrameRange(path, 0, length))
        expected += decode_all(path)
    join_videos(tmp_path / "all.mp4", parts, 10.0)
    video = VideoFile(tmp_path / "all.mp4")
    np.testing.assert_allclose(video.index.seconds, np.arange(24) / 10, atol=1e-9)
    for number, frame in enumerate(expected):
        np.testing.assert_array_equal(video.frame(number), frame)
    video.close()
    with av.open(str(tmp_path / "all.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.frames, stream.average_rate) == (24, 10)  # other readers rely on these


def test_an_episode_that_begins_with_a_key_frame_is_cut_out_of_a_longer_video(tmp_path):
    path = tmp_path / "long.mp4"
    encode(path, range(20), group=4, options={"bf": "0"})
    part = FrameRange(path, 8, 6)
    assert can_be_copied(part)
    assert not can_be_copied(FrameRange(path, 9, 6))
    assert not can_be_copied(FrameRange(path, 16, 6))
    join_videos(tmp_path / "part.mp4", [part], 10.0)
    assert [number_of(frame) for frame in decode_all(tmp_path / "part.mp4")] == list(range(8, 14))
    with pytest.raises(UserError, match=r"long.mp4: its frames cannot be copied"):
        join_videos(tmp_path / "no.mp4", [FrameRange(path, 9, 6)], 10.0)


def test_videos_encoded_differently_are_not_joined(tmp_path):
    parts = []
    for name, codec in (("a", "libx264"), ("b", "libx265")):
        encode(tmp_path / f"{name}.mp4", range(4), codec)
        parts.append(FrameRange(tmp_path / f"{name}.mp4", 0, 4))
    with pytest.raises(UserError, match=r"b.mp4: its frames cannot be copied beside .*a.mp4"):
        join_videos(tmp_path / "all.mp4", parts, 10.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]


@pytest.mark.parametrize("codec", ["av1", "h264", "hevc"])
def test_encoded_frames_are_read_by_number(tmp_path, codec):
    path = tmp_path / "a.mp4"
    assert encode_video(path, map(numbered_frame, range(30, 41)), 12.5, codec, group=5) == 11
    video = VideoFile(path)
    assert [number_of(video.frame(n)) for n in (10, 0, 5, 6)] == [40, 30, 35, 36]
    np.testing.assert_allclose(video.index.seconds, np.arange(11) / 12.5, atol=1e-9)
    video.close()


def test_a_video_that_fails_midway_leaves_nothing(tmp_path):
    def frames():
        yield numbered_frame(1)
        raise KeyError

    with pytest.raises(KeyError):
        encode_video(tmp_path / "a.mp4", frames(), 10.0, "h264")
    with pytest.raises(UserError, match="no frame"):
        encode_video(tmp_path / "a.mp4", iter(()), 10.0, "h264")
    assert list(tmp_path.iterdir()) == []


def test_impossible_encodings_are_refused_in_advance():
    with pytest.raises(UserError, match="codec=vp9: expected av1, h264 or hevc"):
        check_encoder("vp9", 48, 64)
    with pytest.raises(UserError, match="even height and width; use images=png"):
        check_encoder("h264", 47, 64)


def test_encoding_leaves_the_scheduling_of_every_thread_as_it_was(tmp_path):
    """SVT-AV1 makes a root's process a real-time one, which starves a robot's loop beside it."""
    policies = []

    def frames():
        for number in range(4):
            yield numbered_frame(number)
            policies.extend(os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task"))

    encode_video(tmp_path / "video.mp4", frames(), 10.0, "av1")
    assert not {os.SCHED_FIFO, os.SCHED_RR} & set(policies)
