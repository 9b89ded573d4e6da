"""Videos that a browser plays, of exactly the episodes that were rolled out."""

from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.data.video.writer import encode_video
from act_policy.evaluation.rollouts.run import EpisodeResult, run_episode
from act_policy.evaluation.rollouts.video import (
    GAP,
    replay_frames,
    write_episode_videos,
)
from act_policy.system.processes import WorkerError
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy, build


def decode(path: Path) -> tuple[av.VideoStream, list[np.ndarray]]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream, [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]


def roll_out(seed: int) -> EpisodeResult:
    return run_episode(build(SCHEMA), ChunkExecutor(SeeingPolicy()).select_action, seed)


def test_a_written_video_decodes_to_its_images(tmp_path: Path) -> None:
    red, blue = np.zeros((2, 64, 48, 3), np.uint8)
    red[..., 0], blue[..., 2] = 255, 255
    encode_video(tmp_path / "x.mp4", [red] * 5 + [blue] * 5, 80 / 3, "h264")
    stream, frames = decode(tmp_path / "x.mp4")
    assert stream.codec_context.name == "h264"
    assert stream.pix_fmt == "yuv420p"
    assert float(stream.average_rate) == pytest.approx(80 / 3)
    assert len(frames) == 10
    assert frames[0].shape == (64, 48, 3)
    assert np.abs(frames[0].astype(int) - red).mean() < 8
    assert np.abs(frames[-1].astype(int) - blue).mean() < 8
    data = (tmp_path / "x.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # plays before it is loaded whole
    assert [path.name for path in tmp_path.iterdir()] == ["x.mp4"]


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    def frames() -> object:
        yield np.zeros((64, 64, 3), np.uint8)
        raise RuntimeError("the renderer broke")

    (tmp_path / "x.mp4").write_bytes(b"the earlier one")
    with pytest.raises(RuntimeError, match="renderer broke"):
        encode_video(tmp_path / "x.mp4", frames(), 30.0, "h264")  # type: ignore[arg-type]
    assert (tmp_path / "x.mp4").read_bytes() == b"the earlier one"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_episode_is_filmed_from_start_to_last_image(tmp_path: Path) -> None:
    episodes = [roll_out(10), roll_out(13)]
    assert [episode.success for episode in episodes] == [True, False]
    (tmp_path / "seed_3_success.mp4").write_bytes(b"of an earlier evaluation")
    paths = write_episode_videos(build, SCHEMA, episodes, tmp_path, workers=2, height=64)
    assert [path.name for path in paths] == ["seed_10_success.mp4", "seed_13_failure.mp4"]
    strips = [path.with_suffix(".png") for path in paths]
    assert sorted(tmp_path.iterdir()) == sorted(paths + strips)
    for episode, path in zip(episodes, paths, strict=True):
        stream, frames = decode(path)
        assert len(frames) == (episode.steps + 1) // 2 + 1  # 60 steps a second, 30 images
        assert float(stream.average_rate) == 30
        assert frames[0].shape == (64, 96 + 64, 3)  # both cameras side by side
        assert frames[0][10, 10, 0] > 200
        with Image.open(path.with_suffix(".png")) as strip:
            assert strip.size == ((6 * frames[0].shape[1] + 5 * GAP) // 2, 32)
            left, right = np.asarray(strip)[:, :16], np.asarray(strip)[:, -16:]
        assert np.abs(left.astype(int) - frames[0][::2, :32:2]).mean() < 12
        assert np.abs(right.astype(int) - frames[-1][::2, -32::2]).mean() < 12


def test_a_replay_that_ends_otherwise_is_an_error(tmp_path: Path) -> None:
    episode = roll_out(10)
    with pytest.raises(RuntimeError, match="seed 10 cannot be reproduced: failure at step"):
        list(replay_frames(build(SCHEMA), episode._replace(success=False), ["front"], 2))
    longer = episode._replace(
        actions=np.concatenate([episode.actions, episode.actions]), steps=2 * episode.steps
    )
    with pytest.raises(RuntimeError, match="the replay is a success at step"):
        list(replay_frames(build(SCHEMA), longer, ["front"], 2))
    with pytest.raises(WorkerError, match="cannot be reproduced"):
        write_episode_videos(build, SCHEMA, [episode._replace(success=False)], tmp_path, 1)
    assert list(tmp_path.iterdir()) == []
