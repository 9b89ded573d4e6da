"""Episodes staged for a LeRobotDataset: each in files of its own, whole or absent.

.unfinished/episode_000012.json        its description; written last
.unfinished/episode_000012.parquet     its rows, without the numbers counted through all episodes
.unfinished/episode_000012.KEY.mp4     a camera's frames, where they had to be encoded
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from act_policy.data.lerobot.stats import image_histogram, sampled_steps
from act_policy.data.video.writer import FrameRange, can_be_copied, encode_video
from act_policy.errors import UserError, check_choice, check_whole_number
from act_policy.system.atomic import atomic_file


@dataclass(frozen=True)
class LeRobotWriterConfig:
    """Settings for writing a LeRobotDataset.

    images: "video", or "png" columns, which are exact and larger.
    codec, crf, group: of the videos, see `encode_video`.
    data_file_mb, video_file_mb: largest size of a file, after which a new one begins.
    files_per_chunk: number of files per folder.
    """

    images: str = "video"
    codec: str = "av1"
    crf: int = 30
    group: int = 2
    data_file_mb: float = 100.0
    video_file_mb: float = 200.0
    files_per_chunk: int = 1000

    def __post_init__(self) -> None:
        check_choice("images", self.images, ("video", "png"))
        for name, smallest in (("crf", 0), ("group", 1), ("files_per_chunk", 1)):
            check_whole_number(name, getattr(self, name), smallest)
        for name in ("data_file_mb", "video_file_mb"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name}={getattr(self, name)}: expected a size above 0")


class CameraSource(NamedTuple):
    """The source of a camera's images of one episode.

    frame: returns uint8 (h, w, 3) of a step; called in order.
    in_video: their range in a video whose packets may be copied.
    column: struct(bytes, path), encoded images that may be copied.
    """

    frame: Callable[[int], np.ndarray]
    in_video: FrameRange | None = None
    column: pa.Array | None = None


class StagedEpisode(NamedTuple):
    """Description of a staged episode.

    left_out: why it is left out of the dataset; "" if it is part of it.
    videos: by feature key.
    histograms: of sampled images by feature key, with the number of images.
    """

    episode: int
    length: int
    tasks: list[str]
    videos: dict[str, FrameRange]
    histograms: dict[str, tuple[np.ndarray, int]]
    seed: int | None = None
    outcome: bool | None = None
    left_out: str = ""


def staged_path(folder: Path, episode: int, end: str) -> Path:
    """Return the path of a part of a staged episode."""
    return folder / f"episode_{episode:06d}.{end}"


def stage_episode(
    folder: Path,
    episode: StagedEpisode,
    rows: pa.Table,
    cameras: Mapping[str, CameraSource],
    rate: float,
    config: LeRobotWriterConfig,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Write one episode's parts, its description last.

    Args:
        folder: of all staged episodes.
        episode: its number, length, tasks, seed and outcome.
        rows: all columns except images.
        cameras: by feature key.
        rate: frames per second.
        config: settings of the videos and images.
        alive: called at each frame.
    """
    videos: dict[str, FrameRange] = {}
    histograms: dict[str, tuple[np.ndarray, int]] = {}
    for key, camera in cameras.items():
        steps, total = sampled_steps(episode.length), np.zeros((3, 256), np.int64)

        def frames(
            camera: CameraSource = camera, steps: set[int] = steps, total: np.ndarray = total
        ) -> Iterator[np.ndarray]:
            for step in range(episode.length):
                alive()
                image = camera.frame(step)
                if step in steps:
                    total += image_histogram(image)
                yield image

        if config.images == "png":
            column = camera.column
            if column is None:
                pngs = [_png(image) for image in frames()]
                column = pa.array(pngs, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
            else:
                _run_through(frames())
            rows = rows.append_column(key, column)
        elif camera.in_video is not None and can_be_copied(camera.in_video):
            videos[key] = camera.in_video
            _run_through(frames())
        else:
            path = staged_path(folder, episode.episode, f"{key}.mp4")
            count = encode_video(path, frames(), rate, config.codec, config.crf, config.group)
            videos[key] = FrameRange(path, 0, count)
        histograms[key] = total, len(steps)
    with atomic_file(staged_path(folder, episode.episode, "parquet")) as file:
        pq.write_table(rows, file)
    write_staged(folder, episode._replace(videos=videos, histograms=histograms))


def write_staged(folder: Path, episode: StagedEpisode) -> None:
    """Record that an episode is staged, or left out."""
    plain: dict[str, Any] = episode._asdict()
    plain["videos"] = {k: (str(v.path), v.first, v.frames) for k, v in episode.videos.items()}
    plain["histograms"] = {k: (h.tolist(), n) for k, (h, n) in episode.histograms.items()}
    with atomic_file(staged_path(folder, episode.episode, "json")) as file:
        file.write(json.dumps(plain).encode())


def read_staged(folder: Path, episode: int) -> StagedEpisode | None:
    """Read the description of an episode; None if it is not staged."""
    try:
        plain = json.loads(staged_path(folder, episode, "json").read_text())
    except FileNotFoundError:
        return None
    plain["videos"] = {k: FrameRange(Path(p), f, n) for k, (p, f, n) in plain["videos"].items()}
    plain["histograms"] = {
        k: (np.array(h, np.int64), int(n)) for k, (h, n) in plain["histograms"].items()
    }
    return StagedEpisode(**plain)


def _png(image: np.ndarray) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def _run_through(frames: Iterator[np.ndarray]) -> None:
    """Decode every frame once, for its statistics and to find broken ones."""
    for _ in frames:
        pass
