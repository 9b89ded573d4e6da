"""metrics.csv: one row per logged step, readable during training, continued by a resumed run."""

import csv
import io
import math
import time
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

from act_policy.errors import writing
from act_policy.system.atomic import atomic_file

SECONDS_BETWEEN_WRITES = 5.0  # each checkpoint and the end write as well


class MetricsFile(Logger):
    """A Lightning logger that keeps every row of a run in one CSV file.

    All values logged for a step share one row; a cell is empty if the step has no such value. The
    file is replaced as a whole, so a reader never sees half a row.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self.rows: list[dict[str, str]] = []
        self._unsaved = False
        self._saved_at = -math.inf

    @property
    def name(self) -> str:
        """Name the file."""
        return self.path.name

    @property
    def version(self) -> str:
        """Give no version: a run has one file only."""
        return ""

    @rank_zero_only
    def continue_from(self, step: int) -> None:
        """Keep the rows of the run up to this step; the steps after it are trained again."""
        if self.path.is_file():
            with self.path.open(newline="") as file:
                rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(file)]
            self.rows = [row for row in rows if int(row["step"]) <= step]
            self._unsaved = True

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | int], step: int | None = None) -> None:
        """Add values to the row of a step, which may be one of the past."""
        number = 0 if step is None else step
        place = bisect_left(self.rows, number, key=lambda row: int(row["step"]))
        if place == len(self.rows) or self.rows[place]["step"] != str(number):
            self.rows.insert(place, {"step": str(number)})
        self.rows[place].update({name: f"{value:.6g}" for name, value in metrics.items()})
        self._unsaved = True
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_WRITES:
            self.save()

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing: config.yaml beside the file holds them."""

    @rank_zero_only
    def save(self) -> None:
        """Write the rows if any were added; raise UserError if the file cannot be written."""
        if not self._unsaved:
            return
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        with writing(self.path), atomic_file(self.path) as file:
            file.write(text.getvalue().encode())
        self._unsaved = False
        self._saved_at = time.monotonic()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Write the last rows."""
        self.save()
