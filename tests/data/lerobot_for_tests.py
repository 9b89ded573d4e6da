"""Small LeRobot datasets, written only with pyarrow and PyAV, whose frames show their numbers."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from act_policy.system.scheduling import keep_scheduling

RATE = 10
HEIGHT, WIDTH = 48, 64
TOP, WRIST = "observation.images.top", "observation.images.wrist"
FORMS = {
    "v2.1": {
        "data": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    },
    "v3.0": {
        "data": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    },
}

FORMS["v2.0"] = FORMS["v2.1"]


def numbered_frame(number: int) -> np.ndarray:
    """Draw a number in binary as 16 grey or red patches that survive coding, uint8 (48, 64, 3)."""
    bits = (number >> np.arange(16)) & 1
    patches = (40 + 170 * bits).astype(np.uint8).reshape(2, 8)
    frame = patches.repeat(24, 0).repeat(8, 1)[..., None].repeat(3, 2)
    frame[..., 2] = 30
    return frame


def number_of(frame: np.ndarray) -> int:
    """Read the number that `numbered_frame` drew."""
    assert frame.shape == (HEIGHT, WIDTH, 3)
    patches = frame[..., 0].reshape(2, 24, 8, 8)[:, 8:16, :, 2:6].mean(axis=(1, 3))
    return int(((patches.reshape(-1) > 125) << np.arange(16)).sum())


def shown(camera: str, index: int) -> int:
    """Return the number that a camera shows at a step counted through all episodes."""
    return index + (4096 if camera == "wrist" else 0)


def encode(
    path: Path,
    numbers: Sequence[int],
    codec: str = "libx264",
    group: int = 10,
    rate: int = RATE,
    options: Mapping[str, str] | None = None,
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    quality = {
        "libsvtav1": {"crf": "30", "preset": "12"},
        "libx265": {"x265-params": "log-level=0"},
    }
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream(
            codec,
            rate=rate,
            options={
                "g": str(group),
                "sc_threshold": "0",
                **quality.get(codec, {}),
                **(options or {}),
            },
        )
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        with keep_scheduling():
            stream.codec_context.open()
        for number in numbers:
            frame = av.VideoFrame.from_ndarray(numbered_frame(number), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def decode_all(path: Path) -> list[np.ndarray]:
    """Decode every frame from the first to the last, as any player shows them."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def arrays(steps: int, episode: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(episode)
    return tuple(rng.normal(size=(2, steps, 3)).astype(np.float32))  # type: ignore[return-value]


def png(number: int) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(numbered_frame(number)).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def write_lerobot(
    folder: Path,
    lengths: Sequence[int] = (7, 12, 5, 9, 3),
    version: str = "v3.0",
    keys: Sequence[str] = (TOP, WRIST),
    kind: str = "video",
    per_file: int = 2,
    files_per_chunk: int = 2,
    names: Any = ("shoulder", "elbow", "gripper"),
    **video: Any,
) -> Path:
    """Write a dataset; v3.0 has `per_file` episodes per file and two files per chunk."""
    form = FORMS[version]
    vector = {"dtype": "float32", "shape": [3], "names": list(names) if names else names}
    image = {
        "dtype": kind,
        "shape": [HEIGHT, WIDTH, 3],
        "names": ["height", "width", "channels"],
    }
    counters = ("frame_index", "episode_index", "index", "task_index")
    scalar = {"shape": [1], "names": None}
    features = {
        "observation.state": vector,
        "action": vector,
        "observation.state_of_mind": {"dtype": "float32", "shape": [2], "names": None},
        "next.done": {"dtype": "bool", **scalar},
        "timestamp": {"dtype": "float32", **scalar},
        **{name: {"dtype": "int64", **scalar} for name in counters},
        **dict.fromkeys(keys, image),
    }
    info: dict[str, Any] = {
        "codebase_version": version,
        "robot_type": "test_arm",
        "fps": RATE,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": 1,
        "chunks_size": files_per_chunk,
        "data_path": form["data"],
        "video_path": form["video"] if kind == "video" else None,
        "features": features,
    }
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    grouped = per_file if version == "v3.0" else 1
    rows: list[dict[str, Any]] = []
    for number, begin in enumerate(range(0, len(lengths), grouped)):
        group = range(begin, min(begin + grouped, len(lengths)))
        chunk, file = divmod(number, files_per_chunk)
        where = {"chunk_index": chunk, "file_index": file}
        where |= {"episode_chunk": chunk, "episode_index": begin}
        table = pa.concat_tables(
            [_table(lengths[e], e, starts[e], keys if kind == "image" else ()) for e in group]
        )
        data = folder / form["data"].format(**where)
        data.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, data, row_group_size=5)
        inside = range(starts[begin], starts[group[-1] + 1])
        for key in keys if kind == "video" else ():
            camera = key.rpartition(".")[2]
            path = folder / form["video"].format(video_key=key, **where)
            encode(path, [shown(camera, index) for index in inside], **video)
        for e in group:
            row = {
                "episode_index": e,
                "tasks": ["stack the cubes" if e else "pick the cube"],
                "length": lengths[e],
                "data/chunk_index": chunk,
                "data/file_index": file,
                "dataset_from_index": starts[e],
                "dataset_to_index": starts[e + 1],
                "stats/action/mean": [0.0, 0.0, 0.0],
            }
            for key in keys if kind == "video" else ():
                row |= {
                    f"videos/{key}/chunk_index": chunk,
                    f"videos/{key}/file_index": file,
                    f"videos/{key}/from_timestamp": (starts[e] - starts[begin]) / RATE,
                    f"videos/{key}/to_timestamp": (starts[e + 1] - starts[begin]) / RATE,
                }
            rows.append(row)
    (folder / "meta").mkdir(parents=True, exist_ok=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    if version != "v3.0":
        lines = [{k: row[k] for k in ("episode_index", "tasks", "length")} for row in rows]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "meta" / "episodes.jsonl").write_text(text)
    else:
        for number, part in enumerate((rows[:3], rows[3:])):  # the metadata are split as well
            path = folder / f"meta/episodes/chunk-000/file-{number:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            if part:
                pq.write_table(pa.Table.from_pylist(part), path)
    return folder


def _table(steps: int, episode: int, start: int, image_keys: Sequence[str]) -> pa.Table:
    state, action = arrays(steps, episode)
    index = np.arange(steps)

    def vectors(values: np.ndarray) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])

    return pa.table(
        {
            "observation.state": vectors(state),
            "action": vectors(action),
            "observation.state_of_mind": vectors(np.zeros((steps, 2), np.float32)),
            "next.done": pa.array(index == steps - 1),
            "timestamp": pa.array((index / RATE).astype(np.float32)),
            "frame_index": pa.array(index),
            "episode_index": pa.array(np.full(steps, episode)),
            "index": pa.array(start + index),
            "task_index": pa.array(np.zeros(steps, np.int64)),
            **{
                key: pa.array([png(shown(key.rpartition(".")[2], start + i)) for i in index])
                for key in image_keys
            },
        }
    )


def change_info(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "meta" / "info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


def change_table(path: Path, change: Callable[[dict[str, list[Any]]], Any]) -> None:
    """Rewrite a parquet file with some values changed and the same types."""
    table = pq.read_table(path)
    columns = table.to_pydict()
    change(columns)
    pq.write_table(
        pa.table({name: pa.array(v, table.schema.field(name).type) for name, v in columns.items()}),
        path,
    )


def drift(by):
    def change(columns):
        for end in ("from", "to"):
            columns[f"videos/{TOP}/{end}_timestamp"][1] += by

    return change
