"""Small demonstrations as people have them, in every format: odd images, names and layouts."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

LEROBOT = ("v2.0", "v2.1", "v3.0")
FORMATS = (*LEROBOT, "aloha")
LENGTHS = (5, 7, 6)
HEIGHT, WIDTH, RATE = 24, 32, 10

Draw = Callable[[int, int], np.ndarray]
"""(episode, step) -> one image."""


def rgb(episode: int, step: int) -> np.ndarray:
    """Draw uint8 (h, w, 3): brown, with a red square that moves."""
    image = np.full((HEIGHT, WIDTH, 3), (120, 80, 40), np.uint8)
    left = (3 * step + 5 * episode) % (WIDTH - 8)
    image[8:16, left : left + 8] = (230, 40, 30)
    return image


def rgba(episode: int, step: int) -> np.ndarray:
    alpha = np.full((HEIGHT, WIDTH, 1), 128, np.uint8)
    return np.concatenate([rgb(episode, step), alpha], -1)


def gray(episode: int, step: int) -> np.ndarray:
    return rgb(episode, step)[..., 0]


def deep(episode: int, step: int) -> np.ndarray:
    return rgb(episode, step)[..., 0].astype(np.uint16) * 200


def numbers(episode: int, steps: int, size: int = 3) -> np.ndarray:
    """Return float32 (T, size), smooth."""
    time = np.arange(steps)[:, None] / RATE
    return np.sin(time + np.arange(size) + episode).astype(np.float32)


def jpeg(image: np.ndarray, kind: str = "JPEG") -> bytes:
    """Encode as OpenCV does with RGB that it takes for BGR."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image[..., ::-1])).save(buffer, kind, quality=95)
    return buffer.getvalue()


def write_lerobot(
    folder: Path,
    version: str,
    cameras: Mapping[str, Draw],
    vectors: Sequence[str] = ("observation.state", "action"),
    info: Mapping[str, Mapping[str, Any]] | None = None,
    lengths: Sequence[int] = LENGTHS,
) -> Path:
    """Write images in columns; `info` adds to the description of a feature."""
    features: dict[str, dict[str, Any]] = {
        key: {"dtype": "float32", "shape": [3], "names": [f"j{i}" for i in range(3)]}
        for key in vectors
    }
    for key, draw in cameras.items():
        shape = list(draw(0, 0).shape)
        features[key] = {
            "dtype": "image",
            "shape": [*shape, 1] if len(shape) == 2 else shape,
            "names": ["height", "width", "channels"],
        }
    for key in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        kind = "float32" if key == "timestamp" else "int64"
        features[key] = {"dtype": kind, "shape": [1], "names": None}
    for key, more in (info or {}).items():
        features[key] |= more
    ends = np.cumsum(lengths)
    tables = []
    for episode, (steps, end) in enumerate(zip(lengths, ends, strict=True)):
        columns: dict[str, Any] = {
            key: pa.array(list(numbers(episode, steps) + 0.1 * place), pa.list_(pa.float32()))
            for place, key in enumerate(vectors)
        }
        for key, draw in cameras.items():
            columns[key] = pa.array(
                [{"bytes": png(draw(episode, step)), "path": None} for step in range(steps)],
                pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            )
        index = np.arange(steps)
        columns["timestamp"] = pa.array((index / RATE).astype(np.float32))
        columns["frame_index"] = index
        columns["episode_index"] = np.full(steps, episode)
        columns["index"] = end - steps + index
        columns["task_index"] = np.zeros(steps, np.int64)
        tables.append(pa.table(columns))
    described: dict[str, Any] = {
        "codebase_version": version,
        "robot_type": "test",
        "total_episodes": len(lengths),
        "total_frames": int(ends[-1]),
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": RATE,
        "video_path": None,
        "features": features,
    }
    meta, data = folder / "meta", folder / "data" / "chunk-000"
    meta.mkdir(parents=True)
    data.mkdir(parents=True)
    if version == "v3.0":
        described["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        pq.write_table(pa.concat_tables(tables), data / "file-000.parquet")
        zeros = [0] * len(lengths)
        episodes = {
            "episode_index": list(range(len(lengths))),
            "length": list(lengths),
            "tasks": [["push"]] * len(lengths),
            "data/chunk_index": zeros,
            "data/file_index": zeros,
            "dataset_from_index": ends - np.array(lengths),
            "dataset_to_index": ends,
        }
        (meta / "episodes" / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.table(episodes), meta / "episodes" / "chunk-000" / "file-000.parquet")
    else:
        described["data_path"] = (
            "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
        )
        for episode, table in enumerate(tables):
            pq.write_table(table, data / f"episode_{episode:06d}.parquet")
        lines = [
            json.dumps({"episode_index": e, "tasks": ["push"], "length": n})
            for e, n in enumerate(lengths)
        ]
        (meta / "episodes.jsonl").write_text("\n".join(lines) + "\n")
        (meta / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "push"}) + "\n")
    (meta / "info.json").write_text(json.dumps(described))
    return folder


def write_aloha(
    folder: Path,
    images: Mapping[str, Callable[[int, int], np.ndarray | bytes]],
    vectors: Sequence[str] = ("observations/qpos", "action"),
    lengths: Sequence[int] = LENGTHS,
    kind: Any = None,
) -> Path:
    """Write HDF5 files with images at `observations/images/<name>`, or at a path of its own.

    kind: the type of encoded images; None stores arrays as they are.
    """
    folder.mkdir(parents=True)
    for episode, steps in enumerate(lengths):
        with h5py.File(folder / f"episode_{episode}.hdf5", "w") as file:
            for place, key in enumerate(vectors):
                file[key] = numbers(episode, steps, 14) + np.float32(0.1 * place)
            for name, draw in images.items():
                path = name if "/" in name else f"observations/images/{name}"
                frames = [draw(episode, step) for step in range(steps)]
                if kind is None:
                    file[path] = np.stack(frames)
                    continue
                stored = file.create_dataset(path, (steps,), kind(frames))
                for step, frame in enumerate(frames):
                    rows = stored.dtype.kind == "O"
                    stored[step] = np.frombuffer(frame, np.uint8) if rows else frame
    return folder


def write(folder: Path, form: str, cameras: Mapping[str, Draw]) -> Path:
    """Write a dataset of any format, with the cameras under the format's own names."""
    if form == "aloha":
        return write_aloha(folder, cameras)
    return write_lerobot(folder, form, {f"observation.images.{n}": d for n, d in cameras.items()})


def png(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()
