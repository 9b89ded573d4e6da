"""Videos and film strips of episodes, made by carrying out their recorded actions once more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from act_policy.data.video.writer import encode_video
from act_policy.evaluation.rollouts.moments import Sizes, carry_out, film_sizes
from act_policy.evaluation.rollouts.run import Environment, EpisodeResult
from act_policy.report.pieces import spread
from act_policy.system.atomic import atomic_file
from act_policy.system.processes import Handler, run_jobs
from act_policy.types import Schema

FRAME_RATE = 30.0
"""About this many images a second: more would be rendered for nobody."""

GAP = 8
"""White pixels between two frames of a film strip."""


def write_film_strip(
    path: Path, frames: Sequence[UInt8[np.ndarray, "h w 3"]], count: int = 6
) -> None:
    """Write evenly spaced frames side by side as a PNG, the first and the last among them."""
    some = [frames[i] for i in spread(len(frames), count)]
    apart = [np.pad(frame, ((0, 0), (0, GAP), (0, 0)), constant_values=255) for frame in some]
    strip = Image.fromarray(np.concatenate(apart, axis=1)[:, :-GAP])
    with atomic_file(path) as file:
        strip.resize((strip.width // 2, strip.height // 2)).save(file, format="png")


def write_episode_videos(
    make_environment: Callable[[Schema, Sizes], Environment],
    schema: Schema,
    episodes: Sequence[EpisodeResult],
    folder: Path,
    workers: int,
    height: int = 320,
) -> list[Path]:
    """Write `seed_<seed>_<success|failure>.mp4` and a film strip of the same name as .png.

    Those of other seeds are removed from the folder.

    Args:
        make_environment: (schema, camera sizes) -> environment; picklable.
        schema: of the policy; all its cameras are shown side by side.
        episodes: as they were rolled out.
        folder: made if it does not exist.
        workers: number of processes.
        height: of the video in pixels, even; the cameras' aspect ratios are kept.

    Raises:
        WorkerError: a replay ended otherwise than the episode did, or a process failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sizes = film_sizes(schema, height)
    make_handler = partial(_recorder, make_environment, schema, sizes, folder)
    paths = run_jobs(make_handler, episodes, workers)
    for old in folder.glob("seed_*_*.*"):
        if old.with_suffix(".mp4") not in paths:
            old.unlink()
    return paths


def _recorder(
    make_environment: Callable[[Schema, Sizes], Environment],
    schema: Schema,
    sizes: Sizes,
    folder: Path,
) -> Handler[EpisodeResult, Path]:
    """Prepare a worker process that films episodes in one environment."""
    environment = make_environment(schema, sizes)
    stride = max(1, round(schema.rate / FRAME_RATE))

    def handle(episode: EpisodeResult, alive: Callable[[], None]) -> Path:
        path = folder / f"seed_{episode.seed}_{episode.outcome}.mp4"
        frames = list(replay_frames(environment, episode, list(sizes), stride, alive))
        encode_video(path, frames, schema.rate / stride, "h264", crf=20, group=250)
        write_film_strip(path.with_suffix(".png"), frames)
        return path

    return handle


def replay_frames(
    environment: Environment,
    episode: EpisodeResult,
    cameras: Sequence[str],
    stride: int,
    alive: Callable[[], None] = lambda: None,
) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """Carry out an episode's actions from its seed; yield every stride-th image and the last.

    Raises:
        RuntimeError: the replay succeeded at another step, or not at all.
    """
    for step, observation in enumerate(carry_out(environment, episode, alive)):
        if step % stride == 0 or step == episode.steps:
            yield side_by_side(observation.images, cameras)


def side_by_side(
    images: Mapping[str, np.ndarray], cameras: Sequence[str]
) -> UInt8[np.ndarray, "h w 3"]:
    """One image out of several cameras' of the same height."""
    return np.concatenate([images[name] for name in cameras], axis=1)
