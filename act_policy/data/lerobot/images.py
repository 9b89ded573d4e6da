"""Images in the columns of a LeRobotDataset: encoded in the column, or in files that it names."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from act_policy.data.lerobot.metadata import Metadata, open_parquet
from act_policy.data.video.decoder import BrokenFrameError
from act_policy.errors import UserError
from act_policy.images.decode import DeepImageError, decode_rgb

IMAGES_FOLDER = "images"
"""Where LeRobot puts the files of images."""


class ImageColumn:
    """Images of one camera in a parquet file, one row group in memory at a time.

    Args:
        path: the parquet file.
        key: the column: struct(bytes, path), or bytes.
        folder: the dataset's, for images in files of their own.
    """

    def __init__(self, path: Path, key: str, folder: Path) -> None:
        self.path, self._key, self._folder = path, key, folder
        with open_parquet(path) as file:
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self._ends = np.cumsum(groups)
        self._loaded: tuple[int, int, pa.Array] | None = None

    def frame(self, row: int) -> np.ndarray:
        """Return uint8 (h, w, 3); raises BrokenFrameError."""
        group = int(np.searchsorted(self._ends, row, side="right"))
        if self._loaded is None or self._loaded[0] != group:
            begin = int(self._ends[group - 1]) if group else 0
            try:
                with open_parquet(self.path) as file:
                    table = file.read_row_group(group, columns=[self._key])
            except (pa.ArrowException, OSError) as error:
                raise BrokenFrameError(f"{error}") from None
            self._loaded = group, begin, table.column(self._key).combine_chunks()
        content = content_of(self._loaded[2][row - self._loaded[1]].as_py(), self._folder)
        try:
            return decode_rgb(content)
        except DeepImageError as error:
            raise BrokenFrameError(f"it has more than 8 bits per pixel ({error})") from None
        except Exception as error:  # a broken header makes Pillow raise almost anything
            raise BrokenFrameError(f"{error}") from None


def content_of(value: Any, folder: Path) -> bytes:
    """Return an image's encoded bytes; raises BrokenFrameError."""
    content = value.get("bytes") if isinstance(value, dict) else value
    name = value.get("path") if isinstance(value, dict) else None
    if content is None and name:
        if (file := find_image(folder, name)) is None:
            raise BrokenFrameError(f"it is in the file {name}, which is not there")
        try:
            return file.read_bytes()
        except OSError as error:
            raise BrokenFrameError(f"{file}: {error.strerror}") from None
    if not isinstance(content, bytes):
        raise BrokenFrameError("the file holds no bytes of this frame")
    return content


def find_image(folder: Path, name: str) -> Path | None:
    """Find the file of an image by the name in a column; None where it is not there.

    The name may be that of the computer that recorded, so the part from "images" on counts, too.
    """
    parts = PurePosixPath(name.replace("\\", "/")).parts
    places = [Path(*parts)]
    if IMAGES_FOLDER in parts:
        last = len(parts) - 1 - parts[::-1].index(IMAGES_FOLDER)
        places.append(Path(*parts[last:]))
    return next((folder / place for place in places if (folder / place).is_file()), None)


def first_value(metadata: Metadata, key: str) -> Any:
    """Return the first value in a column of images; None where no file can be read."""
    for path in dict.fromkeys(entry.data for entry in metadata.episodes):
        with suppress(UserError), open_parquet(path) as file:
            batch = next(file.iter_batches(batch_size=1, columns=[key]))
            return batch.column(0)[0].as_py()
    return None


def is_by_name(value: Any) -> bool:
    """Whether a column's value names a file that holds the image."""
    return isinstance(value, dict) and value.get("bytes") is None and bool(value.get("path"))


def image_files(path: Path, key: str, rows: slice, folder: Path) -> Iterator[Path]:
    """Yield the files that rows of a column name, those that are there."""
    with open_parquet(path) as parquet:
        names = parquet.read(columns=[f"{key}.path"]).column(key)
    for value in names.slice(rows.start, rows.stop - rows.start).to_pylist():
        if value.get("path") and (file := find_image(folder, value["path"])) is not None:
            yield file
