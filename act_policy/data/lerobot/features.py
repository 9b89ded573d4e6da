"""A LeRobotDataset's descriptions of its columns and tasks, for writing."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from act_policy.data.lerobot.metadata import open_parquet, read_columns
from act_policy.errors import UserError
from act_policy.types import Camera

IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def image_feature(camera: Camera, as_video: bool) -> dict[str, Any]:
    """Describe one camera; details of a video are added when it is written."""
    return {
        "dtype": "video" if as_video else "image",
        "shape": [camera.height, camera.width, 3],
        "names": ["height", "width", "channels"],
    }


def arrow_schema(features: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of the data files."""
    return pa.schema(
        [
            (key, _arrow_type(key, feature["dtype"], tuple(feature["shape"])))
            for key, feature in features.items()
            if feature["dtype"] != "video"
        ]
    )


def _arrow_type(key: str, dtype: str, shape: tuple[int, ...]) -> pa.DataType:
    if dtype == "image":
        return IMAGE_TYPE
    if dtype in ("string", "language"):
        return pa.string()
    try:
        kind = pa.from_numpy_dtype(np.dtype(dtype))
    except (TypeError, pa.ArrowException):
        raise UserError(f"feature {key} has the unknown dtype {dtype}") from None
    if shape == (1,):
        return kind
    if len(shape) == 1:
        return pa.list_(kind, shape[0])
    for _ in shape:
        kind = pa.list_(kind)
    return kind


def read_tasks(folder: Path) -> list[str]:
    """Read the texts of `task_index` 0, 1, 2, ...; empty if the folder has no list of tasks."""
    lines, table = folder / "meta" / "tasks.jsonl", folder / "meta" / "tasks.parquet"
    found: dict[int, str] = {}
    if table.exists():
        with open_parquet(table) as file:
            names = [name for name in file.schema_arrow.names if name != "task_index"]
        for row in read_columns(table, ["task_index", *names[:1]]).to_pylist():
            found[int(row["task_index"])] = str(row[names[0]]) if names else ""
    elif lines.exists():
        try:
            for line in lines.read_text(encoding="utf-8").splitlines():
                if line.strip():
                    row = json.loads(line)
                    found[int(row["task_index"])] = str(row["task"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{lines}: is not a list of tasks ({error!r})") from None
    return [found.get(index, "") for index in range(max(found, default=-1) + 1)]


def write_tasks(path: Any, tasks: list[str]) -> None:
    """Write the texts as a pandas index, which is how LeRobot reads them."""
    column = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
    text = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    about = {
        "index_columns": ["task"],
        "column_indexes": [
            {"name": None, "field_name": None, **text, "metadata": {"encoding": "UTF-8"}}
        ],
        "columns": [
            {"name": "task_index", "field_name": "task_index", **column},
            {"name": "task", "field_name": "task", **text},
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.2.0",
    }
    table = pa.table(
        {
            "task_index": pa.array(range(len(tasks)), pa.int64()),
            "task": pa.array(tasks, pa.string()),
        }
    )
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(about)}), path)
