"""Episodes staged for a LeRobotDataset: each in files of its own, whole or absent.

.unfinished/episode_000012.json        its description; written last
.unfinished/episode_000012.parquet     its rows, without the numbers counted through all episodes
.unfinished/episode_000012.KEY.mp4     a camera's frames, where they had to be encoded
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from act_policy.data.dataset import DemonstrationDataset
from act_policy.data.lerobot.features import IMAGE_TYPE
from act_policy.data.lerobot.source import Parts
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
    ended: str = ""


def staged_path(folder: Path, episode: int, end: str) -> Path:
    """Return the path of a part of a staged episode."""
    return folder / f"episode_{episode:06d}.{end}"


def stage_episode(
    parts: Parts,
    episode: StagedEpisode,
    folder: Path,
    config: LeRobotWriterConfig,
    alive: Callable[[], None],
) -> None:
    """Write one episode's parts into the folder of all staged ones, its description last.

    Its tasks, videos and histograms are found here; `alive` is called at each frame.
    """
    number, schema = episode.episode, parts.dataset.schema
    rows = parts.rows(number)
    videos: dict[str, FrameRange] = {}
    histograms: dict[str, tuple[np.ndarray, int]] = {}
    for camera in schema.camera_names:
        key, encoded = parts.camera_key(camera), parts.encoded_images(number, camera)
        histogram = np.zeros((3, 256), np.int64)
        frames = _frames(parts.dataset, number, camera, histogram, alive)
        if config.images == "png":
            if isinstance(encoded, pa.Array):
                _run_through(frames)
            else:
                encoded = pa.array(list(map(_png, frames)), IMAGE_TYPE)
            rows = rows.append_column(key, encoded)
        elif isinstance(encoded, FrameRange) and can_be_copied(encoded):
            videos[key] = encoded
            _run_through(frames)
        else:
            path = staged_path(folder, number, f"{key}.mp4")
            count = encode_video(path, frames, schema.rate, config.codec, config.crf, config.group)
            videos[key] = FrameRange(path, 0, count)
        histograms[key] = histogram, len(sampled_steps(episode.length))
    with atomic_file(staged_path(folder, number, "parquet")) as file:
        pq.write_table(rows, file)
    tasks = parts.tasks_of(number)
    write_staged(folder, episode._replace(tasks=tasks, videos=videos, histograms=histograms))


def _frames(
    dataset: DemonstrationDataset,
    episode: int,
    camera: str,
    histogram: np.ndarray,
    alive: Callable[[], None],
) -> Iterator[np.ndarray]:
    """Yield each frame of a camera, and add those that LeRobot counts to the histogram."""
    length = dataset.episodes[episode].length
    sampled = sampled_steps(length)
    for step in range(length):
        alive()
        image = dataset.frame(episode, step, camera)
        if step in sampled:
            histogram += image_histogram(image)
        yield image


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
